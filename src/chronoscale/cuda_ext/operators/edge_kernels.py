"""Choice of the kernels that serve the operators on edges ('reference', native or 'triton'), and checks that these operators share."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

import torch
from torch import Tensor

from chronoscale.cuda_ext.native import edges as edges_native
from chronoscale.cuda_ext.native.backend import TRITON, BackendName, backends, select_kernels, triton_interpreted, unavailable_reason
from chronoscale.cuda_ext.operators.sparse_arrays import describe, is_plain
from chronoscale.cuda_ext.reference import aggregation as aggregation_reference
from chronoscale.cuda_ext.reference import edges as edges_reference
from chronoscale.errors import UserError

IDS = (torch.int32, torch.int64)
FLOATS = (torch.float32, torch.float64)
INT32_LIMIT = 2**31  # ids and edges stay below: kernels number them in int32


class EdgeKernels(Protocol):
    """Interface of a module of edge-parallel kernels (reference, native or Triton); operands as the operators', which have checked them."""

    def aggregate(self, x: Tensor, target: Tensor, rows: int, source: Tensor | None, deterministic: bool, ascending: bool) -> Tensor: ...

    def softmax(self, scores: Tensor, indptr: Tensor, longest: int | None) -> Tensor: ...

    def softmax_grad(self, shares: Tensor, grad_out: Tensor, indptr: Tensor, longest: int | None) -> Tensor: ...

    def gather(self, cached: Tensor, sent: Tensor, index: Tensor) -> Tensor: ...


def select_edge_kernels(device: torch.device, backend: BackendName) -> EdgeKernels:
    """Return the module of edge-parallel kernels for tensors on `device`.

    Raises UserError as backend.select_kernels does, and for 'triton' where it is not to be had.
    """
    if backend != TRITON:
        return cast(EdgeKernels, edges_reference if select_kernels(device, backend) is aggregation_reference else edges_native)
    if reason := unavailable_reason(TRITON):
        raise UserError(f"backend '{TRITON}' is not available here: {reason}; available: {', '.join(backends())}")
    if device.type != (served := "cpu" if triton_interpreted() else "cuda"):
        raise UserError(f"backend '{TRITON}' was given tensors on {device}; expected {served} tensors")
    return cast(EdgeKernels, import_module("chronoscale.cuda_ext.operators.triton_kernels"))  # an optional package, and slow to import


def check_matrix(operator: str, name: str, tensor: Tensor, columns: str, like: Tensor | None = None) -> None:
    """Raise UserError unless a kernel's operand is a plain matrix of floats, and with `like` of its dtype, width and device.

    operator, name, columns: words for the message.
    """
    fits = tensor.dim() == 2 and tensor.dtype in FLOATS and is_plain(tensor)
    if like is not None:
        fits = fits and (tensor.dtype, tensor.device, tensor.shape[1]) == (like.dtype, like.device, like.shape[1])
    if not fits:
        expected = f"float32 or float64 [*, {columns}]" if like is None else f"{like.dtype} [*, {like.shape[1]}] on {like.device}"
        raise UserError(f"{operator}: {name} is {describe(tensor)}; expected contiguous {expected}")


def check_ids(operator: str, name: str, ids: Tensor, count: int | None, device: torch.device, dtype: torch.dtype | None = None) -> None:
    """Raise UserError unless a kernel's operand is a vector of `count` ids on `device`, of `dtype` where that is given.

    operator, name: words for the message. count: None: any number below 2^31.
    """
    fits = ids.dim() == 1 and is_plain(ids) and ids.device == device and ids.dtype in (IDS if dtype is None else (dtype,))
    if not fits or (count is not None and len(ids) != count) or len(ids) >= INT32_LIMIT:
        kind = "int32 or int64" if dtype is None else str(dtype)
        size = "fewer than 2^31" if count is None else str(count)
        raise UserError(f"{operator}: {name} is {describe(ids)}; expected contiguous {kind} [{size}] on {device}")
