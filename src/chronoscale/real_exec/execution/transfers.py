"""Sending: tensors between the host's memory and a device, for which the host need not wait."""

from __future__ import annotations

import torch
from torch import Tensor


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor of the host on the device: itself on a CPU, a copy on a GPU, by way of pinned memory."""
    if device.type == "cuda":
        tensor = tensor.contiguous().pin_memory()  # what is not contiguous would be copied through memory that is not pinned
    return tensor.to(device, non_blocking=True)


def to_host(tensor: Tensor) -> Tensor:
    """Return a copy of a device's tensor in the host's memory; it is there when the row that asks for it has ended on its lane."""
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
    return host.copy_(tensor, non_blocking=True)


def record_use(*tensors: Tensor | None) -> None:
    """Tell the allocator that this lane reads tensors made in another, so that their memory is not reused too early."""
    for tensor in tensors:
        if tensor is not None and tensor.is_cuda:
            tensor.record_stream(torch.cuda.current_stream(tensor.device))


def acquire(tensor: Tensor) -> Tensor:
    """The tensor, marked as `uses` does."""
    record_use(tensor)
    return tensor
