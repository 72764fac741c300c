"""The kernels through the C ABI: pointers, sizes and the current stream in, nothing but a status out.

Both functions take tensors that ops.py has checked: contiguous, of one float dtype, on one device.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from chronoscale.cuda_ext.loader import cpu_library, cuda_library
from chronoscale.errors import MachineError

_CAUSES = {1: "an argument is out of range", 2: "out of memory", 3: "no driver or device", 4: "the launch failed"}


def aggregate(indptr: Tensor, indices: Tensor, values: Tensor | None, x: Tensor) -> Tensor:
    """As reference.aggregate, on x's device. Raises MachineError when the kernel fails."""
    rows, width = len(indptr) - 1, x.shape[1]
    out = x.new_empty(rows, width)
    arguments = (rows, indptr.data_ptr(), indices.data_ptr(), _pointer(values), x.data_ptr(), width, out.data_ptr())
    _call("aggregate", x, arguments)
    return out


def increment_(
    sums: Tensor, rows: Tensor, fresh: Tensor | None, indptr: Tensor, indices: Tensor, values: Tensor | None, x: Tensor
) -> Tensor:
    """As reference.increment_, on x's device. Raises MachineError when the kernel fails."""
    count, width = len(rows), x.shape[1]
    touched = x.new_empty(count, width)
    matrix = (indptr.data_ptr(), indices.data_ptr(), _pointer(values))
    _call("increment", x, (count, rows.data_ptr(), _pointer(fresh), *matrix, x.data_ptr(), width, sums.data_ptr(), touched.data_ptr()))
    return touched


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _call(name: str, x: Tensor, arguments: tuple[int | None, ...]) -> None:
    suffix = "f32" if x.dtype == torch.float32 else "f64"
    if x.is_cuda:
        library: Any = cuda_library()
        # The kernel's own runtime is told the device; torch's is moved there and back so that the two agree.
        with torch.cuda.device(x.device):
            stream = torch.cuda.current_stream().cuda_stream
            status = getattr(library, f"cs_cuda_{name}_{suffix}")(*arguments, x.device.index, stream)
    else:
        library = cpu_library()
        status = getattr(library, f"cs_{name}_{suffix}")(*arguments)
    if status:
        detail = f": {library.cs_cuda_last_error().decode()}" if status == 4 else ""
        raise MachineError(f"native {name} on {x.device}: {_CAUSES.get(status, status)}{detail}")
