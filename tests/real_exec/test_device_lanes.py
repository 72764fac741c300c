"""DeviceLanes on a device that works in threads of its own, after the host has gone on, and by a clock of its own."""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from time import sleep
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from chronoscale.real_exec.execution import lanes
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.device_lanes import DeviceLanes
from chronoscale.real_exec.execution.task import Task
from chronoscale.strategies.schedule import Lane, Op

LONG = 7_000  # ns that a row takes by the simulated clock


class Moment:
    """An event: what the last record of it left, passed for one that was never recorded."""

    def __init__(self, device: Device) -> None:
        self._device, self.passed, self.ns = device, threading.Event(), -1
        self.passed.set()

    def record(self, stream: Stream) -> None:
        passed = self.passed = threading.Event()

        def reach() -> None:
            self.ns = self._device.clock()
            passed.set()

        stream.put(reach)

    def synchronize(self) -> None:
        assert self.passed.wait(10)

    def elapsed_time(self, later: Moment) -> float:
        assert self.ns >= 0 and later.ns >= 0, "one of the two was not recorded"
        return float(self._device.number((later.ns - self.ns) / 1e6))


class Stream:
    """What is put runs in order, on a thread of the stream's."""

    def __init__(self) -> None:
        self._queue: queue.Queue[Callable[[], object]] = queue.Queue()
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            self._queue.get()()

    def put(self, work: Callable[[], object]) -> None:
        self._queue.put(work)

    def wait_event(self, event: Moment) -> None:
        passed = event.passed  # of its last record
        self.put(lambda: passed.wait(10) or pytest.fail("an event never came"))

    def synchronize(self) -> None:
        done = threading.Event()
        self.put(done.set)
        assert done.wait(10)


class Device:
    """Its clock begins elsewhere and runs at `rate` of the host's. Only work makes time pass. `number`: of what its events tell."""

    def __init__(self, rate: float = 1.0, number: type[float | np.float32] = float) -> None:
        self.number = number
        self._streams: list[Stream] = []
        self._rate, self.now, self._passing = rate, 10**6, threading.Lock()
        self._here = threading.local()

    def clock(self) -> int:
        """The device's, ns."""
        return 10**12 + round((self.now - 10**6) * self._rate)

    def host_clock(self) -> int:
        return self.now

    def work(self) -> None:
        """Lets others run, and takes its time."""
        sleep(0.001)
        with self._passing:
            self.now += LONG

    def wait_half_a_minute(self) -> None:
        with self._passing:
            self.now += 30 * 10**9 + 777

    def stream(self) -> Stream:
        self._streams.append(Stream())
        return self._streams[-1]

    def event(self) -> Moment:
        return Moment(self)

    @contextmanager
    def on(self, stream: Stream) -> Iterator[None]:
        self._here.stream = stream
        yield
        del self._here.stream

    def synchronize(self) -> None:
        for stream in self._streams:
            stream.synchronize()

    def launch(self, work: Callable[[], None]) -> None:
        """As a program does: on the stream of its row."""
        self._here.stream.put(work)


DEVICE_OPS = (Op.H2D, Op.FORWARD, Op.BACKWARD, Op.ALLREDUCE, Op.OPTIMIZE)


def rows(*given: tuple[Op, Lane, tuple[int, ...]]) -> list[Task]:
    """Numbered by tens, as a rank's rows are some of a schedule's."""
    hosted = [lane is Lane.HOST or op is Op.FETCH for op, lane, _ in given]
    deps = [tuple(10 * dep for dep in deps) for _, _, deps in given]
    return [Task(10 * i, op, lane, 0, 0, 0, 0, 0, deps[i], hosted[i]) for i, (op, lane, _) in enumerate(given)]


