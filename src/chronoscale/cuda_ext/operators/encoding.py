"""Encodings of elapsed times by cosines of learned frequencies (TGAT, section 3.1)."""

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


def encode(elapsed: Tensor, frequency: Tensor, phase: Tensor, backend: BackendName = None) -> Tensor:
    """Encode elapsed times by a kernel: cos(frequency * elapsed + phase), [n, C], of elapsed [n], frequency [C] and phase [C] (TGAT).

    Angles are formed in float64: in float32 the cosine of a large one is noise. Tensors are float32 or float64 alike, contiguous, on one
    device. Differentiable, once, in frequency and phase; gradients are summed in the tensors' own precision, on CUDA in float64. Raises
    UserError when something does not fit.
    """
    if cpp_serves(elapsed, backend):
        try:
            return cast(Tensor, load_operators().encode(elapsed, frequency, phase))
        except REFUSALS as error:
            raise_unless_refused(error)
    _check(elapsed, frequency, phase)
    if select_kernels(elapsed.device, backend) is aggregation_reference:
        return torch.addcmul(phase.double(), elapsed[:, None].double(), frequency.double()).cos().to(phase.dtype)
    needs_grad = torch.is_grad_enabled() and (frequency.requires_grad or phase.requires_grad)
    return cast(Tensor, _Encode.apply(elapsed, frequency, phase, needs_grad))  # type: ignore[no-untyped-call]


class _Encode(torch.autograd.Function):
    """The encoding as an autograd function."""

    @staticmethod
    def forward(ctx: Any, elapsed: Tensor, frequency: Tensor, phase: Tensor, needs_grad: bool) -> Tensor:
        cosine = elapsed.new_empty(len(elapsed), len(phase))
        sine = torch.empty_like(cosine) if needs_grad else None
        arguments = (*cosine.shape, *map(pointer, (elapsed, frequency, phase, cosine, sine)))
        abi.call("encode", elapsed, arguments, CudaLaunch((), EntryLayout(0, 0)))
        if sine is not None:
            ctx.save_for_backward(elapsed, sine)
        return cosine

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        elapsed, sine = ctx.saved_tensors
        if abi.on_cuda(sine):
            grad_out, width = gradients[0].resolve_neg().contiguous(), sine.shape[1]
            frequency, phase = sine.new_empty(width), sine.new_empty(width)
            arguments = (*sine.shape, *map(pointer, (elapsed, sine, grad_out, frequency, phase)))
            abi.call("encode_grad", sine, arguments, CudaLaunch((), EntryLayout(len(sine), None), width))
            return None, frequency, phase, None
        to_angle = gradients[0] * sine
        return None, -(elapsed @ to_angle), -to_angle.sum(0), None


def _check(elapsed: Tensor, frequency: Tensor, phase: Tensor) -> None:
    """Raise UserError unless dtypes, shapes and devices fit, and for elapsed times that ask for a gradient."""
    for name, tensor in {"elapsed": elapsed, "phase": phase, "frequency": frequency}.items():
        fits = tensor.dim() == 1 and (name != "frequency" or tensor.shape == phase.shape) and is_plain(tensor)
        if not fits or tensor.dtype not in FLOATS or tensor.dtype != elapsed.dtype or tensor.device != elapsed.device:
            shape = "n" if name == "elapsed" else "C"
            raise UserError(f"encode: {name} is {describe(tensor)}; expected contiguous floats alike [{shape}] on {elapsed.device}")
    if elapsed.requires_grad:
        raise UserError("encode: elapsed asks for a gradient; expected a constant")
