"""Calls of the native slot-attention kernels by ctypes. The CPU's check slots in every call; CUDA's step over those out of range."""

from __future__ import annotations

import torch
from torch import Tensor

from chronoscale.cuda_ext.native import abi
from chronoscale.cuda_ext.native import edges as edges_native
from chronoscale.cuda_ext.native.abi import CudaLaunch, EntryLayout, pointer
from chronoscale.cuda_ext.native.backend import FLOATS
from chronoscale.cuda_ext.reference.slots import SlotOperands, out_of_range_error


def attend(operands: SlotOperands) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Call the native kernel of attention from T targets to their K sampled neighbour slots each, in h heads.

    operands: query [T, h, X], source rows, slots and time encoding, checked. Returns sums over slots [T, h, X], attention weights [T, h,
    K], and what the backward pass needs besides: nothing, as it computes angles anew.
    """
    targets, heads, width = operands.query.shape
    is_empty = not (operands.slot.numel() and width)
    sums = (torch.zeros_like if is_empty else torch.empty_like)(operands.query)  # and so as it lies in memory
    weights = operands.query.new_empty(targets, heads, operands.slot.shape[1])
    _call("slots", operands, weights, sums)
    return sums, weights, ()


def attend_grad(operands: SlotOperands, weights: Tensor, _: tuple[Tensor, ...], grad_out: Tensor, needs: SlotOperands) -> SlotOperands:
    """Call the native kernel for the gradients of attention to sampled slots (T targets, K slots each, h heads).

    operands: of the forward pass. weights [T, h, K]: that it returned; the argument after it is not read. grad_out [T, h, X]: gradient of
    its sums. needs: true for operands that need a gradient. Returns the gradients in the operands' places, None for others.
    """
    needs_encoding = needs.frequency or needs.phase
    is_empty = not (operands.slot.numel() and operands.query.shape[2])
    needed = (needs.query, needs.source, needs.edge, needs_encoding, needs_encoding)
    tensors = (operands.query, operands.source, operands.edge, operands.frequency, operands.phase)
    allocate = [torch.zeros_like if is_empty or tensor is operands.source else torch.empty_like for tensor in tensors]
    outputs = [make(tensor) if want and tensor is not None else None for make, want, tensor in zip(allocate, needed, tensors, strict=True)]
    query, source, edge, frequency, phase = outputs
    grad_out = _laid_as(operands.query, grad_out.resolve_neg())
    if abi.on_cuda(grad_out):
        rows = None if source is None else source.new_empty(operands.slot.numel(), source.shape[1])
        angle_grads = None if frequency is None else frequency.new_empty(len(weights), 2, len(frequency))
        _call("slots_grad", operands, weights, grad_out, torch.empty_like(weights), query, rows, edge, angle_grads, frequency, phase)
        source = None if rows is None else _added(operands, rows)
    else:
        _call("slots_grad", operands, weights, grad_out, *outputs)
    return SlotOperands(query, source, None, None, None, edge, frequency, phase, None)  # type: ignore[arg-type]


def _added(operands: SlotOperands, rows: Tensor) -> Tensor:
    """Add the gradients of slots up, in their order, into those of the source's rows; slots that are empty or name no row are left out."""
    row = operands.slot.masked_fill(~operands.mask, len(operands.source)).flatten()
    return edges_native.aggregate(rows, row, len(operands.source), None, deterministic=True, ascending=False)


def _laid_as(query: Tensor, grad_out: Tensor) -> Tensor:
    """Return `grad_out` with the memory layout that `query` has: contiguous, or head by head."""
    return grad_out.contiguous() if query.is_contiguous() else grad_out.transpose(0, 1).contiguous().transpose(0, 1)


def _call(name: str, operands: SlotOperands, *outputs: Tensor | None) -> None:
    """Run a slot kernel on its operands and output tensors. Raises UserError for a slot out of range (only on the CPU)."""
    targets, heads, _ = operands.query.shape
    edges = 0 if operands.edge is None else operands.edge.shape[2]
    clock = 0 if operands.frequency is None else len(operands.frequency)
    sizes = (targets, operands.slot.shape[1], heads, operands.source.shape[1], edges, clock, len(operands.source))
    arguments = (*sizes, *map(pointer, operands), not operands.query.is_contiguous(), *map(pointer, outputs))
    if abi.call_for_status(
        f"{name}_{FLOATS[operands.query.dtype]}", operands.query, arguments, CudaLaunch((), EntryLayout(targets, None), clock)
    ):
        raise out_of_range_error(operands)
