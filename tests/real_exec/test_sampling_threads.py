"""Sampling threads of a rank, bound to processors, or not, and why."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from native_case import needs_cpu
from stream_case import choice, hyper, planned, prepared, program, stream

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.sampling import thread_binding
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.batching.streams.sampling.thread_binding import choose_processors
from chronoscale.cuda_ext.sampling import bound_threads
from chronoscale.cuda_ext.sampling.cpu_topology import CpuTopology
from chronoscale.errors import UserError
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.measurement.kernels import AbsentPeers
from chronoscale.real_exec.streams import sampling_threads as crews
from chronoscale.real_exec.streams.sampling_threads import SamplingThreads
from chronoscale.strategies.workload import EventHyper

MINE = sorted(os.sched_getaffinity(0))
several = pytest.mark.skipif(len(MINE) < 2, reason="one CPU")


def described(folder: Path, siblings: bool, cpus: int = len(MINE)) -> str:
    """A file that says that this process's CPUs share cores in pairs, or that they share nothing but one L3."""
    path = folder / f"topology-{siblings}-{cpus}"
    rows = [f"{cpu},{at // 2 if siblings else at},0,0,{at}:{at}:{at // 2 if siblings else at}:0" for at, cpu in enumerate(MINE[:cpus])]
    path.write_text("\n".join(["# CPU,Core,Socket,Node,L1d:L1i:L2:L3", *rows]) + "\n")
    return str(path)


@pytest.fixture(autouse=True)
def not_under_a_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("crew"), stream(features=3, events=80))


def crew(folder: Path, threads: int, topology: str) -> SamplingThreads:
    return SamplingThreads(PreparedStream.load(folder), hyper("tgn"), False, Context(Settings(threads=threads, topology=topology)))


@several
def test_threads_are_near_by_the_events_that_are_sampled(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of `fast-published` only those that a node sends."""
    sampled, affinity = [], crews.thread_affinity
    monkeypatch.setattr(crews, "thread_affinity", lambda tcsr, *others: (sampled.append(tcsr), affinity(tcsr, *others))[1])
    context, data = Context(Settings(threads=2, topology=described(tmp_path, True))), PreparedStream.load(folder)
    for outgoing in (False, True):
        SamplingThreads(data, hyper("tgat"), Sampling((3,), unique=False, outgoing=outgoing), context)
    whole, sent = (len(tcsr.event) for tcsr in sampled)
    assert sent == len(data.training.stream) < whole


@several
@needs_cpu
def test_threads_that_share_a_core_are_bound_while_an_epoch_lasts(tmp_path: Path, folder: Path) -> None:
    chosen, arguments = choice("tgn"), hyper("tgn", events=EventHyper(presample=3))
    losses = {}
    for name in ("tgl", "fast"):
        schedule = planned(folder, chosen, arguments, name)
        built = program(folder, schedule, chosen, arguments, Context(Settings(threads=2, topology=described(tmp_path, True))))
        assert built.steps.threads == (0 if name == "fast" else 2)  # 0: those that are bound
        seen, run = set(), built.run
        built.run = lambda task, run=run, seen=seen: (
            seen.add((bound_threads.thread_count(), tuple(sorted(os.sched_getaffinity(0))))),
            run(task),
        )
        losses[name] = execute(schedule, built, CpuLanes(False), "cpu").losses
        assert (
            seen == {(2 if name == "fast" else 0, tuple(MINE))} and bound_threads.thread_count() == 0
        )  # the thread that trains may go anywhere
    assert (losses["tgl"] == losses["fast"]).all()


@several
def test_where_nothing_is_shared_nothing_is_bound(tmp_path: Path, folder: Path) -> None:
    chosen, arguments = choice("tgat"), hyper("tgat")
    schedule = planned(folder, chosen, arguments, "fast")
    context = Context(Settings(threads=2, topology=described(tmp_path, False)))
    built = program(folder, schedule, chosen, arguments, context)
    assert built.steps.threads == 2
    assert np.isfinite(execute(schedule, built, CpuLanes(False), "cpu").losses).all() and bound_threads.thread_count() == 0
    assert "no two of" in crew(folder, 2, described(tmp_path, False)).note


def test_one_thread_has_nobody_to_be_near(folder: Path) -> None:
    built = crew(folder, 1, "")
    assert (built.cpus, built.note) == ((), "")


@several
@pytest.mark.parametrize(
    ("threads", "rank", "ranks", "message"),
    [
        (len(MINE) + 2, 0, 1, f"{len(MINE) + 2} threads of each of 1 ranks, and {len(MINE)} CPUs"),
        (2, 0, len(MINE), f"2 threads of each of {len(MINE)} ranks, and {len(MINE)} CPUs"),
        (2, 1, len(MINE) + 1, f"rank 1 of {len(MINE) + 1} on {len(MINE)} CPUs"),
    ],
)
def test_threads_that_find_no_place_are_not_bound_and_it_says_why(
    tmp_path: Path, threads: int, rank: int, ranks: int, message: str
) -> None:
    own, note = choose_processors(described(tmp_path, True), threads, rank, ranks)
    assert own is None and note.startswith("sampling threads are not bound: ") and message in note


def test_a_system_that_does_not_tell_binds_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path) -> None:
    here = CpuTopology.detect.__func__
    monkeypatch.setattr(CpuTopology, "detect", classmethod(lambda cls: here(cls, tmp_path)))
    built = crew(folder, 2, "")
    assert built.cpus == () and built.note.startswith("sampling threads are not bound: the system does not tell")
    monkeypatch.setattr(thread_binding, "cpu_library", lambda: None)
    assert choose_processors("", 2, 0, 1) == (None, "sampling threads are not bound: there is no native library")


def test_what_cannot_be_had_is_one_line(tmp_path: Path, folder: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text("0,zero,0,0,0:0:0:0\n")
    with pytest.raises(UserError, match=rf"{bad}.*1"):
        crew(folder, 2, str(bad))


def test_a_launcher_says_how_many_ranks_a_machine_has(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third rank of four is its machine's only one, and has all of its processors to choose from."""
    for name, value in (("RANK", "2"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "1")):
        monkeypatch.setenv(name, value)
    calls = []
    monkeypatch.setattr(crews, "choose_processors", lambda file, threads, rank, ranks: calls.append((rank, ranks)) or (None, ""))
    SamplingThreads(PreparedStream.load(folder), hyper("tgn"), False, Context(Settings(threads=2), rank=2, collective=AbsentPeers(4)))
    assert calls == [(0, 1)]


@several
def test_ranks_of_one_machine_have_processors_of_their_own(tmp_path: Path, folder: Path) -> None:
    file, result = described(tmp_path, True, len(MINE) // 2 * 2), []
    for rank in range(2):
        context = Context(Settings(threads=len(MINE) // 2, topology=file), rank=rank, collective=AbsentPeers(2))
        built = SamplingThreads(PreparedStream.load(folder), hyper("tgn"), False, context)
        result.append(set(built.cpus))
    assert not result[0] & result[1]
