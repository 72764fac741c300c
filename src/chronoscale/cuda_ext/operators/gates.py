"""The gates of a GRU (Cho et al. 2014, in torch's form), forward and backward in one pass each."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext.native import abi
from chronoscale.cuda_ext.native.abi import CudaLaunch, EntryLayout, pointer
from chronoscale.cuda_ext.native.backend import FLOATS, BackendName, select_kernels
from chronoscale.cuda_ext.native.cpp_operators import REFUSALS, cpp_serves, load_operators, raise_unless_refused
from chronoscale.cuda_ext.operators.graph import describe, is_plain
from chronoscale.cuda_ext.reference import aggregation as reference
from chronoscale.errors import UserError


def gates(given: Tensor, kept: Tensor, memory: Tensor, there: Tensor, backend: BackendName = None) -> Tensor:
    """New memory [U, H] from what the input and the memory come to, `given` and `kept` [U, 3 H], for reset, update and candidate:

    r, z = sigmoid(given + kept);  n = tanh(given_n + r * kept_n);  s' = n + z * (s - n)

    memory [U, H]; there bool [U]: other rows keep theirs, bit for bit. float32 or float64 alike, contiguous, on one device. Differentiable,
    once, in given, kept and memory. Raises UserError when something does not fit.
    """
    if cpp_serves(memory, backend):
        try:
            return cast(Tensor, load_operators().gates(given, kept, memory, there))
        except REFUSALS as error:
            raise_unless_refused(error)
    _check(given, kept, memory, there)
    if select_kernels(given.device, backend) is reference:
        return _torch(given, kept, memory, there)
    return cast(Tensor, _Gates.apply(given, kept, memory, there))  # type: ignore[no-untyped-call]


class _Gates(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Tensor, kept: Tensor, memory: Tensor, there: Tensor) -> Tensor:
        ctx.save_for_backward(given, kept, memory, there)
        out = torch.empty_like(memory)
        forward_gates(given, kept, memory, there, out)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        given, kept, memory, there = ctx.saved_tensors
        to_memory = torch.empty_like(memory) if ctx.needs_input_grad[2] else None
        made = torch.empty_like(given), torch.empty_like(kept), to_memory
        gradient_gates(given, kept, memory, there, gradients[0].resolve_neg().contiguous(), *made)
        return *made, None


def forward_gates(given: Tensor, kept: Tensor, memory: Tensor, there: Tensor, out: Tensor) -> None:
    """`gates` into `out` [U, H], by a kernel, of operands that fit."""
    _call("gates", given, kept, memory, there, out)


def gradient_gates(
    given: Tensor, kept: Tensor, memory: Tensor, there: Tensor, into: Tensor, to_given: Tensor, to_kept: Tensor, to_memory: Tensor | None
) -> None:
    """The gradients of `given`, `kept` and `memory` (None: not wanted) from that of the result, likewise."""
    _call("gates_grad", given, kept, memory, there, into, to_given, to_kept, to_memory)


def _call(name: str, given: Tensor, kept: Tensor, memory: Tensor, *more: Tensor | None) -> None:
    abi.call(name, memory, (*memory.shape, *map(pointer, (given, kept, memory, *more))), CudaLaunch((), EntryLayout(0, 0)))


def _torch(given: Tensor, kept: Tensor, memory: Tensor, there: Tensor) -> Tensor:
    width = 2 * memory.shape[1]
    reset, stay = (given[:, :width] + kept[:, :width]).sigmoid().chunk(2, 1)
    candidate = torch.addcmul(given[:, width:], reset, kept[:, width:]).tanh()
    return torch.where(there[:, None], torch.lerp(candidate, memory, stay), memory)


def _check(given: Tensor, kept: Tensor, memory: Tensor, there: Tensor) -> None:
    rows, hidden = memory.shape if memory.dim() == 2 else (-1, -1)
    both = (rows, 3 * hidden)
    sizes = {"memory": (memory, (rows, hidden)), "given": (given, both), "kept": (kept, both), "there": (there, (rows,))}
    for name, (tensor, shape) in sizes.items():
        dtype = torch.bool if name == "there" else given.dtype if given.dtype in FLOATS else torch.float32
        if tuple(tensor.shape) != shape or tensor.dtype != dtype or tensor.device != memory.device or not is_plain(tensor):
            wanted = "U, H" if name == "memory" else ", ".join(map(str, shape))
            raise UserError(f"gates: {name} is {describe(tensor)}; expected contiguous {dtype} [{wanted}] on {memory.device}")
