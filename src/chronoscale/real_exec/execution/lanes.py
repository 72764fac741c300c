"""Lanes: what runs the rows of one rank and times them: streams, events and host threads on a GPU; one to three threads on a CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch

from chronoscale.real_exec.execution.device_lanes import CudaStreams, DeviceLanes
from chronoscale.real_exec.execution.row_threads import RowThreads
from chronoscale.real_exec.execution.sleep import sleep_until
from chronoscale.real_exec.execution.task import Task
from chronoscale.strategies.cluster import CPU_STREAMS
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule

OVERLAPPING_KINDS = ("blocks", "spread")  # kinds of schedules whose communication may overlap
INLINE = (tuple(Lane),)  # one thread for everything
Run = Callable[[Task], None]


class Lanes(Protocol):
    """A runner of one rank's rows on its device, each lane's in order and after what they depend on, which also times them.

    timed: whether these times mean anything.
    """

    timed: bool

    @property
    def streams(self) -> tuple[tuple[Lane, ...], ...]:
        """Return the sets of lanes that run on one stream or thread, one row after another; the simulator models the same."""
        ...

    def run(self, tasks: Sequence[Task], program: Run) -> tuple[Ints, Ints]:
        """Run all of a rank's rows by `program`; return start and end of each, ns of `time.perf_counter_ns`, int64 [len(tasks)]."""
        ...


class CpuLanes:
    """Lanes of a rank on a CPU: all rows run on the calling thread, or some on further ones.

    threaded: host and transfer lanes have a second thread; beside: communication has its own. bus: bytes a second at most of host-to-device
    and device-to-host rows, in place of a bus that a CPU rank does not have; the remaining time is slept. 0: no limit.
    """

    timed = True

    def __init__(self, threaded: bool, bus: float = 0.0, beside: bool = False) -> None:
        self.streams: tuple[tuple[Lane, ...], ...] = CPU_STREAMS if threaded else INLINE
        if beside:
            rest = [tuple(lane for lane in lanes if lane is not Lane.COMM) for lanes in self.streams]
            self.streams = ((Lane.COMM,), *rest)
        self._bus = bus

    def run(self, tasks: Sequence[Task], program: Run) -> tuple[Ints, Ints]:
        """Run all of a rank's rows; a row is timed from when it could have started (`possible_starts`).

        An exception on any thread ends all, and is raised here.
        """
        times = np.zeros((2, len(tasks)), np.int64)
        of = {lane: i for i, lanes in enumerate(self.streams) for lane in lanes}
        at = {task.task: i for i, task in enumerate(tasks)}

        def step(i: int, task: Task) -> None:
            times[0, i] = time.perf_counter_ns()
            program(task)
            if self._bus and task.lane in (Lane.H2D, Lane.D2H):
                sleep_until(times[0, i] + round(task.bytes / self._bus * 1e9))
            times[1, i] = time.perf_counter_ns()

        threads, needs = len(self.streams), [[at[dep] for dep in task.deps] for task in tasks]
        thread = [of[task.lane] for task in tasks]
        RowThreads(tasks, thread, needs, threads).run([step] * threads)
        return possible_starts(times, thread, needs), times[1]


class VirtualLanes:
    """Lanes of a virtual rank: all rows run on the thread that executes the rank, in the order of the schedule, and nothing is timed."""

    timed = False
    streams: tuple[tuple[Lane, ...], ...] = INLINE

    def run(self, tasks: Sequence[Task], program: Run) -> tuple[Ints, Ints]:
        """Run all rows of a virtual rank; return zeros, int64 [tasks], in place of times."""
        for task in tasks:
            program(task)
        return np.zeros(len(tasks), np.int64), np.zeros(len(tasks), np.int64)


def possible_starts(times: Ints, thread: Sequence[int], needs: Sequence[Sequence[int]]) -> Ints:
    """Return when each row that a CPU rank ran could have started, int64 [tasks]: when its thread was free, and all that it depends on had
    ended.

    times: measured starts and ends, ns int64 [2, tasks]. thread: the number of each row's thread. needs: the places of the rows that each
    depends on. Between that moment and a row's first instruction the interpreter looks up the row and a sleeping thread wakes up. No other
    row accounts for that time, so it is counted to this one; a rank's rows then fill its thread, as in a simulation. The first row of a
    thread that depends on nothing starts when it did.
    """
    starts = times[0].tolist()
    ends = times[1].tolist()
    free = dict[int, int]()
    for i, own in enumerate(thread):
        known = [ends[need] for need in needs[i]] + ([free[own]] if own in free else [])
        if known:
            starts[i] = min(max(known), starts[i])
        free[own] = ends[i]
    return np.array(starts, np.int64)


def make_lanes(device: torch.device, threads: Threads | None = None, bus: float = 0.0) -> Lanes:
    """Return what runs a rank's rows on a device: CUDA streams on a GPU; on a CPU one thread, or the further ones in `threads`.

    bus: on a CPU, bytes a second at most of rows that copy between host and device; 0: no limit. One thread is the default on a CPU: what
    another core has copied lies in that core's cache, and handing it over costs more than overlap gains (docs/execution.md).
    """
    if device.type == "cuda":
        return DeviceLanes(CudaStreams(device))
    threads = threads or Threads()
    return CpuLanes(threads.host, bus, threads.communication)


class Threads(NamedTuple):
    """Choice of the lanes that have a thread of their own on a rank's CPU, apart from computation."""

    host: bool = False
    communication: bool = False

    @classmethod
    def of(cls, schedule: Schedule, asked: bool) -> Threads:
        """Choose the threads on which a rank on a CPU runs a schedule.

        The host lane gets its own where that is `asked` for, prefetches from a mapped file, or samples in the background (MemShare §4.1);
        communication where a schedule of windows, or of pipelined batches, can overlap it with computation.
        """
        fetches = bool(((schedule.op == Op.FETCH) & (schedule.lane == Lane.HOST)).any())
        beside = schedule.kind in OVERLAPPING_KINDS and _overlaps(schedule)
        return cls(asked or fetches or (beside and schedule.kind == "spread"), beside)


def _overlaps(schedule: Schedule) -> bool:
    """Return whether some communication of rank 0 may run beside a computation: not where each row waits for the one before it."""
    rows = np.flatnonzero((schedule.rank == 0) & np.isin(schedule.lane, (Lane.COMPUTE, Lane.COMM)))
    turns = np.flatnonzero(np.diff(schedule.lane[rows].astype(int)))
    return any(not _waits(schedule, int(rows[turn + 1]), int(rows[turn])) for turn in turns)


def _waits(schedule: Schedule, row: int, earlier: int) -> bool:
    """Return whether `row` depends on an earlier one, directly or through others."""
    reached, left = {row}, [row]
    while left and earlier not in reached:
        later = {int(dep) for dep in schedule.dependencies(left.pop()) if dep >= earlier} - reached
        reached |= later
        left += later
    return earlier in reached
