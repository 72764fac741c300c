"""Attention to sampled slots through the C ABI. The CPU's kernel looks at slots in every call; CUDA's steps over those out of range."""

from __future__ import annotations

import torch
from torch import Tensor

from chronoscale.cuda_ext.native import abi
from chronoscale.cuda_ext.native import edges as edges_native
from chronoscale.cuda_ext.native.abi import CudaLaunch, EntryLayout, pointer
from chronoscale.cuda_ext.native.backend import FLOATS
from chronoscale.cuda_ext.reference.slots import SlotOperands, out_of_range_error


def attend(given: SlotOperands) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """As slots_reference.attend; angles are formed anew in the backward pass."""
    targets, heads, across = given.wanted.shape
    nothing = not (given.slot.numel() and across)
    sums = (torch.zeros_like if nothing else torch.empty_like)(given.wanted)  # and so as it lies in memory
    weights = given.wanted.new_empty(targets, heads, given.slot.shape[1])
    _call("slots", given, weights, sums)
    return sums, weights, ()


def attend_grad(given: SlotOperands, weights: Tensor, laid: tuple[Tensor, ...], into: Tensor, needs: SlotOperands) -> SlotOperands:
    """As slots_reference.attend_grad."""
    clock = needs.frequency or needs.phase
    nothing = not (given.slot.numel() and given.wanted.shape[2])
    wants = (needs.wanted, needs.source, needs.edge, clock, clock)
    tensors = (given.wanted, given.source, given.edge, given.frequency, given.phase)
    makes = [torch.zeros_like if nothing or tensor is given.source else torch.empty_like for tensor in tensors]
    made = [make(tensor) if want and tensor is not None else None for make, want, tensor in zip(makes, wants, tensors, strict=True)]
    wanted, source, edge, frequency, phase = made
    into = _laid_as(given.wanted, into.resolve_neg())
    if abi.on_cuda(into):
        rows = None if source is None else source.new_empty(given.slot.numel(), source.shape[1])
        turns = None if frequency is None else frequency.new_empty(len(weights), 2, len(frequency))
        _call("slots_grad", given, weights, into, torch.empty_like(weights), wanted, rows, edge, turns, frequency, phase)
        source = None if rows is None else _added(given, rows)
    else:
        _call("slots_grad", given, weights, into, *made)
    return SlotOperands(wanted, source, None, None, None, edge, frequency, phase, None)  # type: ignore[arg-type]


def _added(given: SlotOperands, rows: Tensor) -> Tensor:
    """The gradients of slots, in their order, as those of the source's rows; slots that are not there, or no rows, are left out."""
    row = given.slot.masked_fill(~given.there, len(given.source)).flatten()
    return edges_native.aggregate(rows, row, len(given.source), None, deterministic=True, ascending=False)


def _laid_as(wanted: Tensor, into: Tensor) -> Tensor:
    return into.contiguous() if wanted.is_contiguous() else into.transpose(0, 1).contiguous().transpose(0, 1)


def _call(name: str, given: SlotOperands, *made: Tensor | None) -> None:
    targets, heads, _ = given.wanted.shape
    edges = 0 if given.edge is None else given.edge.shape[2]
    clock = 0 if given.frequency is None else len(given.frequency)
    sizes = (targets, given.slot.shape[1], heads, given.source.shape[1], edges, clock, len(given.source))
    arguments = (*sizes, *map(pointer, given), not given.wanted.is_contiguous(), *map(pointer, made))
    if abi.call_for_status(
        f"{name}_{FLOATS[given.wanted.dtype]}", given.wanted, arguments, CudaLaunch((), EntryLayout(targets, None), clock)
    ):
        raise out_of_range_error(given)
