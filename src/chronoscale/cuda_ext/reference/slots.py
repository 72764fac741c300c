"""Reference of attention to sampled slots in plain torch, with its gradients, and the operands that the native kernels share."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from chronoscale.errors import UserError


class Slots(NamedTuple):
    """Sampled neighbour slots of T targets, K each, as the attention kernels take them.

    slot int64 [T, K]: row of the source; mask bool [T, K]: whether the slot is filled; elapsed [T, K]: time since the slot's event; edge
    [T, K, De]: features of the event.
    """

    slot: Tensor
    mask: Tensor
    elapsed: Tensor | None = None
    edge: Tensor | None = None


class SlotOperands(NamedTuple):
    """Operands of the kernels of attention to sampled slots, checked; also which of them need a gradient, and their gradients."""

    query: Tensor
    source: Tensor
    slot: Tensor
    mask: Tensor
    elapsed: Tensor | None
    edge: Tensor | None
    frequency: Tensor | None
    phase: Tensor | None
    keep: Tensor | None


def attend(operands: SlotOperands) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Attend from T targets to K sampled neighbour slots each, in h heads, in plain torch: the reference of the native kernel.

    operands: query [T, h, X], source rows, slots and time encoding. Returns sums over slots [T, h, X], attention weights [T, h, K], and for
    `attend_grad` the parts that a slot's X numbers consist of, and sines of the time encoding's angles.
    """
    query, source, empty = operands.query, operands.source, ~operands.mask
    slot = operands.slot.masked_fill(empty, 0)
    check_rows(operands, slot)
    rows = source.index_select(0, slot.flatten()) if len(source) else source.new_zeros(slot.numel(), source.shape[1])
    parts, sine = [rows.view(*slot.shape, source.shape[1])], None
    if operands.edge is not None:
        parts.append(operands.edge)
    if operands.frequency is not None and operands.phase is not None and operands.elapsed is not None:
        # In float64 the product of two float32 is exact, and the angle right however many turns it has.
        angle = operands.phase.double() + operands.elapsed.masked_fill(empty, 0).double()[..., None] * operands.frequency.double()
        parts.append(angle.cos().to(query.dtype))
        sine = angle.sin().to(query.dtype)
    parts = [part.masked_fill(empty[..., None], 0) for part in parts]
    scores = _products(query, parts).masked_fill(empty[:, None], -torch.inf)
    weights = (scores.softmax(2) if slot.shape[1] else scores).masked_fill(empty[:, None], 0)
    sums = torch.cat([torch.bmm(_kept(weights, operands), part) for part in parts], 2)
    return sums, weights, (*parts, *(() if sine is None else (sine,)))


def attend_grad(
    operands: SlotOperands, weights: Tensor, parts_and_sine: tuple[Tensor, ...], grad_out: Tensor, needs: SlotOperands
) -> SlotOperands:
    """Return the gradients of attention to sampled slots in plain torch, the reference of the native kernel.

    operands: of the forward pass. weights, parts_and_sine: as `attend` returned them. grad_out [T, h, X]: gradient of its sums. needs: true
    for operands that need a gradient. Returns the gradients in the operands' places, None for others.
    """
    empty, query = ~operands.mask, operands.query
    parts, sine = (parts_and_sine, None) if operands.frequency is None else (parts_and_sine[:-1], parts_and_sine[-1])
    dropped_weights = _kept(weights, operands)
    to_weights = _products(grad_out, list(parts))
    if operands.keep is not None:
        to_weights = to_weights * operands.keep
    to_weights = to_weights.masked_fill(empty[:, None], 0)
    to_scores = (weights * (to_weights - (weights * to_weights).sum(2, keepdim=True))).masked_fill(empty[:, None], 0)
    # A slot is met twice, where it is scored and where it is summed: one product for both.
    left, right = torch.cat([to_scores, dropped_weights], 1).transpose(1, 2), torch.cat([query, grad_out], 1)
    to_slots = torch.bmm(left, right).masked_fill(empty[..., None], 0).split([part.shape[2] for part in parts], 2)
    gradients = SlotOperands(*([None] * len(SlotOperands._fields)))  # type: ignore[arg-type]
    if needs.query:
        gradients = gradients._replace(query=torch.cat([torch.bmm(to_scores, part) for part in parts], 2))
    if needs.source:
        rows, zeros = to_slots[0].flatten(0, 1), torch.zeros_like(operands.source)
        if len(zeros):  # sorted on CUDA: in one order every time
            zeros.index_put_((operands.slot.masked_fill(empty, 0).flatten(),), rows, accumulate=True)
        gradients = gradients._replace(source=zeros)
    if operands.edge is not None and needs.edge:
        gradients = gradients._replace(edge=to_slots[1].contiguous())
    if sine is not None and operands.elapsed is not None and (needs.frequency or needs.phase):
        to_angle = (to_slots[-1] * sine).flatten(0, 1)
        elapsed = operands.elapsed.masked_fill(empty, 0).view(1, -1)
        gradients = gradients._replace(frequency=-(elapsed @ to_angle)[0], phase=-to_angle.sum(0))
    return gradients


def check_rows(operands: SlotOperands, slot: Tensor) -> None:
    """Check that slots of the attention reference name rows of `operands.source`.

    slot: row numbers [T, K], 0 where a slot is empty. Raises UserError for one out of range; on a CPU alone, for a GPU's host would have to
    wait.
    """
    if operands.query.device.type != "cpu" or not slot.numel():
        return
    if not 0 <= int(slot.min()) <= int(slot.max()) < max(len(operands.source), not operands.mask.any()):
        raise out_of_range_error(operands)


def out_of_range_error(operands: SlotOperands) -> UserError:
    """Return the error of attention to sampled slots where a filled slot is no row of the source."""
    return UserError(f"attend: slots that are mask must lie in [0, {len(operands.source)}), the rows of source")


def _products(left: Tensor, parts: list[Tensor]) -> Tensor:
    """Return the products [T, n, K] of left [T, n, X] with each slot, whose parts [T, K, X_i] lie beside each other."""
    total = left.new_zeros(*left.shape[:2], parts[0].shape[1])
    for part, own in zip(parts, left.split([part.shape[2] for part in parts], 2), strict=True):
        total = torch.baddbmm(total, own, part.transpose(1, 2))
    return total


def _kept(weights: Tensor, operands: SlotOperands) -> Tensor:
    """Return the weights after dropout; those of empty slots are 0."""
    return weights if operands.keep is None else (weights * operands.keep).masked_fill(~operands.mask[:, None], 0)
