"""The pretended GPU minds what a GPU would: a sound program has no findings, and each planted fault is found, as what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from emulation import compiler, library
from pretended import CUDA, Findings, Kind, pretended
from torch import Tensor

from chronoscale.cuda_ext.native import abi
from chronoscale.cuda_ext.operators.aggregation import increment_
from chronoscale.cuda_ext.operators.graph import CSR, Delta
from chronoscale.real_exec.execution.device_lanes import DeviceLanes
from chronoscale.real_exec.execution.lanes import make_lanes
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.execution.transfers import acquire
from chronoscale.strategies.schedule import Lane, Op

pytestmark = pytest.mark.skipif(compiler() is None, reason="the kernels are emulated, which needs a C++ compiler")
ROWS, WIDTH = 6, 4


@dataclass
class Step:
    """A row of a schedule; it waits for the one before unless it is `free`."""

    op: Op
    lane: Lane
    run: Callable[[dict[str, Tensor]], object]
    free: bool = False


def weigh(at: dict[str, Tensor]) -> None:
    at["weight"] = torch.ones(WIDTH, WIDTH, device=CUDA, requires_grad=True)
    at["made"] = acquire(at["there"]) @ at["weight"]


def gather(at: dict[str, Tensor]) -> None:
    at["host"], at["back"] = torch.randn(ROWS, WIDTH).pin_memory(), torch.zeros(ROWS, WIDTH, pin_memory=True)


def bring(at: dict[str, Tensor]) -> None:
    at["back"].copy_(acquire(at["made"]).detach(), non_blocking=True)


def send(at: dict[str, Tensor]) -> None:
    at["there"] = at["host"].to(CUDA, non_blocking=True)


def sound() -> list[Step]:
    """To the device, a product and its gradient, and back to the host."""
    return [
        Step(Op.GATHER, Lane.HOST, gather),
        Step(Op.H2D, Lane.H2D, send),
        Step(Op.FORWARD, Lane.COMPUTE, weigh),
        Step(Op.BACKWARD, Lane.COMPUTE, lambda at: at["made"].sum().backward()),
        Step(Op.D2H, Lane.D2H, bring),
        Step(Op.MEMORY_WRITE, Lane.HOST, lambda at: at["back"].numpy().sum()),
    ]


def findings_of(steps: list[Step]) -> Findings:
    deps = [() if step.free or not i else (i - 1,) for i, step in enumerate(steps)]
    tasks = [Task(i, step.op, step.lane, 0, 0, 0, 0, 0, deps[i], step.lane is Lane.HOST) for i, step in enumerate(steps)]
    at: dict[str, Tensor] = {}
    with pretended(library()) as findings:
        make_lanes(CUDA).run(tasks, lambda task: steps[task.task].run(at))
    return findings


def with_step(place: int, **changes: object) -> list[Step]:
    steps = sound()
    steps[place] = Step(**{**vars(steps[place]), **changes})  # type: ignore[arg-type]
    return steps


def then(*more: Step) -> list[Step]:
    return [*sound(), *more]


def graph() -> CSR:
    return CSR(torch.arange(ROWS + 1), torch.zeros(ROWS, dtype=torch.int32), None, ROWS).check()


def summed(at: dict[str, Tensor]) -> None:
    """Memory of the device, and a graph there, on the stream of computation."""
    at["sums"] = torch.zeros(ROWS, WIDTH, device=CUDA)
    at["x"] = torch.ones(ROWS, WIDTH, device=CUDA)


def incremented(at: dict[str, Tensor]) -> None:
    one = graph()
    change = Delta(torch.arange(ROWS, dtype=torch.int32), one.indptr, one.indices, None, ROWS, ROWS).check().to(CUDA)
    increment_(acquire(at["sums"]), change, acquire(at["x"]))


FAULTS: Mapping[str, tuple[Kind, list[Step]]] = {
    "a row that does not wait for a copy": (Kind.RACE, with_step(2, free=True)),
    "another lane's memory unmarked": (
        Kind.UNMARKED,
        with_step(2, run=lambda at: at.update(made=at["there"] @ torch.ones(WIDTH, WIDTH, device=CUDA, requires_grad=True))),
    ),
    "a copy from memory that is not pinned": (
        Kind.UNPINNED,
        with_step(1, run=lambda at: at.update(there=torch.randn(ROWS, WIDTH).to(CUDA, non_blocking=True))),
    ),
    "a copy of every second row": (
        Kind.UNPINNED,
        with_step(1, run=lambda at: at.update(there=torch.randn(2 * ROWS, WIDTH).pin_memory()[::2].to(CUDA, non_blocking=True))),
    ),
    "a number that is read": (Kind.WAIT, then(Step(Op.FORWARD, Lane.COMPUTE, lambda at: at["made"].sum().item()))),
    "a mask": (Kind.WAIT, then(Step(Op.FORWARD, Lane.COMPUTE, lambda at: at["made"][at["made"] > 0]))),
    "an operand of the host": (
        Kind.MIXED,
        then(Step(Op.FORWARD, Lane.COMPUTE, lambda at: acquire(at["there"]) + at["back"])),
    ),
    "a buffer that is filled anew while it is copied": (
        Kind.RACE,
        [*sound()[:2], Step(Op.GATHER, Lane.HOST, lambda at: at["host"].zero_(), free=True)],
    ),
    "a result that is read before it is there": (Kind.RACE, with_step(5, free=True)),
    "a gradient that is read in no order": (
        Kind.RACE,
        then(Step(Op.ALLREDUCE, Lane.COMM, lambda at: at["weight"].grad.mul_(2), free=True)),
    ),
    "a kernel that writes what another lane reads": (
        Kind.RACE,
        [
            Step(Op.FORWARD, Lane.COMPUTE, summed),
            Step(Op.ALLREDUCE, Lane.COMM, lambda at: acquire(at["sums"]) + 1),
            Step(Op.INCREMENT, Lane.COMPUTE, incremented, free=True),
        ],
    ),
    "a kernel that is given the host's memory": (
        Kind.MIXED,
        [Step(Op.AGGREGATE, Lane.COMPUTE, lambda at: abi.aggregate(graph(), None, torch.ones(ROWS, WIDTH, device=CUDA)))],
    ),
}


def test_a_sound_program_has_no_findings() -> None:
    findings = findings_of(sound())
    assert not findings, str(findings)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    kind, steps = FAULTS[name]
    findings = findings_of(steps)
    assert findings.of(kind), str(findings)


@pytest.mark.parametrize("free", [False, True])
def test_what_ranks_add_up_is_written(tmp_path: Path, free: bool) -> None:
    """On the stream of its row, by a group of one rank."""
    dist.init_process_group("gloo", f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        findings = findings_of(then(Step(Op.ALLREDUCE, Lane.COMM, lambda at: dist.all_reduce(acquire(at["weight"].grad)), free=free)))
    finally:
        dist.destroy_process_group()
    assert bool(findings.of(Kind.RACE)) == free, str(findings)


def test_what_is_marked_late_was_alive() -> None:
    steps = with_step(2, run=lambda at: at.update(made=at["there"] @ torch.ones(WIDTH, WIDTH, device=CUDA, requires_grad=True)))
    steps.append(Step(Op.FORWARD, Lane.COMPUTE, lambda at: acquire(at["there"])))
    assert not findings_of(steps)


@dataclass
class Captured:
    """Two streams of the device, memory that was there before, and a graph: `first` is captured on, `other` joins."""

    device: Any
    first: Any
    other: Any
    graph: Any
    at: dict[str, Any]

    def event(self, stream: Any) -> Any:
        event = self.device.event()
        event.record(stream)
        return event


def of_capture(run: Callable[[Captured], object], then: Callable[[Captured], object] = lambda _: None, replays: int = 1) -> Findings:
    """Capture `run`, do `then`, replay."""
    with pretended(library()) as findings:
        lanes = make_lanes(CUDA)
        assert isinstance(lanes, DeviceLanes)
        device, first, other = lanes.device, lanes.lane[Lane.COMPUTE], lanes.lane[Lane.H2D]
        with device.on(first):
            at = {"x": torch.ones(ROWS, WIDTH, device=CUDA), "host": torch.ones(ROWS, WIDTH).pin_memory(), "graph": graph().to(CUDA)}
        one = Captured(device, first, other, device.graph(device.pool()), at)
        with device.on(first):
            with one.graph.capture(first):
                run(one)
            then(one)
            for _ in range(replays):
                one.graph.replay()
    return findings


def joining(run: Callable[[Captured], object], back: bool = True) -> Callable[[Captured], None]:
    """Run on the other stream, which joins, and is joined again in the end if it comes `back`."""

    def both(one: Captured) -> None:
        one.other.wait_event(one.event(one.first))
        with one.device.on(one.other):
            run(one)
        if back:
            one.first.wait_event(one.event(one.other))

    return both


def beside(one: Captured) -> None:
    """Work on the other stream, which has not joined."""
    with one.device.on(one.other):
        acquire(one.at["x"]).mul(2)


def temporary(one: Captured) -> None:
    one.at["y"] = torch.ones(ROWS).pin_memory().to(CUDA, non_blocking=True)


def ended(one: Captured) -> None:
    one.other.wait_event(one.at["event"])


FORBIDDEN: Mapping[str, tuple[str, Callable[[Captured], object], Callable[[Captured], object]]] = {
    "a number that is read": ("the host waits: _local_scalar_dense", lambda one: one.at["x"].sum().item(), lambda one: None),
    "a copy to the host": ("the host waits: a copy to the host", lambda one: one.at["x"].cpu(), lambda one: None),
    "a size that the host has to know": ("the host waits: nonzero", lambda one: one.at["x"].nonzero(), lambda one: None),
    "a tensor of Python's numbers": ("the host waits: tensor", lambda one: torch.tensor([1.0], device=CUDA), lambda one: None),
    "a wait for the stream": ("the host waits for a stream that is captured", lambda one: one.first.synchronize(), lambda one: None),
    "a wait for the device": ("the host waits for the device", lambda one: one.device.synchronize(), lambda one: None),
    "a wait for an event": ("the host waits for an event of a capture", lambda one: one.event(one.first).synchronize(), lambda one: None),
    "work of a stream that has not joined": ("work on a stream that is not part of the capture", beside, lambda one: None),
    "an event of before": (
        "a wait for what is not of the capture",
        lambda one: one.first.wait_event(one.event(one.other)),
        lambda one: None,
    ),
    "a stream that stays away": (
        "a stream that the first does not wait for in the end",
        joining(lambda one: acquire(one.at["x"]).mul(2), back=False),
        lambda one: None,
    ),
    "an event of a capture that has ended": (
        "a wait for an event of another capture, or of one that has ended",
        lambda one: one.at.update(event=one.event(one.first)),
        ended,
    ),
    "random numbers": ("randn: random numbers", lambda one: torch.randn(ROWS, device=CUDA), lambda one: None),
    "dropout": ("bernoulli_: random numbers", lambda one: torch.empty_like(one.at["x"]).bernoulli_(0.5), lambda one: None),
    "memory that is given back": (
        "memory that a graph reads or writes, and that nobody else keeps",
        lambda one: one.at.update(y=one.at["x"] * 2),
        lambda one: one.at.pop("x"),
    ),
    "pinned memory that another use may get": (
        "memory that a graph reads or writes, and that nobody else keeps",
        temporary,
        lambda one: None,
    ),
    "a place that is another's later": (
        "memory that a graph reads or writes, and that nobody else keeps",
        lambda one: one.at.update(y=one.at["x"] * 2),
        lambda one: one.at.update(x=torch.ones(ROWS, WIDTH, device=CUDA)),
    ),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_a_capture_forbids_is_found(name: str) -> None:
    detail, run, then = FORBIDDEN[name]
    assert {found.detail for found in of_capture(run, then).of(Kind.CAPTURE)} == {detail}


def test_a_graph_that_is_replayed_beside_who_writes_what_it_reads_is_a_race() -> None:
    def filled(one: Captured) -> None:
        with one.device.on(one.other):
            acquire(one.at["x"]).fill_(2)

    assert of_capture(lambda one: one.at.update(y=one.at["x"] * 2), filled).of(Kind.RACE)


def test_a_replay_does_again_what_was_captured() -> None:
    """In the same memory: by an operator, in place, by a kernel, by its gradient, over a copy from the host on a stream that joins."""
    seen: dict[str, list[float]] = {"sum": [], "grown": [], "sent": [], "slope": []}

    def steps(one: Captured) -> None:
        joining(lambda one: one.at.update(there=one.at["host"].to(CUDA, non_blocking=True)))(one)
        weight = torch.full((WIDTH, 1), 2.0, device=CUDA, requires_grad=True)
        one.at["sum"] = abi.aggregate(one.at["graph"], None, one.at["x"])
        (acquire(one.at["there"]) @ weight).sum().backward()
        one.at["slope"] = weight.grad
        one.at["x"].add_(1)

    def look(one: Captured) -> None:
        assert one.at["sum"].isnan().all()  # nothing has run
        assert one.at["x"].sum().cpu() == ROWS * WIDTH
        for value in (3.0, 5.0):
            one.first.synchronize()
            one.at["host"].fill_(value)
            one.graph.replay()
            for key, name in (("sum", "sum"), ("grown", "x"), ("sent", "there"), ("slope", "slope")):
                seen[key].append(float(one.at[name].flatten()[0].cpu()))

    findings = of_capture(steps, look, replays=0)
    assert not findings.of(Kind.RACE) and not findings.of(Kind.UNMARKED)
    assert seen == {"sum": [1.0, 2.0], "grown": [2.0, 3.0], "sent": [3.0, 5.0], "slope": [3.0 * ROWS, 5.0 * ROWS]}
