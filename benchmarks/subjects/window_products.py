"""How near a training step of a window of snapshots is to the dense products that it cannot spare, on a CPU.

A window is four snapshots whose neighbours' features were added up before training, as many rows and numbers as math_overflow has in
`snapshot_rivals`. `products`: the matrix products alone, forward and backward, into memory that is there. EvolveGCN beside that:
`operators`, transform, ReLU, readout to one number and squared error by torch's operators and its autograd; `one pass`, the same block by
block of rows, with what the backward pass needs kept in the cache. A pass that fuses its readout is no part of the package: predictions
would have to be made where rows are transformed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from core.case import Case, Subject
from core.turns import Call
from setups.graphs import assert_equal, keep_memory, normal
from torch import Tensor

SNAPSHOTS, BLOCK = 4, 1024  # rows of a block, whose sums and results lie in the second-level cache together


def evolving(rows: int, width: int) -> dict[str, Call]:
    """Return calls of an EvolveGCN's window: every snapshot has weights of its own, which ask for gradients."""
    keep_memory()
    sums = [normal("cpu", rows, width, seed=t) for t in range(SNAPSHOTS)]
    target = normal("cpu", rows, seed=10)
    weights = [normal("cpu", width, width, seed=20 + t).div_(width**0.5).requires_grad_() for t in range(SNAPSHOTS)]
    readout = normal("cpu", 1, width, seed=30).requires_grad_()
    leaves = [*weights, readout]
    room = torch.empty(rows, width), torch.empty(width, width)

    def products() -> None:
        for x, weight in zip(sums, weights, strict=True):
            torch.mm(x, weight.detach().t(), out=room[0])
            torch.mm(room[0].t(), x, out=room[1])

    def operators() -> tuple[Tensor, ...]:
        outputs = [(x @ weight.t()).relu() @ readout[0] for x, weight in zip(sums, weights, strict=True)]
        loss = sum(torch.nn.functional.mse_loss(output, target) for output in outputs)
        return torch.autograd.grad(loss, leaves)  # type: ignore[arg-type]

    calls: dict[str, Call] = {"products": products, "operators": operators, "one pass": partial(one_pass, sums, target, weights, readout)}
    names = [*("weights" for _ in weights), "readout"]
    for name, result, expected in zip(names, one_pass(sums, target, weights, readout), operators(), strict=True):
        assert_equal(name, result, expected, 1e-3)
    return calls


@torch.no_grad()
def one_pass(sums: list[Tensor], target: Tensor, weights: list[Tensor], readout: Tensor) -> list[Tensor]:
    """Return gradients of weights and readout: a block's rows are transformed, read, judged and gone back through before the next one's."""
    rows, width = sums[0].shape
    inner, grads = torch.empty(BLOCK, width), [torch.zeros_like(weight) for weight in (*weights, readout)]
    for x, weight, grad in zip(sums, weights, grads, strict=False):
        for first in range(0, rows, BLOCK):
            part = x[first : first + BLOCK]
            hidden = torch.mm(part, weight.t(), out=inner[: len(part)]).relu_()
            error = torch.mv(hidden, readout[0]).sub_(target[first : first + BLOCK]).mul_(2 / rows)
            grads[-1][0] += torch.mv(hidden.t(), error)
            to_hidden = torch.ops.aten.threshold_backward(torch.outer(error, readout[0]), hidden, 0)
            grad.addmm_(to_hidden.t(), part)
    return grads


def recurrent(rows: int, width: int) -> dict[str, Call]:
    """Return a call of a T-GCN's products: its transform, and a GRU's of input and state, forward and backward."""
    keep_memory()
    x, state = normal("cpu", rows, width, seed=1), normal("cpu", rows, width, seed=2)
    dense, cell = normal("cpu", width, width, seed=3), normal("cpu", 3 * width, width, seed=4)
    inner, gates = torch.empty(rows, width), torch.empty(rows, 3 * width)
    to_dense, to_cell = torch.empty(width, width), torch.empty(3 * width, width)

    def products() -> None:
        for step in range(SNAPSHOTS):
            torch.mm(x, dense.t(), out=inner)
            for rows_in in (inner, *([state] if step else [])):  # the first state is zeros
                torch.mm(rows_in, cell.t(), out=gates)
        for step in range(SNAPSHOTS):
            for rows_in in (inner, *([state] if step else [])):
                torch.mm(gates.t(), rows_in, out=to_cell)
                torch.mm(gates, cell, out=inner)
            torch.mm(inner.t(), x, out=to_dense)

    return {"products": products}


def cases(quick: bool) -> Iterator[Case]:
    """Yield models by rows and width."""
    rows, width = (50, 8) if quick else (24_740, 64)
    for name, setup in (("evolvegcn", evolving), ("t-gcn", recurrent)):
        yield Case.timed({"model": name, "rows": rows, "width": width}, partial(setup, rows, width))


SUBJECT = Subject(cases, 9)