class Program:
    """Rows of the device are launched, and take their time after that; a row is `done` when it is over, and looks at what is."""

    def __init__(self, device: Device, tasks: list[Task]) -> None:
        self.device = device
        self.deps = {task.task: task.deps for task in tasks}
        self.done: list[int] = []
        self.threads: dict[int, int] = {}
        self.early: list[int] = []  # rows that began before a row that they wait for was over
        self.held = {task.task: threading.Event() for task in tasks}  # rows of the device that end when a test lets them
        for event in self.held.values():
            event.set()

    def __call__(self, task: Task) -> None:
        self.threads[task.task] = threading.get_ident()

        def work() -> None:
            self.early += [task.task] * (not set(self.deps[task.task]) <= set(self.done))
            assert self.held[task.task].wait(10)
            self.device.work()
            self.done.append(task.task)

        self.device.launch(work) if task.op in DEVICE_OPS else work()


def ran(tasks: list[Task], rate: float = 1.0) -> tuple[Program, list[tuple[int, int]]]:
    device = Device(rate)
    program = Program(device, tasks)
    start, end = DeviceLanes(device, device.host_clock).run(tasks, program)
    assert not program.early and sorted(program.done) == [task.task for task in tasks]
    assert start.min() >= 10**6 and end.max() <= device.now, "times are not the host's"
    return program, list(zip(start.tolist(), end.tolist(), strict=True))


H, C, M = Lane.HOST, Lane.COMPUTE, Lane.COMM


CHAIN = rows((Op.FORWARD, C, ()), (Op.GATHER, H, (0,)), (Op.H2D, Lane.H2D, (1,)), (Op.FORWARD, C, (2,)), (Op.GATHER, H, (3,)))


@pytest.mark.parametrize("rate", [1.0, 0.5, 1.1])  # clocks of real devices part less
def test_rows_of_the_host_wait_for_the_device_and_all_times_are_on_one_axis(rate: float) -> None:
    """Each waits for the one before: together they fill the pass, on whichever clock they were read. An event that was not recorded yet
    would not hold the host."""
    program, times = ran(CHAIN, rate)
    assert program.done == [0, 10, 20, 30, 40]
    assert [end - start for start, end in times] == pytest.approx([LONG] * 5, abs=2)
    assert [after - before for (_, before), (after, _) in pairwise(times)] == pytest.approx([0] * 4, abs=2)


def test_a_row_late_in_a_long_pass_is_timed_as_exactly_as_an_early_one() -> None:
    """CUDA tells milliseconds in float32: of two moments half a minute after the pass began, each is right within 1 us."""
    device = Device(number=np.float32)
    tasks = rows((Op.FORWARD, C, ()), (Op.FORWARD, C, (0,)), (Op.FORWARD, C, (1,)))
    program = Program(device, tasks)

    def after_a_long_one(task: Task) -> None:
        program(task)
        if task.task == 0:
            device.launch(device.wait_half_a_minute)

    start, end = DeviceLanes(device, device.host_clock).run(tasks, after_a_long_one)
    assert (end - start)[1:].tolist() == pytest.approx([LONG] * 2, abs=2)


def test_the_host_works_beside_the_device() -> None:
    """Lanes are FIFOs of their own: the host reads ahead while the device is at work."""
    tasks = rows((Op.FORWARD, C, ()), (Op.GATHER, H, ()), (Op.GATHER, H, ()), (Op.FORWARD, C, (1,)))
    device = Device()
    program = Program(device, tasks)
    program.held[0].clear()

    def release(task: Task) -> None:
        program(task)
        if task.task == 20:
            program.held[0].set()

    DeviceLanes(device).run(tasks, release)
    assert program.done == [10, 20, 0, 30]
    assert program.threads[0] == program.threads[30] == threading.get_ident() != program.threads[10] == program.threads[20]


def test_fetching_through_an_engine_keeps_its_place_among_messages() -> None:
    """FETCH stands in the lane of communication, and the host does it."""
    program, times = ran(rows((Op.ALLREDUCE, M, ()), (Op.FETCH, M, ()), (Op.ALLREDUCE, M, ())))
    assert program.done == [0, 10, 20] and program.threads[10] != program.threads[0]
    assert [end - start for start, end in times] == pytest.approx([LONG] * 3, abs=2)


