"""Lanes: how the rows of one rank are set in motion and timed. Streams, events and host threads on CUDA; one or two threads on CPU."""

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
    """Runs tasks in row order, respecting lanes and dependencies. `streams` is how the simulator has to model it."""

    @property
    def streams(self) -> tuple[tuple[Lane, ...], ...]:
        """Lanes that share a FIFO."""
        ...

    def run(self, tasks: Sequence[Task], program: Run) -> tuple[Ints, Ints]:
        """Execute; returns start and end of each task, int64 [len(tasks)], ns on the clock of `time.perf_counter_ns`."""
        ...


class CpuLanes:
    """Rows in order on this thread; or, threaded, host and transfer lanes on a second one; or, `beside`, communication on one of its own.

    bus: bytes a second at which rows of the transfer lanes get done at most, as over a bus that a CPU rank does not have: what is left of
    their time is slept. 0: as fast as memory.
    """

    def __init__(self, threaded: bool, bus: float = 0.0, beside: bool = False) -> None:
        self.streams: tuple[tuple[Lane, ...], ...] = CPU_STREAMS if threaded else INLINE
        if beside:
            rest = [tuple(lane for lane in lanes if lane is not Lane.COMM) for lanes in self.streams]
            self.streams = ((Lane.COMM,), *rest)
        self._bus = bus

    def run(self, tasks: Sequence[Task], program: Run) -> tuple[Ints, Ints]:
        """As `Lanes.run`; starts as `since`. An exception on either thread ends both and is raised here."""
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


def possible_starts(times: Ints, thread: Sequence[int], needs: Sequence[Sequence[int]]) -> Ints:
    """When each row could start: its thread was free, and what it waits for had ended; int64 [tasks], of starts and ends int64 [2, tasks].

    Between that and its first line the interpreter looks for the row, and a thread that slept wakes up: time that a schedule has no other
    row for. It is part of what the row costs, so that a rank's rows fill its thread, as they do in a replay. The first row of a thread that
    waits for nothing starts where it did.
    """
    starts, ends, free = times[0].tolist(), times[1].tolist(), dict[int, int]()
    for i, own in enumerate(thread):
        known = [ends[need] for need in needs[i]] + ([free[own]] if own in free else [])
        if known:
            starts[i] = min(max(known), starts[i])
        free[own] = ends[i]
    return np.array(starts, np.int64)


def make_lanes(device: torch.device, threads: Threads | None = None, bus: float = 0.0) -> Lanes:
    """CUDA streams on a GPU; on CPU one thread, or further ones (CpuLanes); the rate of transfers may be limited there.

    In line is the default on CPU: what another core has copied lies in that core's cache, and handing over costs more than overlap
    gains (docs/execution.md).
    """
    if device.type == "cuda":
        return DeviceLanes(CudaStreams(device))
    threads = threads or Threads()
    return CpuLanes(threads.host, bus, threads.communication)


class Threads(NamedTuple):
    """Lanes that have a thread of their own on CPU, beside that of computation: the host's, and those of communication."""

    host: bool = False
    communication: bool = False

    @classmethod
    def of(cls, schedule: Schedule, asked: bool) -> Threads:
        """The host's where they are asked for, a schedule prefetches from a mapped part, or samples in the background (MemShare §4.1);
        communication where windows, or a pipeline of batches, let it overlap."""
        fetches = bool(((schedule.op == Op.FETCH) & (schedule.lane == Lane.HOST)).any())
        beside = schedule.kind in OVERLAPPING_KINDS and _overlaps(schedule)
        return cls(asked or fetches or (beside and schedule.kind == "spread"), beside)


def _overlaps(schedule: Schedule) -> bool:
    """Whether a communication of the first rank may run beside a computation: not where each row waits for the one before it."""
    rows = np.flatnonzero((schedule.rank == 0) & np.isin(schedule.lane, (Lane.COMPUTE, Lane.COMM)))
    turns = np.flatnonzero(np.diff(schedule.lane[rows].astype(int)))
    return any(not _waits(schedule, int(rows[turn + 1]), int(rows[turn])) for turn in turns)


def _waits(schedule: Schedule, row: int, earlier: int) -> bool:
    """Whether a row waits for an earlier one, or for what does."""
    found, left = {row}, [row]
    while left and earlier not in found:
        later = {int(dep) for dep in schedule.dependencies(left.pop()) if dep >= earlier} - found
        found |= later
        left += later
    return earlier in found
