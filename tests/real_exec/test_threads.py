"""Communication on a thread of its own: rows run beside computation, wait for what they depend on, and end together."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from stream_case import choice, hyper, planned, prepared, stream

from chronoscale.batching.snapshots.chunks import Chunks, ExactChunking
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.lanes import CpuLanes, Threads, make_lanes
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.job import Item
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.flaredtdg.strategy import FLAREDTDG, IN_ORDER
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Lane, Op
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import EventHyper, Hyper, SharingHyper, Workload

CPU = torch.device("cpu")


def task(number: int, lane: Lane, *deps: int) -> Task:
    return Task(number, Op.ALLTOALL if lane is Lane.COMM else Op.AGGREGATE, lane, 0, 0, 0, 0, 0, deps)


def test_an_exchange_runs_beside_a_computation() -> None:
    """Each waits for the other to have begun: on one thread neither would end."""
    both, threads = threading.Barrier(2, timeout=20), {}

    def run(one: Task) -> None:
        threads[one.task] = threading.current_thread()
        both.wait()

    CpuLanes(False, beside=True).run([task(0, Lane.COMM), task(1, Lane.COMPUTE)], run)
    assert threads[0] is not threads[1] is threading.current_thread()


@pytest.mark.parametrize("host", [False, True])
def test_rows_wait_for_what_they_depend_on(host: bool) -> None:
    """Whatever thread they are on: starts are after ends, and a lane's rows are in order."""
    rng = np.random.default_rng(0)
    lanes = [Lane.COMPUTE, Lane.COMM, Lane.HOST, Lane.H2D]
    rows = [task(i, lanes[rng.integers(4)], *rng.choice(i, min(i, 2), replace=False).tolist()) for i in range(200)]
    result, order, of = CpuLanes(host, beside=True), list[int](), dict[Lane, set[int]]()
    lock = threading.Lock()

    def run(one: Task) -> None:
        with lock:
            order.append(one.task)
            of.setdefault(one.lane, set()).add(threading.get_ident())

    start, end = result.run(rows, run)
    assert sorted(order) == list(range(200)) and all(len(threads) == 1 for threads in of.values())
    for row in rows:
        assert all(end[dep] <= start[row.task] for dep in row.deps)
    for lane in lanes:
        mine = [row.task for row in rows if row.lane is lane]
        assert all(end[one] <= start[other] for one, other in pairwise(mine))
    assert of[Lane.COMM].isdisjoint(of[Lane.COMPUTE]) and (of[Lane.HOST] == of[Lane.COMPUTE]) == (not host)


@pytest.mark.parametrize("lane", [Lane.COMM, Lane.COMPUTE])
def test_an_exception_ends_all(lane: Lane) -> None:
    """On either thread; it is raised where the lanes were run, and nothing runs on."""
    other = Lane.COMPUTE if lane is Lane.COMM else Lane.COMM
    ran = []

    def run(one: Task) -> None:
        if one.task == 1:
            raise RuntimeError("connection lost")
        ran.append(one.task)

    before = threading.active_count()
    with pytest.raises(RuntimeError, match="connection lost"):
        CpuLanes(False, beside=True).run([task(0, lane), task(1, lane, 0), task(2, other, 1), task(3, lane, 2)], run)
    assert ran == [0] and threading.active_count() == before


def test_lanes_that_share_a_thread() -> None:
    beside, both = make_lanes(CPU, Threads(communication=True)).streams, make_lanes(CPU, Threads(True, True)).streams
    assert make_lanes(CPU).streams == (tuple(Lane),)
    for streams in (beside, both):
        assert streams[0] == (Lane.COMM,) and sorted(lane for stream in streams for lane in stream) == sorted(Lane)
    assert len(beside) == 2 and len(both) == 3


def windows() -> Workload:
    graphs = GrowthGraph.rmat(40, 120, 12, 0.1, 1).sequence().without_self_edges()
    chunks = ExactChunking(graphs, Chunks((np.arange(40) % 16).astype(np.int32), 16))
    return Workload("w", statistics_of(graphs), model_shape("t-gcn", 2, 4, 2, 2), Hyper(task="degrees"), chunking=chunks)


def test_who_gets_a_thread() -> None:
    """Schedules whose exchanges may overlap: windows on several ranks, and pipelines of batches; no other schedule's do."""
    work = windows()
    assert Threads.of(FLAREDTDG.plan(work, 2, UNUSED), False) == Threads(False, True)
    assert Threads.of(FLAREDTDG.plan(work, 2, UNUSED), True) == Threads(True, True)
    assert Threads.of(FLAREDTDG.plan(work, 1, UNUSED), False) == Threads()
    assert Threads.of(IN_ORDER.plan(work, 2, UNUSED), False) == Threads()  # nothing would run beside it
    assert Threads.of(strategy("esdg").plan(work, 2, UNUSED), False) == Threads()


def test_rows_that_are_timed_for_a_fit_run_alone() -> None:
    """On one thread, whatever could run beside them: what a row takes beside others is the simulator's to say."""
    schedule, context = FLAREDTDG.plan(windows(), 2, UNUSED), Context()
    fitted, trained = (context.for_item(Item("x", "", "", Hyper(), probes=probes)) for probes in (True, False))
    assert fitted.lanes(schedule).streams == (tuple(Lane),)
    assert trained.lanes(schedule).streams == context.lanes(schedule).streams == make_lanes(CPU, Threads(communication=True)).streams


@pytest.mark.parametrize("name", ["memshare", "mspipe", "disttgl", "tgl-dist", "memshare-negatives"])
def test_who_gets_threads_where_memory_is_spread(tmp_path: Path, name: str) -> None:
    """Pipelines; where each row waits for the one before it, through rows of the host or not, a thread would be of no use."""
    folder, arguments = prepared(tmp_path, stream(events=200)), hyper("tgn", events=EventHyper(sharing=SharingHyper(shared=0.25)))
    beside = strategy(name).sharing.pipelined  # type: ignore[attr-defined]
    assert Threads.of(planned(folder, choice("tgn"), arguments, name, 2), False) == Threads(beside, beside)
    assert Threads.of(planned(folder, choice("tgn"), arguments, name, 1), False) == Threads()
