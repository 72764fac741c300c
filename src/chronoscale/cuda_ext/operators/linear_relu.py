"""Linear layer and ReLU on many rows, block by block, so that a block's sums are cut off while they lie in the cache."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext.native.backend import FLOATS, BackendName, select_kernels_without_cuda
from chronoscale.cuda_ext.operators.row_blocks import longest_block, row_blocks
from chronoscale.cuda_ext.operators.sparse_arrays import describe
from chronoscale.cuda_ext.reference import aggregation as aggregation_reference
from chronoscale.errors import UserError


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor | None = None, backend: BackendName = None) -> Tensor:
    """Run a linear layer and its ReLU by the CPU kernels: max(0, x @ weight.T + bias), [R, H], of x [R, D], weight [H, D] and bias [H].

    All float32 or float64 alike, on one device. Differentiable, once. NaN stays NaN. On other devices than a CPU torch's operators run.
    Raises UserError when something does not fit.
    """
    _check(x, weight, bias)
    if select_kernels_without_cuda("a linear layer", x.device, backend) is aggregation_reference:
        return torch.relu(torch.nn.functional.linear(x, weight, bias))
    return cast(Tensor, _LinearRelu.apply(x, weight, bias))  # type: ignore[no-untyped-call]


class _LinearRelu(torch.autograd.Function):
    """The layer as an autograd function on a CPU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        out = x.new_empty(len(x), len(weight))
        for block in row_blocks(len(x), len(weight)):
            if bias is None:
                torch.mm(x[block], weight.t(), out=out[block])
            else:
                torch.addmm(bias, x[block], weight.t(), out=out[block])
            out[block].relu_()
        ctx.save_for_backward(x, weight, bias, out)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight, bias, out), grad_out, needs = ctx.saved_tensors, gradients[0], ctx.needs_input_grad
        to_x = torch.empty_like(x, memory_format=torch.contiguous_format) if needs[0] else None
        to_weight = torch.zeros_like(weight) if needs[1] else None
        to_bias = torch.zeros_like(bias) if needs[2] else None
        scratch = out.new_empty(longest_block(len(x), len(weight)), len(weight))
        for block in row_blocks(len(x), len(weight)):
            block_grads = scratch[: block.stop - block.start]
            torch.ops.aten.threshold_backward.grad_input(grad_out[block], out[block], 0, grad_input=block_grads)
            if to_x is not None:
                torch.mm(block_grads, weight, out=to_x[block])
            if to_weight is not None:
                to_weight.addmm_(block_grads.t(), x[block])
            if to_bias is not None:
                to_bias += block_grads.sum(0)
        return to_x, to_weight, to_bias


def _check(x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """Raise UserError unless dtypes, shapes and devices fit."""
    if x.dim() != 2 or x.dtype not in FLOATS or x.layout != torch.strided:
        raise UserError(f"linear_relu: x is {describe(x)}; expected float32 or float64 [R, D]")
    hidden = len(weight) if weight.dim() else -1
    for name, tensor, shape in (("weight", weight, (hidden, x.shape[1])), ("bias", bias, (hidden,))):
        if tensor is not None and (tuple(tensor.shape) != shape or tensor.dtype != x.dtype or tensor.device != x.device):
            raise UserError(f"linear_relu: {name} is {describe(tensor)}; expected {x.dtype} {list(shape)} on {x.device}")
