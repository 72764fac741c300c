"""Gates of a GRU (Cho et al. 2014, in torch's form), forward and backward in one pass each: the update of a node memory."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext.native import abi
from chronoscale.cuda_ext.native.abi import CudaLaunch, EntryLayout, pointer
from chronoscale.cuda_ext.native.backend import FLOATS, BackendName, select_kernels
from chronoscale.cuda_ext.native.cpp_operators import REFUSALS, cpp_serves, load_operators, raise_unless_refused
from chronoscale.cuda_ext.operators.sparse_arrays import describe, is_plain
from chronoscale.cuda_ext.reference import aggregation as aggregation_reference
from chronoscale.errors import UserError


def gates(from_input: Tensor, from_memory: Tensor, memory: Tensor, mask: Tensor, backend: BackendName = None) -> Tensor:
    """Update node memory [U, H] by a GRU in one kernel, from products of its input and of its memory, [U, 3 H] each.

    The 3 H are reset, update and candidate:

        r, z = sigmoid(from_input + from_memory)
        n = tanh(from_input_n + r * from_memory_n)
        s' = n + z * (s - n)

    memory s [U, H]; mask bool [U]: the rows that change; others keep theirs, bit for bit. float32 or float64 alike, contiguous, on one
    device. Differentiable, once, in from_input, from_memory and memory. Raises UserError when something does not fit.
    """
    if cpp_serves(memory, backend):
        try:
            return cast(Tensor, load_operators().gates(from_input, from_memory, memory, mask))
        except REFUSALS as error:
            raise_unless_refused(error)
    _check(from_input, from_memory, memory, mask)
    if select_kernels(from_input.device, backend) is aggregation_reference:
        return _torch(from_input, from_memory, memory, mask)
    return cast(Tensor, _Gates.apply(from_input, from_memory, memory, mask))  # type: ignore[no-untyped-call]


class _Gates(torch.autograd.Function):
    """The gates as an autograd function."""

    @staticmethod
    def forward(ctx: Any, from_input: Tensor, from_memory: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        ctx.save_for_backward(from_input, from_memory, memory, mask)
        out = torch.empty_like(memory)
        forward_gates(from_input, from_memory, memory, mask, out)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        from_input, from_memory, memory, mask = ctx.saved_tensors
        to_memory = torch.empty_like(memory) if ctx.needs_input_grad[2] else None
        operand_grads = torch.empty_like(from_input), torch.empty_like(from_memory), to_memory
        gradient_gates(from_input, from_memory, memory, mask, gradients[0].resolve_neg().contiguous(), *operand_grads)
        return *operand_grads, None


def forward_gates(from_input: Tensor, from_memory: Tensor, memory: Tensor, mask: Tensor, out: Tensor) -> None:
    """Run the forward kernel of `gates` (a GRU's update of node memory): write the new memory into `out` [U, H].

    from_input, from_memory [U, 3 H]: products of the GRU's input and memory with its weights; memory [U, H]; mask bool [U]: the rows that
    change. Nothing is checked.
    """
    _call("gates", from_input, from_memory, memory, mask, out)


def gradient_gates(
    from_input: Tensor,
    from_memory: Tensor,
    memory: Tensor,
    mask: Tensor,
    grad_out: Tensor,
    to_input: Tensor,
    to_hidden: Tensor,
    to_memory: Tensor | None,
) -> None:
    """Run the backward kernel of `gates`: write the gradients of from_input, from_memory and memory (None: not wanted).

    grad_out [U, H]: gradient of the new memory; to_input, to_hidden [U, 3 H], to_memory [U, H]: where gradients are written.
    """
    _call("gates_grad", from_input, from_memory, memory, mask, grad_out, to_input, to_hidden, to_memory)


def _call(name: str, from_input: Tensor, from_memory: Tensor, memory: Tensor, *more: Tensor | None) -> None:
    """Run a gate kernel on these operands, on the device of the memory."""
    abi.call(name, memory, (*memory.shape, *map(pointer, (from_input, from_memory, memory, *more))), CudaLaunch((), EntryLayout(0, 0)))


def _torch(from_input: Tensor, from_memory: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    """Compute `gates` by torch's operators."""
    width = 2 * memory.shape[1]
    reset, stay = (from_input[:, :width] + from_memory[:, :width]).sigmoid().chunk(2, 1)
    candidate = torch.addcmul(from_input[:, width:], reset, from_memory[:, width:]).tanh()
    return torch.where(mask[:, None], torch.lerp(candidate, memory, stay), memory)


def _check(from_input: Tensor, from_memory: Tensor, memory: Tensor, mask: Tensor) -> None:
    """Raise UserError unless dtypes, shapes, devices and layouts of the operands fit."""
    rows, hidden = memory.shape if memory.dim() == 2 else (-1, -1)
    both = (rows, 3 * hidden)
    sizes = {
        "memory": (memory, (rows, hidden)),
        "from_input": (from_input, both),
        "from_memory": (from_memory, both),
        "mask": (mask, (rows,)),
    }
    for name, (tensor, shape) in sizes.items():
        dtype = torch.bool if name == "mask" else from_input.dtype if from_input.dtype in FLOATS else torch.float32
        if tuple(tensor.shape) != shape or tensor.dtype != dtype or tensor.device != memory.device or not is_plain(tensor):
            wanted = "U, H" if name == "memory" else ", ".join(map(str, shape))
            raise UserError(f"gates: {name} is {describe(tensor)}; expected contiguous {dtype} [{wanted}] on {memory.device}")
