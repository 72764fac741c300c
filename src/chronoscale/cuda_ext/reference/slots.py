"""Attention to sampled slots in plain torch: what the native kernel is compared with, and what runs where there is none."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from chronoscale.errors import UserError


class Slots(NamedTuple):
    """Of T targets, K slots each: slot int64 [T, K], row of the source; there bool [T, K]; elapsed [T, K], time since the slot's event;
    edge [T, K, De], features of the event."""

    slot: Tensor
    there: Tensor
    elapsed: Tensor | None = None
    edge: Tensor | None = None


class SlotOperands(NamedTuple):
    """What `slots.attend` is given, checked; likewise which of it asks for a gradient, or has one."""

    wanted: Tensor
    source: Tensor
    slot: Tensor
    there: Tensor
    elapsed: Tensor | None
    edge: Tensor | None
    frequency: Tensor | None
    phase: Tensor | None
    keep: Tensor | None


def attend(given: SlotOperands) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Sums [T, h, X], weights [T, h, K], and what `attend_grad` needs besides: the parts of slots, and the sines of their angles."""
    wanted, source, empty = given.wanted, given.source, ~given.there
    slot = given.slot.masked_fill(empty, 0)
    check_rows(given, slot)
    rows = source.index_select(0, slot.flatten()) if len(source) else source.new_zeros(slot.numel(), source.shape[1])
    parts, sine = [rows.view(*slot.shape, source.shape[1])], None
    if given.edge is not None:
        parts.append(given.edge)
    if given.frequency is not None and given.phase is not None and given.elapsed is not None:
        # In float64 the product of two float32 is exact, and the angle right however many turns it has.
        angle = given.phase.double() + given.elapsed.masked_fill(empty, 0).double()[..., None] * given.frequency.double()
        parts.append(angle.cos().to(wanted.dtype))
        sine = angle.sin().to(wanted.dtype)
    parts = [part.masked_fill(empty[..., None], 0) for part in parts]
    scores = _products(wanted, parts).masked_fill(empty[:, None], -torch.inf)
    weights = (scores.softmax(2) if slot.shape[1] else scores).masked_fill(empty[:, None], 0)
    sums = torch.cat([torch.bmm(_kept(weights, given), part) for part in parts], 2)
    return sums, weights, (*parts, *(() if sine is None else (sine,)))


def attend_grad(given: SlotOperands, weights: Tensor, laid: tuple[Tensor, ...], into: Tensor, needs: SlotOperands) -> SlotOperands:
    """Gradients of what `needs` them, from that of the sums."""
    empty, wanted = ~given.there, given.wanted
    parts, sine = (laid, None) if given.frequency is None else (laid[:-1], laid[-1])
    kept = _kept(weights, given)
    to_weights = _products(into, list(parts))
    if given.keep is not None:
        to_weights = to_weights * given.keep
    to_weights = to_weights.masked_fill(empty[:, None], 0)
    to_scores = (weights * (to_weights - (weights * to_weights).sum(2, keepdim=True))).masked_fill(empty[:, None], 0)
    # A slot is met twice, where it is scored and where it is summed: one product for both.
    left, right = torch.cat([to_scores, kept], 1).transpose(1, 2), torch.cat([wanted, into], 1)
    to_slots = torch.bmm(left, right).masked_fill(empty[..., None], 0).split([part.shape[2] for part in parts], 2)
    made = SlotOperands(*([None] * len(SlotOperands._fields)))  # type: ignore[arg-type]
    if needs.wanted:
        made = made._replace(wanted=torch.cat([torch.bmm(to_scores, part) for part in parts], 2))
    if needs.source:
        rows, zeros = to_slots[0].flatten(0, 1), torch.zeros_like(given.source)
        if len(zeros):  # sorted on CUDA: in one order every time
            zeros.index_put_((given.slot.masked_fill(empty, 0).flatten(),), rows, accumulate=True)
        made = made._replace(source=zeros)
    if given.edge is not None and needs.edge:
        made = made._replace(edge=to_slots[1].contiguous())
    if sine is not None and given.elapsed is not None and (needs.frequency or needs.phase):
        to_angle = (to_slots[-1] * sine).flatten(0, 1)
        elapsed = given.elapsed.masked_fill(empty, 0).view(1, -1)
        made = made._replace(frequency=-(elapsed @ to_angle)[0], phase=-to_angle.sum(0))
    return made


def check_rows(given: SlotOperands, slot: Tensor) -> None:
    """On a CPU alone: a GPU's host would have to wait. Raises UserError for a slot that is there and is no row; others count as 0."""
    if given.wanted.device.type != "cpu" or not slot.numel():
        return
    if not 0 <= int(slot.min()) <= int(slot.max()) < max(len(given.source), not given.there.any()):
        raise out_of_range_error(given)


def out_of_range_error(given: SlotOperands) -> UserError:
    """What is said of a slot that is no row."""
    return UserError(f"attend: slots that are there must lie in [0, {len(given.source)}), the rows of source")


def _products(left: Tensor, parts: list[Tensor]) -> Tensor:
    """left [T, n, X] with parts [T, K, X_i] beside each other: [T, n, K]."""
    total = left.new_zeros(*left.shape[:2], parts[0].shape[1])
    for part, own in zip(parts, left.split([part.shape[2] for part in parts], 2), strict=True):
        total = torch.baddbmm(total, own, part.transpose(1, 2))
    return total


def _kept(weights: Tensor, given: SlotOperands) -> Tensor:
    return weights if given.keep is None else (weights * given.keep).masked_fill(~given.there[:, None], 0)
