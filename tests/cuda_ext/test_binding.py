"""Bound threads: the same results, each where it belongs, the caller where it was."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from native_case import HAS_CPU

from chronoscale.cuda_ext.sampling import bound_threads
from chronoscale.cuda_ext.sampling.bound_threads import bind, format_cpu_list, threads_bound_to, unbind
from chronoscale.cuda_ext.sampling.temporal import POLICIES, Policy
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import MachineError, UserError

pytestmark = pytest.mark.skipif(not HAS_CPU or not hasattr(os, "sched_getaffinity"), reason="needs the native library and Linux")
ALLOWED = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


@pytest.fixture(autouse=True)
def unbound() -> Iterator[None]:
    yield
    unbind()


def masks() -> dict[int, str]:
    """Of every thread of this process, the CPUs that it may use, in the system's words."""
    found = {}
    for status in Path("/proc/self/task").glob("*/status"):
        line = next(line for line in status.read_text().splitlines() if line.startswith("Cpus_allowed_list"))
        found[int(status.parent.name)] = line.split()[1]
    return found


def sampled(graph: TCSR, count: int, policy: Policy = "recent", threads: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(count)
    node = rng.integers(-1, graph.num_nodes, count).astype(np.int32)
    return list(graph.sample(node, rng.integers(0, 9000, count).astype(np.int32), 7, policy, 3, threads))


def graph() -> TCSR:
    src, dst = np.random.default_rng(1).integers(0, 300, (2, 9000)).astype(np.int32)
    return TCSR.of(EventStream(300, src, dst, np.arange(9000)))


@pytest.mark.parametrize("policy", POLICIES)
def test_results_are_those_of_unbound_threads(policy: Policy) -> None:
    """Fewer roots than threads, none, parts that are empty, and more than one part of a task."""
    tcsr = graph()
    for count in (0, 1, 2, 5, 31, 1000, 20_001):
        expected = sampled(tcsr, count, policy, 1)
        for threads in range(1, len(ALLOWED) + 1):
            with threads_bound_to(ALLOWED[:threads]):
                for a, b in zip(sampled(tcsr, count, policy), expected, strict=True):
                    assert np.array_equal(a, b)


def test_each_thread_has_its_cpu_and_the_caller_keeps_its_own() -> None:
    tcsr, mine = graph(), os.sched_getaffinity(0)
    before = set(masks())
    order = ALLOWED[::-1]
    with threads_bound_to(order):
        sampled(tcsr, 5000)
        fresh = {thread: mask for thread, mask in masks().items() if thread not in before}
        assert [fresh[thread] for thread in sorted(fresh)] == [str(cpu) for cpu in order]
        assert os.sched_getaffinity(0) == mine and masks()[threading.get_native_id()] == format_cpu_list(mine)
        assert bound_threads.thread_count() == len(order)
    assert set(masks()) <= before and bound_threads.thread_count() == 0


def test_a_new_binding_takes_the_place_of_the_old_one() -> None:
    before = set(masks())
    for cpus in (ALLOWED[:1], ALLOWED, ALLOWED[:2]):
        bind(cpus)
        assert bound_threads.thread_count() == len(cpus) == len(set(masks()) - before)
    with (
        pytest.raises(UserError, match=rf"^bind: {len(ALLOWED[:2])} threads are bound already; one binding at a time$"),
        threads_bound_to(ALLOWED),
    ):
        pass
    unbind()
    unbind()
    assert set(masks()) <= before
    with threads_bound_to(()):
        assert bound_threads.thread_count() == 0


def test_callers_take_turns_while_threads_are_bound_and_unbound() -> None:
    tcsr = graph()
    expected, wrong, ended = sampled(tcsr, 4000, threads=1), [], threading.Event()

    def caller() -> None:
        while not ended.is_set():
            if not all(map(np.array_equal, sampled(tcsr, 4000), expected)):
                wrong.append(1)

    callers = [threading.Thread(target=caller) for _ in range(3)]
    for one in callers:
        one.start()
    for round in range(60):
        bind(ALLOWED[: 1 + round % len(ALLOWED)]) if round % 3 else unbind()
    ended.set()
    for one in callers:
        one.join()
    assert not wrong


def test_a_malformed_row_is_refused_by_bound_threads_too() -> None:
    tcsr = graph()
    broken = TCSR(tcsr.indptr, tcsr.neighbor, tcsr.event)
    broken.indptr[5] = 10**9
    with threads_bound_to(ALLOWED), pytest.raises(UserError, match=r"^sample: node ids must lie in"):
        broken.sample(np.arange(300, dtype=np.int32), np.full(300, 9000, np.int32), 3)


def test_a_forked_child_is_not_bound() -> None:
    tcsr = graph()
    expected = sampled(tcsr, 20_000)
    with threads_bound_to(ALLOWED):
        sampled(tcsr, 20_000)
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # a deadlock ends the child, and the test fails
            sound = bound_threads.thread_count() == 0 and all(map(np.array_equal, sampled(tcsr, 20_000), expected))
            bind(ALLOWED[:1])
            sound = sound and bound_threads.thread_count() == 1 and all(map(np.array_equal, sampled(tcsr, 20_000), expected))
            os._exit(0 if sound else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0 and bound_threads.thread_count() == len(ALLOWED)


def test_cpus_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = format_cpu_list(set(ALLOWED))
    with pytest.raises(UserError, match=rf"^bind: this process may not use CPU 5000; it may use {allowed}$"):
        bind([ALLOWED[0], 5000])
    with pytest.raises(UserError, match=r"^bind: 2 CPUs, 1 of them different; expected 1 to 1024, each once$"):
        bind([ALLOWED[0]] * 2)
    with pytest.raises(UserError, match=r"^bind: 0 CPUs, 0 of them different"):
        bind([])
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 999, 5000})  # the system itself says no
    for cpu in (999, 5000):
        with pytest.raises(MachineError, match=rf"^the system did not bind threads to the CPUs {cpu}; is one of them offline\?$"):
            bind([cpu])
        assert bound_threads.thread_count() == 0
    monkeypatch.setattr(bound_threads, "cpu_library", lambda: None)
    assert bound_threads.thread_count() == 0
    with pytest.raises(MachineError, match=r"^threads cannot be bound: no native library$"):
        bind([0])


def test_numbers_as_the_system_writes_them() -> None:
    assert [format_cpu_list(cpus) for cpus in ({3}, {0, 1, 2}, {0, 2, 3, 7})] == ["3", "0-2", "0,2-3,7"]
