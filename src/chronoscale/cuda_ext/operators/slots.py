"""Attention of targets to their sampled slots (TGAT, section 3.2), forward and backward in one pass over the slots each.

    sums = attend(query, source, Slots(slot, mask, elapsed, edge), (frequency, phase))

Slots are scored and summed as they are: a head's key and value products are left to the caller, who brings queries to the slots' width
and goes on from the sums.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext.native import slots as slots_native
from chronoscale.cuda_ext.native.backend import FLOATS, BackendName, select_kernels
from chronoscale.cuda_ext.native.cpp_operators import REFUSALS, cpp_serves, load_operators, raise_unless_refused
from chronoscale.cuda_ext.operators.sparse_arrays import describe, is_plain
from chronoscale.cuda_ext.reference import aggregation as aggregation_reference
from chronoscale.cuda_ext.reference import slots as slots_reference
from chronoscale.cuda_ext.reference.slots import SlotOperands, Slots
from chronoscale.errors import UserError

__all__ = ["MAX_SLOTS", "Encoding", "Slots", "attend"]

Encoding = tuple[Tensor, Tensor]  # frequency and phase, [C] each
MAX_SLOTS = 1024  # of a target
CONSTANTS = ("elapsed", "keep")
KINDS = {"slot": torch.int64, "mask": torch.bool}
DIMENSIONS = {  # of each argument, by their names
    "query": "ThX",
    "source": "SD",
    "slot": "TK",
    "mask": "TK",
    "elapsed": "TK",
    "edge": "TKE",
    "frequency": "C",
    "phase": "C",
    "keep": "ThK",
}


def attend(
    query: Tensor, source: Tensor, slots: Slots, encoding: Encoding | None = None, keep: Tensor | None = None, backend: BackendName = None
) -> Tensor:
    """Attend from targets to their K sampled neighbour slots by one kernel (TGAT, section 3.2); zeros where no slot is filled.

    Returns sums over k of a_k x_k, [T, h, X] for h heads, with a = softmax of query . x_k over the filled slots and x_k = [source[slot_k],
    edge_k, cos(frequency * elapsed_k + phase)], of X = D + De + C numbers; without an encoding C is 0 and elapsed is not read. The angle is
    formed in float64, where the product is exact: in float32 the cosine of an elapsed time of 1e9 would be noise.

    query [T, h, X] and source [S, D] are float32 or float64 alike, as are elapsed, edge, encoding and keep [T, h, K], which multiplies a
    (dropout); all contiguous (query may be [h, T, X] in memory, as its sums are then) and on one device. Differentiable, once, in query,
    source, edge, frequency and phase, with the same bits on any number of threads. What empty slots hold is not read.

    Without the native library torch's operators run (`reference`), and a ChronoscaleWarning says so once. Raises UserError when something
    does not fit or a filled slot lies outside [0, S), MachineError when memory runs out. On CUDA the host does not wait to learn of such
    slots: their targets' sums and gradients are NaN (the reference's operators assert there).
    """
    slot, mask, elapsed, edge = slots
    if encoding is None:
        operands = SlotOperands(query, source, slot, mask, None, edge, None, None, keep)
    elif elapsed is None:
        raise UserError("attend: an encoding of elapsed times was given, and no elapsed times")
    else:
        operands = SlotOperands(query, source, slot, mask, elapsed, edge, *encoding, keep)
    if cpp_serves(query, backend):
        try:
            return cast(Tensor, load_operators().attend(*operands))
        except REFUSALS as error:
            raise_unless_refused(error)
    _check(operands)
    kernels = slots_reference if select_kernels(query.device, backend) is aggregation_reference else slots_native
    return cast(Tensor, _Attend.apply(kernels, *operands))  # type: ignore[no-untyped-call]


class _Attend(torch.autograd.Function):
    """The attention to slots as an autograd function."""

    @staticmethod
    def forward(ctx: Any, kernels: Any, *tensors: Any) -> Tensor:
        operands = SlotOperands(*tensors)
        sums, weights, kept_parts = kernels.attend(operands)
        ctx.kernels = kernels
        ctx.save_for_backward(*operands, weights, *kept_parts)
        return cast(Tensor, sums)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        saved, count = ctx.saved_tensors, len(SlotOperands._fields)
        operands, weights, kept_parts = SlotOperands(*saved[:count]), saved[count], saved[count + 1 :]
        operand_grads = ctx.kernels.attend_grad(operands, weights, kept_parts, gradients[0], SlotOperands(*ctx.needs_input_grad[1:]))
        return None, *operand_grads


def _check(operands: SlotOperands) -> None:
    """Raise UserError unless dtypes, shapes, devices and layouts of the operands fit."""
    sizes: dict[str, int] = {}
    device, floating = operands.query.device, operands.query.dtype if operands.query.dtype in FLOATS else torch.float32
    for (name, symbols), tensor in zip(DIMENSIONS.items(), operands, strict=True):
        if tensor is None:
            continue
        dtype = KINDS.get(name, floating)
        known = dict(sizes)
        fits = tensor.dim() == len(symbols) and all(
            sizes.setdefault(symbol, size) == size for symbol, size in zip(symbols, tensor.shape, strict=True)
        )
        fits_memory = fits and (is_plain(tensor) or (name == "query" and is_plain(tensor.transpose(0, 1))))
        if not fits_memory or tensor.dtype != dtype or tensor.device != device:
            shape = ", ".join(f"{symbol} = {known[symbol]}" if symbol in known else symbol for symbol in symbols)
            raise UserError(f"{name} is {describe(tensor)}; expected contiguous {dtype} [{shape}] on {device}")
        if tensor.requires_grad and name in CONSTANTS:
            raise UserError(f"{name} asks for gradients; expected constants")
    parts = [sizes["D"], sizes.get("E", 0), sizes.get("C", 0)]
    if sizes["h"] < 1 or sizes["K"] > MAX_SLOTS or sizes["X"] != sum(parts):
        raise UserError(
            f"attend: query has {sizes['h']} heads of {sizes['X']} numbers, for {sizes['K']} slots of {' + '.join(map(str, parts))} "
            f"(source, edge, encoding); expected as many numbers, at least 1 head and at most {MAX_SLOTS} slots"
        )
