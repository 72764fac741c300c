"""Attention to sampled slots through the C ABI, on the CPU alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from chronoscale.cuda_ext.backend import FLOATS
from chronoscale.cuda_ext.loader import cpu_library, succeed
from chronoscale.cuda_ext.slots_reference import Asked, outside

_ARGUMENT = 1


def attend(given: Asked) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """As slots_reference.attend; angles are formed anew in the backward pass."""
    targets, heads, across = given.wanted.shape
    nothing = not (given.slot.numel() and across)
    sums = (torch.zeros_like if nothing else torch.empty_like)(given.wanted)  # and so as it lies in memory
    weights = given.wanted.new_empty(targets, heads, given.slot.shape[1])
    _call("slots", given, weights, sums)
    return sums, weights, ()


def attend_grad(given: Asked, weights: Tensor, laid: tuple[Tensor, ...], into: Tensor, needs: Asked) -> Asked:
    """As slots_reference.attend_grad."""
    clock = needs.frequency or needs.phase
    nothing = not (given.slot.numel() and given.wanted.shape[2])
    wants = (needs.wanted, needs.source, needs.edge, clock, clock)
    tensors = (given.wanted, given.source, given.edge, given.frequency, given.phase)
    makes = [torch.zeros_like if nothing or tensor is given.source else torch.empty_like for tensor in tensors]
    made = [make(tensor) if want and tensor is not None else None for make, want, tensor in zip(makes, wants, tensors, strict=True)]
    _call("slots_grad", given, weights, _laid_as(given.wanted, into.resolve_neg()), *made)
    wanted, source, edge, frequency, phase = made
    return Asked(wanted, source, None, None, None, edge, frequency, phase, None)  # type: ignore[arg-type]


def _laid_as(wanted: Tensor, into: Tensor) -> Tensor:
    return into.contiguous() if wanted.is_contiguous() else into.transpose(0, 1).contiguous().transpose(0, 1)


def _call(name: str, given: Asked, *made: Tensor | None) -> None:
    targets, heads, _ = given.wanted.shape
    edges = 0 if given.edge is None else given.edge.shape[2]
    clock = 0 if given.frequency is None else len(given.frequency)
    sizes = (targets, given.slot.shape[1], heads, given.source.shape[1], edges, clock, len(given.source))
    asked, results = ([None if tensor is None else tensor.data_ptr() for tensor in tensors] for tensors in (given, made))
    library: Any = cpu_library()
    status = getattr(library, f"cs_{name}_{FLOATS[given.wanted.dtype]}")(*sizes, *asked, not given.wanted.is_contiguous(), *results)
    if status == _ARGUMENT:
        raise outside(given)
    succeed(name, status)
