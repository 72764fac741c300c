"""The kernels through the C ABI: pointers, sizes and the current stream in, nothing but a status out.

They take tensors that ops.py has checked: contiguous, of one float dtype, on one device.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from chronoscale.cuda_ext.loader import cpu_library, cuda_library
from chronoscale.errors import MachineError, UserError

_ARGUMENT = 1
_CAUSES = {_ARGUMENT: "an argument is out of range", 2: "out of memory", 3: "no driver or device", 4: "the launch failed"}


def aggregate(indptr: Tensor, indices: Tensor, values: Tensor | None, x: Tensor) -> Tensor:
    """As reference.aggregate, on x's device. Raises MachineError when the kernel fails."""
    rows, width = len(indptr) - 1, x.shape[1]
    out = x.new_empty(rows, width)
    arguments = (rows, indptr.data_ptr(), indices.data_ptr(), _pointer(values), x.data_ptr(), width, out.data_ptr())
    _call("weigh" if values is not None and values.dtype == torch.float64 else "aggregate", x, arguments)
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


def rebuild(
    before: tuple[Tensor, Tensor],
    rows: Tensor,
    change: tuple[Tensor, Tensor, Tensor],
    factors: tuple[Tensor, Tensor | None] | None,
    indptr: Tensor,
) -> tuple[Tensor, Tensor | None]:
    """As reference.rebuild; on CUDA a change that does not belong to the adjacency gives wrong entries in place of an error."""
    nodes = len(indptr) - 1
    slots = torch.full((nodes,), -1, dtype=torch.int32, device=indptr.device)
    slots[rows.long()] = torch.arange(len(rows), dtype=torch.int32, device=indptr.device)
    indices = torch.empty(len(before[1]) + int(change[2][-1]), dtype=torch.int32, device=indptr.device)
    values = None if factors is None else torch.empty(len(indices), dtype=torch.float32, device=indptr.device)
    pointers = [_pointer(t) for t in (*before, slots, *change, *(factors or (None, None)), indptr, indices, values)]
    if _status("rebuild", indptr, (nodes, *pointers)) == _ARGUMENT:
        raise UserError("rebuild: the change does not belong to this adjacency")
    return indices, values


def softmax(
    rows: Tensor | None,
    matrix: tuple[Tensor, Tensor, Tensor | None],
    base: Tensor | None,
    running: bool,
    ends: tuple[Tensor, Tensor],
    slope: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """As reference.softmax, on the tensors' device. Raises MachineError when the kernel fails."""
    indptr, indices, _ = matrix
    count, (left, right) = len(indptr) - 1, ends
    weights, (maximum, denominator) = left.new_empty(len(indices)), left.new_empty(2, count)
    held = torch.empty(count, dtype=torch.uint8, device=left.device)
    given = (count, _pointer(rows), *(_pointer(t) for t in matrix), _pointer(base), int(running), left.data_ptr(), right.data_ptr(), slope)
    _call("softmax", left, (*given, weights.data_ptr(), maximum.data_ptr(), denominator.data_ptr(), held.data_ptr()))
    return weights, maximum, denominator, held


def softmax_grad(
    rows: Tensor | None,
    matrix: tuple[Tensor, Tensor],
    ends: tuple[Tensor, Tensor],
    slope: float,
    weights: Tensor,
    z: Tensor,
    into: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor]:
    """As reference.softmax_grad, on the tensors' device. Raises MachineError when the kernel fails."""
    edges, row = torch.empty_like(weights), torch.empty_like(into[1])
    given = (len(row), _pointer(rows), *(t.data_ptr() for t in (*matrix, *ends)), slope, weights.data_ptr(), z.data_ptr(), z.shape[1])
    _call("softmax_grad", z, (*given, *(t.data_ptr() for t in (*into, edges, row))))
    return edges, row


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _call(name: str, x: Tensor, arguments: tuple[float | None, ...]) -> None:
    if status := _status(f"{name}_{'f32' if x.dtype == torch.float32 else 'f64'}", x, arguments):
        raise MachineError(f"native {name} on {x.device}: {_CAUSES[status]}")


def _status(name: str, x: Tensor, arguments: tuple[float | None, ...]) -> int:
    if x.is_cuda:
        library: Any = cuda_library()
        # The kernel's own runtime is told the device; torch's is moved there and back so that the two agree.
        with torch.cuda.device(x.device):
            stream = torch.cuda.current_stream().cuda_stream
            status = getattr(library, f"cs_cuda_{name}")(*arguments, x.device.index, stream)
    else:
        library = cpu_library()
        status = getattr(library, f"cs_{name}")(*arguments)
    if status > _ARGUMENT:
        detail = f": {library.cs_cuda_last_error().decode()}" if status == 4 else ""
        raise MachineError(f"native {name} on {x.device}: {_CAUSES.get(status, status)}{detail}")
    return int(status)
