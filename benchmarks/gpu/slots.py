"""Slots: what models of event streams do with sampled slots, beside torch's operators: attention to them, gates, encodings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.encoding import encode
from chronoscale.cuda_ext.operators.gates import gates
from chronoscale.cuda_ext.operators.slots import Slots, attend
from gpu.checks import off
from gpu.graphs import normal
from gpu.kernels import copy_of, rates
from gpu.timing import measure

FANOUT, HEADS = 10, 2
MOST = 60_000  # targets: torch's operators lay every slot out, several times
OURS = ("attend", "attend, both", "gates", "gates, both", "encode", "encode, both")
CAPTURED = frozenset({"attend", "gates", "encode", "torch"})
Form = Callable[[str | None], Tensor]  # of a backend


def attended(targets: int, width: int, device: str, repeats: int) -> dict[str, Any]:
    """Attention of targets to FANOUT slots: a row of the source, features of the event and an encoding, `width` numbers each."""
    there = normal(device, targets, FANOUT) < 1.28  # nine of ten
    slot = torch.randint(0, 3 * targets, (targets, FANOUT), device=device)
    elapsed, edge = 1e5 * normal(device, targets, FANOUT, seed=1).abs(), normal(device, targets * FANOUT, width, seed=2)
    leaves = [(normal(device, targets, HEADS * 3 * width) / width).view(targets, HEADS, -1), normal(device, 3 * targets, width, seed=3)]
    leaves += [normal(device, width, seed=4), normal(device, width, seed=5)]
    slots = Slots(slot, there, elapsed, edge.view(targets, FANOUT, width))

    def form(backend: str | None) -> Tensor:
        return attend(leaves[0], leaves[1], slots, (leaves[2], leaves[3]), backend=backend)

    read = targets * FANOUT * (2 * 4 * width + 8 + 1 + 4 + 4 * HEADS)
    return _measured("attend", form, leaves, read + 2 * 4 * targets * HEADS * 3 * width, device, repeats)


def gated(rows: int, width: int, device: str, repeats: int) -> dict[str, Any]:
    """The gates of a GRU with `width` hidden numbers."""
    leaves = [normal(device, rows, width * times, seed=seed) for seed, times in enumerate((3, 3, 1))]
    there = normal(device, rows) < 1.28
    return _measured("gates", lambda backend: gates(*leaves, there, backend), leaves, rows * (1 + 8 * 4 * width), device, repeats)  # type: ignore[call-arg, arg-type]


def encoded(rows: int, width: int, device: str, repeats: int) -> dict[str, Any]:
    """Encodings of an elapsed time for each slot."""
    elapsed, leaves = 1e5 * normal(device, rows * FANOUT).abs(), [normal(device, width, seed=seed) for seed in (1, 2)]
    moved = 4 * rows * FANOUT * (1 + width)
    return _measured("encode", lambda backend: encode(elapsed, leaves[0], leaves[1], backend), leaves, moved, device, repeats)


def _measured(name: str, form: Form, leaves: Sequence[Tensor], moved: int, device: str, repeats: int) -> dict[str, Any]:
    """Ours beside torch's, alone and with the gradients of `leaves`; `moved`: bytes of the first."""
    for leaf in leaves:
        leaf.requires_grad_()
    into = torch.ones_like(form(None).detach())
    both = {who: torch.no_grad()(lambda backend=backend: form(backend)) for who, backend in ((name, None), ("torch", "reference"))}
    graded = {
        f"{who}, both": lambda backend=backend: torch.autograd.grad(form(backend), leaves, into)  # type: ignore[misc]
        for who, backend in ((name, None), ("torch", "reference"))
    }
    copy, copied = copy_of(moved, device)
    calls = {who: [call] for who, call in {**both, **graded}.items()}
    times = measure({**calls, "copy": copy}, device, repeats, CAPTURED)
    error = off(f"{name} and torch's operators", form(None).detach(), form("reference").detach())
    return {"error": error, "times": times, **rates(times, copied, **{name: moved})}
