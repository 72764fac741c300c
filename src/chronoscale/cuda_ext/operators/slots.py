"""Attention of targets to their sampled slots (TGAT, section 3.2), forward and backward in one pass over the slots each.

    sums = attend(wanted, source, Slots(slot, there, elapsed, edge), (frequency, phase))

Slots are weighed as they are: what a head asks for has been brought to their width before (`wanted`), and the sums go on from there.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext.native import slots as slots_native
from chronoscale.cuda_ext.native.backend import FLOATS, BackendName, select_kernels
from chronoscale.cuda_ext.native.cpp_operators import REFUSALS, cpp_serves, load_operators, raise_unless_refused
from chronoscale.cuda_ext.operators.graph import describe, is_plain
from chronoscale.cuda_ext.reference import aggregation as reference
from chronoscale.cuda_ext.reference import slots as slots_reference
from chronoscale.cuda_ext.reference.slots import SlotOperands, Slots
from chronoscale.errors import UserError

__all__ = ["MAX_SLOTS", "Encoding", "Slots", "attend"]

Encoding = tuple[Tensor, Tensor]  # frequency and phase, [C] each
MAX_SLOTS = 1024  # of a target
CONSTANTS = ("elapsed", "keep")
KINDS = {"slot": torch.int64, "there": torch.bool}
DIMENSIONS = {  # of each argument, by their names
    "wanted": "ThX",
    "source": "SD",
    "slot": "TK",
    "there": "TK",
    "elapsed": "TK",
    "edge": "TKE",
    "frequency": "C",
    "phase": "C",
    "keep": "ThK",
}


def attend(
    wanted: Tensor, source: Tensor, slots: Slots, encoding: Encoding | None = None, keep: Tensor | None = None, backend: BackendName = None
) -> Tensor:
    """sum over k of a_k x_k [T, h, X] with a = softmax of wanted . x_k over the slots that are there, zeros where none is.

    x_k = [source[slot_k], edge_k, cos(frequency * elapsed_k + phase)], of X = D + De + C numbers; without an encoding C is 0 and elapsed
    is not read. The angle is formed in float64, where the product is exact: in float32 the cosine of an elapsed time of 1e9 would be
    noise. wanted [T, h, X] and source [S, D] are float32 or float64 alike, as are elapsed, edge, encoding and keep [T, h, K], which
    multiplies a (dropout); all contiguous (wanted may be [h, T, X] in memory, as its sums are then) and on one device. Differentiable,
    once, in wanted, source, edge, frequency and phase, with the same bits on any number of threads. What stands in slots that are not
    there is not read.

    Without the native library torch's operators run (`reference`), and a ChronoscaleWarning says so once. Raises UserError when something
    does not fit or a slot lies outside [0, S), MachineError when memory runs out. On CUDA the host does not wait to learn of such slots:
    their targets' sums and gradients are NaN (the reference's operators assert there).
    """
    slot, there, elapsed, edge = slots
    if encoding is None:
        given = SlotOperands(wanted, source, slot, there, None, edge, None, None, keep)
    elif elapsed is None:
        raise UserError("attend: an encoding of elapsed times was given, and no elapsed times")
    else:
        given = SlotOperands(wanted, source, slot, there, elapsed, edge, *encoding, keep)
    if cpp_serves(wanted, backend):
        try:
            return cast(Tensor, load_operators().attend(*given))
        except REFUSALS as error:
            raise_unless_refused(error)
    _check(given)
    kernels = slots_reference if select_kernels(wanted.device, backend) is reference else slots_native
    return cast(Tensor, _Attend.apply(kernels, *given))  # type: ignore[no-untyped-call]


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernels: Any, *tensors: Any) -> Tensor:
        given = SlotOperands(*tensors)
        sums, weights, laid = kernels.attend(given)
        ctx.kernels = kernels
        ctx.save_for_backward(*given, weights, *laid)
        return cast(Tensor, sums)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        saved, count = ctx.saved_tensors, len(SlotOperands._fields)
        given, weights, laid = SlotOperands(*saved[:count]), saved[count], saved[count + 1 :]
        made = ctx.kernels.attend_grad(given, weights, laid, gradients[0], SlotOperands(*ctx.needs_input_grad[1:]))
        return None, *made


def _check(given: SlotOperands) -> None:
    sizes: dict[str, int] = {}
    device, floating = given.wanted.device, given.wanted.dtype if given.wanted.dtype in FLOATS else torch.float32
    for (name, names), tensor in zip(DIMENSIONS.items(), given, strict=True):
        if tensor is None:
            continue
        dtype = KINDS.get(name, floating)
        known = dict(sizes)
        fits = tensor.dim() == len(names) and all(sizes.setdefault(of, size) == size for of, size in zip(names, tensor.shape, strict=True))
        whole = fits and (is_plain(tensor) or (name == "wanted" and is_plain(tensor.transpose(0, 1))))
        if not whole or tensor.dtype != dtype or tensor.device != device:
            shape = ", ".join(f"{of} = {known[of]}" if of in known else of for of in names)
            raise UserError(f"{name} is {describe(tensor)}; expected contiguous {dtype} [{shape}] on {device}")
        if tensor.requires_grad and name in CONSTANTS:
            raise UserError(f"{name} asks for gradients; expected constants")
    parts = [sizes["D"], sizes.get("E", 0), sizes.get("C", 0)]
    if sizes["h"] < 1 or sizes["K"] > MAX_SLOTS or sizes["X"] != sum(parts):
        raise UserError(
            f"attend: wanted has {sizes['h']} heads of {sizes['X']} numbers, for {sizes['K']} slots of {' + '.join(map(str, parts))} "
            f"(source, edge, encoding); expected as many numbers, at least 1 head and at most {MAX_SLOTS} slots"
        )
