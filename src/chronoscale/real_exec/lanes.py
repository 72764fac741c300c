"""Lanes: how the rows of one rank are set in motion and timed. Streams and events on CUDA; threads on CPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from chronoscale.real_exec.task import Task
from chronoscale.strategies.cluster import CPU_STREAMS
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule

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
    """Rows in order on this thread; or, threaded, host and transfer lanes on a second one."""

    def __init__(self, threaded: bool) -> None:
        self.streams: tuple[tuple[Lane, ...], ...] = CPU_STREAMS if threaded else INLINE

    def run(self, tasks: Sequence[Task], program: Run) -> tuple[Ints, Ints]:
        """As `Lanes.run`. An exception on either thread ends both and is raised here."""
        times = np.zeros((2, len(tasks)), np.int64)
        progress = _Progress(tasks, self.streams)
        helpers = [threading.Thread(target=progress.follow, args=(stream, program, times)) for stream in range(len(self.streams) - 1)]
        for helper in helpers:
            helper.start()
        progress.follow(len(self.streams) - 1, program, times)
        for helper in helpers:
            helper.join()
        if progress.failure is not None:
            raise progress.failure
        return times[0], times[1]


class _Progress:
    """Which tasks are done, for threads that wait for each other."""

    def __init__(self, tasks: Sequence[Task], streams: tuple[tuple[Lane, ...], ...]) -> None:
        of = {lane: i for i, lanes in enumerate(streams) for lane in lanes}
        stream = {task.task: of[task.lane] for task in tasks}
        self.rows = [[(i, task) for i, task in enumerate(tasks) if of[task.lane] == s] for s in range(len(streams))]
        self.waits = {t.task: [d for d in t.deps if stream[d] != stream[t.task]] for t in tasks}
        self.awaited = {d for deps in self.waits.values() for d in deps}
        self.done: set[int] = set()
        self.failure: BaseException | None = None
        self.changed = threading.Condition()

    def _await(self, tasks: list[int]) -> None:
        if tasks:
            with self.changed:
                self.changed.wait_for(lambda: self.failure is not None or all(task in self.done for task in tasks))

    def follow(self, stream: int, program: Run, times: np.ndarray) -> None:
        try:
            for i, task in self.rows[stream]:
                self._await(self.waits[task.task])
                if self.failure is not None:
                    return
                times[0, i] = time.perf_counter_ns()
                program(task)
                times[1, i] = time.perf_counter_ns()
                if task.task in self.awaited:
                    with self.changed:
                        self.done.add(task.task)
                        self.changed.notify_all()
        except BaseException as error:  # handed to the thread that called run
            with self.changed:
                self.failure = self.failure or error
                self.changed.notify_all()


class CudaLanes:
    """A stream a lane, an event a task. One host thread issues rows in order, at most one iteration ahead of the device."""

    streams: tuple[tuple[Lane, ...], ...] = tuple((lane,) for lane in Lane)

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = {lane: torch.cuda.Stream(device) for lane in Lane}

    def run(self, tasks: Sequence[Task], program: Run) -> tuple[Ints, Ints]:
        """As `Lanes.run`; times are CUDA events, placed on the host clock by a common first event."""
        begin = [torch.cuda.Event(enable_timing=True) for _ in tasks]
        end = [torch.cuda.Event(enable_timing=True) for _ in tasks]
        at = {task.task: i for i, task in enumerate(tasks)}
        finished: torch.cuda.Event | None = None
        torch.cuda.synchronize(self._device)
        zero, zero_ns = torch.cuda.Event(enable_timing=True), time.perf_counter_ns()
        zero.record(torch.cuda.current_stream(self._device))
        for i, task in enumerate(tasks):
            stream = self._stream[task.lane]
            for dep in task.deps:
                stream.wait_event(end[at[dep]])
            with torch.cuda.stream(stream):
                begin[i].record(stream)
                program(task)
                end[i].record(stream)
            if task.op is Op.OPTIMIZE:  # the host runs one iteration ahead, no more: what it issues takes memory at once
                if finished is not None:
                    finished.synchronize()
                finished = end[i]
        torch.cuda.synchronize(self._device)
        offsets = np.array([[zero.elapsed_time(event) * 1e6 for event in events] for events in (begin, end)])
        start, stop = zero_ns + np.rint(offsets).astype(np.int64)
        return start, np.maximum(start, stop)


def lanes_for(device: torch.device, transfer_thread: bool = False) -> Lanes:
    """CUDA streams on a GPU; on CPU one thread, or a second one for transfers.

    In line is the default on CPU: what another core has copied lies in that core's cache, and handing over costs more than overlap
    gains (docs/execution.md).
    """
    return CudaLanes(device) if device.type == "cuda" else CpuLanes(transfer_thread)


def uses(*tensors: Tensor | None) -> None:
    """Tell the allocator that this lane reads tensors made in another, so that their memory is not reused too early."""
    for tensor in tensors:
        if tensor is not None and tensor.is_cuda:
            tensor.record_stream(torch.cuda.current_stream(tensor.device))


def used(tensor: Tensor) -> Tensor:
    """The tensor, marked as `uses` does."""
    uses(tensor)
    return tensor


def threaded(schedule: Schedule, asked: bool) -> bool:
    """Whether a schedule's host lanes get a thread of their own on CPU: asked for, or it prefetches from a mapped part."""
    return asked or bool(((schedule.op == Op.FETCH) & (schedule.lane == Lane.HOST)).any())
