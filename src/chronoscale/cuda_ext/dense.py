"""Products of dense matrices, for the tall and narrow ones that models of event streams are made of.

    out = product(a, b, start)      # start + a @ b; a batch of products where a and b have one

On a CPU a kernel of ours, for which strides cost nothing and which needs no time to learn a new number of rows; else torch's.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext import reference
from chronoscale.cuda_ext.backend import FLOATS, Pinned, select_without_cuda
from chronoscale.cuda_ext.loader import cpu_library, succeed
from chronoscale.errors import UserError


def product(a: Tensor, b: Tensor, start: Tensor | None = None, backend: Pinned = None) -> Tensor:
    """start + a @ b of a [m, k], b [k, n] and start [n] or [m, n]; or of a [h, m, k] and b [h, k, n], without start.

    All float32 or float64 alike, on one device, with any strides. Differentiable, once. A batch's result [h, m, n] lies in memory as
    [m, h, n]: rows beside each other. On a CPU every number is summed by ascending k, whatever the other rows and the number of threads
    are, so that a row's result is the same bit for bit in any batch. Raises UserError when something does not fit.
    """
    _check(a, b, start)
    if select_without_cuda("a product", a.device, backend, slower=False) is reference:
        return _torch(a, b, start)
    return cast(Tensor, _Product.apply(a, b, start))  # type: ignore[no-untyped-call]


class Linear(torch.nn.Linear):
    """torch's linear layer, by `product`."""

    def forward(self, input: Tensor) -> Tensor:
        """Rows [..., in] to [..., out]."""
        return product(input.reshape(-1, self.in_features), self.weight.t(), self.bias).view(*input.shape[:-1], self.out_features)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, start: Tensor | None) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.repeats = start is not None and start.dim() == 1
        out = a.new_empty(a.shape[-2], *a.shape[:-2], b.shape[-1])
        return multiply(a, b, start, out if a.dim() == 2 else out.transpose(0, 1))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (a, b), into, needs = ctx.saved_tensors, gradients[0], ctx.needs_input_grad
        to_a = multiply(into, b.mT, None, _beside(a)) if needs[0] else None
        to_b = multiply(a.mT, into, None, _beside(b)) if needs[1] else None
        return to_a, to_b, (into.sum(0) if ctx.repeats else into) if needs[2] else None


def _beside(operand: Tensor) -> Tensor:
    """Room for its gradient, as it lies in memory itself where it can, so that nobody has to lay it anew."""
    out = torch.empty_like(operand)
    fits = 1 in out.stride()[-2:] or min(out.shape[-2:]) < 2
    return out if fits else torch.empty_like(operand, memory_format=torch.contiguous_format)


def multiply(a: Tensor, b: Tensor, start: Tensor | None, out: Tensor) -> Tensor:
    """start + a @ b into `out`, on a CPU, of operands that fit and that it shares no memory with; its rows or its columns lie in one piece,
    columns only without start. Returns `out`."""
    if out.stride(-1) != 1 and out.shape[-1] > 1:
        assert start is None
        return _multiply_rows(b.mT, a.mT, None, out.mT).mT
    return _multiply_rows(a, b, start, out)


def _multiply_rows(a: Tensor, b: Tensor, start: Tensor | None, out: Tensor) -> Tensor:
    a, b = a.resolve_neg(), b.resolve_neg()
    begin, along = None, 0
    if start is not None:
        start = start.resolve_neg()
        start = start if start.stride(-1) == 1 else start.contiguous()
        begin, along = start.data_ptr(), start.stride(0) if start.dim() == 2 else 0
    batches, over = (1, (0, 0, 0)) if a.dim() == 2 else (len(a), (a.stride(0), b.stride(0), out.stride(0)))
    rows, depth = a.shape[-2:]
    assert out.stride(-1) == 1 or out.shape[-1] < 2
    library: Any = cpu_library()
    status = getattr(library, f"cs_product_{FLOATS[a.dtype]}")(
        batches, rows, b.shape[-1], depth, a.data_ptr(), over[0], *a.stride()[-2:], b.data_ptr(), over[1], *b.stride()[-2:],
        begin, along, out.data_ptr(), over[2], out.stride(-2),
    )  # fmt: skip
    succeed("product", status)
    return out


def _torch(a: Tensor, b: Tensor, start: Tensor | None) -> Tensor:
    if a.dim() == 3:
        return torch.bmm(a, b)
    return a @ b if start is None else torch.addmm(start, a, b)


def _check(a: Tensor, b: Tensor, start: Tensor | None) -> None:
    fits = a.dim() == b.dim() and a.dim() in (2, 3) and a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2]
    if not (fits and _alike(a, b) and _held(a) and _held(b)):
        shapes = "[m, k] and [k, n], or [h, m, k] and [h, k, n]"
        raise UserError(f"product: a is {_said(a)}, b is {_said(b)}; expected {shapes}, floats alike")
    if start is None:
        return
    if a.dim() != 2 or start.shape not in (b.shape[1:], (a.shape[0], b.shape[1])) or not (_alike(a, start) and _held(start)):
        raise UserError(f"product: start is {_said(start)}; expected {a.dtype} [{b.shape[-1]}] or [{a.shape[0]}, {b.shape[-1]}]")


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.dtype in FLOATS and other.dtype == one.dtype and other.device == one.device


def _held(tensor: Tensor) -> bool:
    """Whether all of it is in memory."""
    if tensor.layout != torch.strided:
        return False
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return not tensor.numel() or tensor.untyped_storage().nbytes() >= (tensor.storage_offset() + last + 1) * tensor.element_size()


def _said(tensor: Tensor) -> str:
    """With any strides: `described` would blame those."""
    wrong = f", {tensor.layout}" if tensor.layout != torch.strided else "" if _held(tensor) else ", not all of it in memory"
    return f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}{wrong}"
