"""DeviceLanes: the rows of one rank on a GPU's streams, and on threads of the host."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from chronoscale.real_exec.execution.row_threads import RowThreads
from chronoscale.real_exec.execution.task import Task
from chronoscale.strategies.schedule import Ints, Lane, Op

Clock = Callable[[], int]  # ns
READINGS = 5  # of both clocks: the one that took least counts


class Event(Protocol):
    """A point in a stream's order, to time and order a rank's rows on a GPU (`torch.cuda.Event`).

    Waiting for an event that was never recorded does not block.
    """

    def record(self, stream: Any) -> None: ...

    def synchronize(self) -> None: ...

    def elapsed_time(self, later: Any) -> float:
        """Return milliseconds on the GPU from this event to a later one; both have passed."""
        ...


class Graph(Protocol):
    """A CUDA graph of a rank's rows (`torch.cuda.CUDAGraph`)."""

    def capture(self, stream: Any) -> AbstractContextManager[Any]:
        """Capture, without running it, what is launched inside the `with` on this CUDA stream, and on streams that wait for it."""
        ...

    def replay(self) -> None:
        """Run the captured work once, on the current CUDA stream."""
        ...


class Streams(Protocol):
    """The operations of a GPU that lanes need; its streams have `wait_event(event)` and `synchronize()`."""

    def stream(self) -> Any: ...

    def event(self) -> Event: ...

    def on(self, stream: Any) -> AbstractContextManager[Any]:
        """Return a context manager in which the calling thread launches on this stream."""
        ...

    def synchronize(self) -> None:
        """Wait for all work on the GPU."""
        ...

    def graph(self, pool: Any) -> Graph:
        """Return a CUDA graph to be captured, whose memory comes from `pool`."""
        ...

    def pool(self) -> Any:
        """Return a memory pool for CUDA graphs that never run at the same time."""
        ...


class CudaStreams:
    """Streams, events and CUDA graphs of one GPU, by torch.cuda."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def stream(self) -> Any:
        return torch.cuda.Stream(self._device)

    def event(self) -> Event:
        return torch.cuda.Event(enable_timing=True)

    def on(self, stream: Any) -> AbstractContextManager[Any]:
        return torch.cuda.stream(stream)

    def synchronize(self) -> None:
        torch.cuda.synchronize(self._device)

    def graph(self, pool: Any) -> Graph:
        return _CudaGraph(pool)

    def pool(self) -> Any:
        return torch.cuda.graph_pool_handle()


class _CudaGraph:
    """A `torch.cuda.CUDAGraph`. Other threads may go on while one captures: the host's lane has its own memory and events."""

    def __init__(self, pool: Any) -> None:
        self._graph, self._pool = torch.cuda.CUDAGraph(), pool

    def capture(self, stream: Any) -> AbstractContextManager[Any]:
        return torch.cuda.graph(self._graph, pool=self._pool, stream=stream, capture_error_mode="thread_local")

    def replay(self) -> None:
        self._graph.replay()


class _Reading(NamedTuple):
    """Reading of both clocks at one moment: an event of the device, and ns of the host's clock, exact within `doubt`."""

    event: Event
    ns: int
    doubt: int


