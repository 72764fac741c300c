"""Transfers: tensors that go between host and device, or from lane to lane, without making the host wait."""

from __future__ import annotations

import torch
from torch import Tensor


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a host tensor to a rank's `device` without waiting: itself on a CPU; on a GPU an asynchronous copy by way of pinned memory."""
    if device.type == "cuda":
        tensor = tensor.contiguous().pin_memory()  # what is not contiguous would be copied through memory that is not pinned
    return tensor.to(device, non_blocking=True)


def to_host(tensor: Tensor) -> Tensor:
    """Return a copy of a rank's device tensor in (pinned) host memory, complete when the row that asks for it has ended on its lane."""
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
    return host.copy_(tensor, non_blocking=True)


def record_use(*tensors: Tensor | None) -> None:
    """Tell CUDA's caching allocator that the current stream reads these tensors, which another lane's stream made (`Tensor.record_stream`).

    Their memory is then not reused before this stream has come past. Nothing happens on a CPU, and for None.
    """
    for tensor in tensors:
        if tensor is not None and tensor.is_cuda:
            tensor.record_stream(torch.cuda.current_stream(tensor.device))


def acquire(tensor: Tensor) -> Tensor:
    """Return a tensor that another lane of this rank made, marked as read by this lane's CUDA stream (`record_use`)."""
    record_use(tensor)
    return tensor