def test_the_host_exchanges_beside_what_it_samples() -> None:
    """A thread a lane: the second sample is not over before what ranks exchange is."""
    tasks = rows((Op.SAMPLE, H, ()), (Op.FETCH, M, (0,)), (Op.SAMPLE, H, (0,)), (Op.FORWARD, C, (1, 2)))
    device = Device()
    program = Program(device, tasks)
    program.held[20].clear()

    def release(task: Task) -> None:
        program(task)
        if task.task == 10:
            program.held[20].set()

    DeviceLanes(device).run(tasks, release)
    assert program.done == [0, 10, 20, 30]
    assert len({program.threads[row] for row in (0, 10, 30)}) == 3 and program.threads[0] == program.threads[20]


def test_what_a_row_of_the_host_starts_on_the_device_has_ended_with_it() -> None:
    tasks = rows((Op.GATHER, H, ()), (Op.FORWARD, C, (0,)))
    device, result = Device(), []

    def program(task: Task) -> None:
        device.launch(lambda: (sleep(0.01 * (task.op is Op.GATHER)), result.append(task.task)))

    DeviceLanes(device).run(tasks, program)
    assert result == [0, 10]


def test_the_device_is_at_most_one_iteration_behind() -> None:
    tasks = rows(*[(Op.OPTIMIZE, C, ())] * 4)
    device, behind = Device(), []
    program = Program(device, tasks)
    program.held[0].clear()

    def counting(task: Task) -> None:
        behind.append(len(behind) - len(program.done))
        if task.task == 10:
            program.held[0].set()
        program(task)

    DeviceLanes(device).run(tasks, counting)
    assert max(behind) == 1


@pytest.mark.parametrize("failing", [10, 20, 30])
def test_a_failure_on_either_thread_ends_both_and_is_raised(failing: int) -> None:
    tasks = rows(*[(Op.GATHER, H, ()), (Op.FORWARD, C, (0,)), (Op.GATHER, H, (1,)), (Op.FORWARD, C, (2,))], *[(Op.FORWARD, C, ())] * 3)
    device = Device()
    program = Program(device, tasks)

    def broken(task: Task) -> None:
        if task.task == failing:
            raise RuntimeError(f"row {failing}")
        program(task)

    before = threading.active_count()
    lanes = DeviceLanes(device)
    with pytest.raises(RuntimeError, match=f"row {failing}"):
        lanes.run(tasks, broken)
    assert threading.active_count() == before + len(Lane)  # streams of the device go on, the rows' thread does not
    device.synchronize()
    assert max(program.done) < failing


def test_all_schedules_of_a_context_run_on_the_same_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that would have a thread of its own on a CPU: the allocator keeps memory for every stream that there ever was."""
    monkeypatch.setattr(lanes, "CudaStreams", lambda device: Device())
    empty, fetched = np.zeros(0, np.int8), np.array([Op.FETCH], np.int8)
    first, other = (SimpleNamespace(kind="cells", op=op, lane=np.full(len(op), H, np.int8)) for op in (empty, fetched))
    gpu, cpu = Context(device=torch.device("cuda")), Context()
    assert isinstance(gpu.lanes(first), DeviceLanes) and gpu.lanes(first) is gpu.lanes(other)
    assert len(cpu.lanes(first).streams) == 1 and len(cpu.lanes(other).streams) == 2


def test_random_schedules_end() -> None:
    """Rows of all kinds that wait for any earlier ones: no two threads wait for each other."""
    kinds = [(Op.GATHER, H), (Op.FETCH, M), (Op.ALLREDUCE, M), (Op.H2D, Lane.H2D), (Op.FORWARD, C), (Op.OPTIMIZE, C)]
    for seed in range(4):
        draw = random.Random(seed)
        tasks = rows(*((*draw.choice(kinds), tuple(draw.sample(range(i), min(i, draw.randrange(3))))) for i in range(40)))
        _, times = ran(tasks)
        last: dict[Lane, int] = {}
        for task, (start, end) in zip(tasks, times, strict=True):
            assert start >= last.get(task.lane, 0) - 2, "a lane is no FIFO"
            last[task.lane] = end