class DeviceLanes:
    """Lanes of a rank on a GPU: a CUDA stream for each lane and a pair of events for each row.

    The calling thread issues the device's rows in order, at most one iteration ahead of the device; the host's rows run on further threads,
    one for each lane that has any, in order.

    Every lane is a FIFO. A row waits for rows of the device by their events (on its stream, or on its thread where the host does its work)
    and for rows of the host until they have returned. The issuing thread keeps row order there, too: while it waits for the host, it issues
    nothing for other lanes.
    """

    timed = True
    streams: tuple[tuple[Lane, ...], ...] = tuple((lane,) for lane in Lane)

    def __init__(self, device: Streams, clock: Clock = time.perf_counter_ns) -> None:
        self.device = device
        self._clock = clock
        self.lane = {lane: device.stream() for lane in Lane}

    def run(self, tasks: Sequence[Task], program: Callable[[Task], None]) -> tuple[Ints, Ints]:
        """Run all of a rank's rows on the GPU and its host; return start and end of each, ns of the host's clock, int64 [tasks].

        Rows of the device are timed by events, which readings of both clocks before and after the pass put on the host's.
        """
        self.device.synchronize()
        rows = _Rows(tasks, self.device, self.lane, self._clock, program)
        first = self._read()
        hosts = sorted({task.lane for task in tasks if task.hosted})
        thread = [hosts.index(task.lane) if task.hosted else len(hosts) for task in tasks]
        RowThreads(tasks, thread, rows.needs, len(hosts) + 1).run([*[rows.work] * len(hosts), rows.issue])
        self.device.synchronize()
        return rows.times(first, self._read())

    def _read(self) -> _Reading:
        """Return the time on both clocks, while the device is idle: the most exact of several readings."""
        readings = []
        for _ in range(READINGS):
            event, before = self.device.event(), self._clock()
            event.record(self.lane[Lane.COMPUTE])
            event.synchronize()
            after = self._clock()
            readings.append(_Reading(event, (before + after) // 2, (after - before + 1) // 2))
        return min(readings, key=lambda reading: reading.doubt)


class _Rows:
    """Record of one pass over tasks: the dependencies of each row, its start and its end."""

    def __init__(
        self, tasks: Sequence[Task], device: Streams, stream: Mapping[Lane, Any], clock: Clock, program: Callable[[Task], None]
    ) -> None:
        self._tasks = tasks
        self._device = device
        self._stream = stream
        self._clock = clock
        self._program = program
        self.needs = _needs(tasks)
        self._begin, self._end = ([device.event() for _ in tasks] for _ in range(2))
        self._host = np.zeros((2, len(tasks)), np.int64)
        self._optimised: Event | None = None

    def issue(self, i: int, task: Task) -> None:
        """Launch a row of the device on its stream. Rows of the host that it depends on have returned."""
        stream = self._stream[task.lane]
        for need in self.needs[i]:
            if not self._tasks[need].hosted:
                stream.wait_event(self._end[need])
        with self._device.on(stream):
            self._begin[i].record(stream)
            self._program(task)
            self._end[i].record(stream)
        if task.op is Op.OPTIMIZE:  # the host runs one iteration ahead, no more: what it issues takes memory at once
            if self._optimised is not None:
                self._optimised.synchronize()
            self._optimised = self._end[i]

    def work(self, i: int, task: Task) -> None:
        """Do a row of the host. Rows of the device that it depends on have been issued."""
        for need in self.needs[i]:
            if not self._tasks[need].hosted:
                self._end[need].synchronize()
        stream = self._stream[task.lane]
        with self._device.on(stream):
            self._host[0, i] = self._clock()
            self._program(task)
            stream.synchronize()  # whatever it started on the device has no event to wait for
            self._host[1, i] = self._clock()

    def times(self, first: _Reading, last: _Reading) -> tuple[Ints, Ints]:
        """Return start and end of each row, ns of the host's clock.

        The device's clock and the host's drift apart by up to some 100 ns a ms; between the two readings that is corrected, where they are
        exact enough to show it.
        """
        device = [i for i, task in enumerate(self._tasks) if not task.hosted]
        begin = np.array([first.event.elapsed_time(self._begin[i]) for i in device]) * 1e6
        # Not from two offsets: CUDA has float32 ones.
        durations = np.array([self._begin[i].elapsed_time(self._end[i]) for i in device]) * 1e6
        here, there = last.ns - first.ns, first.event.elapsed_time(last.event) * 1e6
        rate = here / there if there > 0 and abs(here - there) > first.doubt + last.doubt else 1.0
        self._host[:, device] = first.ns + np.rint(np.stack([begin, begin + durations]) * rate).astype(np.int64)
        return self._host[0], np.maximum(self._host[0], self._host[1])


def _needs(tasks: Sequence[Task]) -> list[list[int]]:
    """Return, by places, the rows that each waits for beyond the order of its stream or thread.

    These are its dependencies, and the row before it in its lane where one of the two is the host's and the other the device's.
    """
    at = {task.task: i for i, task in enumerate(tasks)}
    last: dict[Lane, int] = {}
    needs = []
    for i, task in enumerate(tasks):
        before = last.get(task.lane)
        needs.append([at[dep] for dep in task.deps])
        if before is not None and tasks[before].hosted != task.hosted:
            needs[i].append(before)
        last[task.lane] = i
    return needs
