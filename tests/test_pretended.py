"""The pretended GPU minds what a GPU would: a sound program has no findings, and each planted fault is found, as what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from emulation import compiler, library
from pretended import CUDA, Findings, Kind, pretended
from torch import Tensor

from chronoscale.cuda_ext import native
from chronoscale.cuda_ext.graph import CSR, Delta
from chronoscale.cuda_ext.ops import increment_
from chronoscale.real_exec.lanes import lanes_for, used
from chronoscale.real_exec.task import Task
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
    at["made"] = used(at["there"]) @ at["weight"]


def gather(at: dict[str, Tensor]) -> None:
    at["host"], at["back"] = torch.randn(ROWS, WIDTH).pin_memory(), torch.zeros(ROWS, WIDTH, pin_memory=True)


def bring(at: dict[str, Tensor]) -> None:
    at["back"].copy_(used(at["made"]).detach(), non_blocking=True)


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
        lanes_for(CUDA).run(tasks, lambda task: steps[task.task].run(at))
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
    increment_(used(at["sums"]), change, used(at["x"]))


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
        then(Step(Op.FORWARD, Lane.COMPUTE, lambda at: used(at["there"]) + at["back"])),
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
            Step(Op.ALLREDUCE, Lane.COMM, lambda at: used(at["sums"]) + 1),
            Step(Op.INCREMENT, Lane.COMPUTE, incremented, free=True),
        ],
    ),
    "a kernel that is given the host's memory": (
        Kind.MIXED,
        [Step(Op.AGGREGATE, Lane.COMPUTE, lambda at: native.aggregate(graph(), None, torch.ones(ROWS, WIDTH, device=CUDA)))],
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
        findings = findings_of(then(Step(Op.ALLREDUCE, Lane.COMM, lambda at: dist.all_reduce(used(at["weight"].grad)), free=free)))
    finally:
        dist.destroy_process_group()
    assert bool(findings.of(Kind.RACE)) == free, str(findings)


def test_what_is_marked_late_was_alive() -> None:
    steps = with_step(2, run=lambda at: at.update(made=at["there"] @ torch.ones(WIDTH, WIDTH, device=CUDA, requires_grad=True)))
    steps.append(Step(Op.FORWARD, Lane.COMPUTE, lambda at: used(at["there"])))
    assert not findings_of(steps)
