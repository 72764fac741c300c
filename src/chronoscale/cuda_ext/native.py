"""The kernels through the C ABI: pointers, sizes and the current stream in, nothing but a status out.

They take tensors that ops.py has checked: contiguous, of one float dtype, on one device.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from chronoscale.cuda_ext.graph import CSR, Delta, EdgeMap, Entries
from chronoscale.cuda_ext.loader import cpu_library, cuda_library
from chronoscale.cuda_ext.reference import Ends, Factors
from chronoscale.errors import MachineError, UserError

launches = 0  # calls so far; each is one kernel
_ARGUMENT = 1
_CAUSES = {_ARGUMENT: "an argument is out of range", 2: "out of memory", 3: "no driver or device", 4: "the launch failed"}


def aggregate(indptr: Tensor, indices: Tensor, values: Tensor | None, x: Tensor) -> Tensor:
    """As reference.aggregate, on x's device. Raises MachineError when the kernel fails."""
    rows, width = len(indptr) - 1, x.shape[1]
    out = x.new_empty(rows, width)
    arguments = (rows, indptr.data_ptr(), indices.data_ptr(), _pointer(values), x.data_ptr(), width, out.data_ptr())
    _call("weigh" if values is not None and values.dtype == torch.float64 else "aggregate", x, arguments)
    return out


def increment_(sums: Tensor, delta: Delta, x: Tensor) -> Tensor:
    """As reference.increment_, on x's device. Raises MachineError when the kernel fails."""
    count, width = len(delta.rows), x.shape[1]
    touched = x.new_empty(count, width)
    given = [_pointer(t) for t in (delta.rows, delta.fresh, delta.indptr, delta.indices, delta.values, x)]
    _call("increment", x, (count, *given, width, sums.data_ptr(), touched.data_ptr()))
    return touched


def rebuild(before: CSR, change: EdgeMap, steps: Tensor, factors: Factors | None, indptr: Tensor) -> tuple[Tensor, Tensor | None]:
    """As reference.rebuild; on CUDA a change that does not belong to the adjacency gives wrong entries in place of an error."""
    slots = torch.full((before.num_rows,), -1, dtype=torch.int32, device=indptr.device)
    slots[change.rows.long()] = torch.arange(len(change.rows), dtype=torch.int32, device=indptr.device)
    indices = torch.empty(before.nnz + int(steps[-1]), dtype=torch.int32, device=indptr.device)
    values = None if factors is None else torch.empty(len(indices), dtype=torch.float32, device=indptr.device)
    given = (before.indptr, before.indices, slots, change.indptr, change.indices, steps, *(factors or (None, None)))
    if _status("rebuild", indptr, (before.num_rows, *(_pointer(t) for t in (*given, indptr, indices, values)))) == _ARGUMENT:
        raise UserError("rebuild: the change does not belong to this adjacency")
    return indices, values


def softmax(at: Entries, ends: Ends, sign: Tensor | None, base: Tensor | None, running: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """As reference.softmax, on the tensors' device. Raises MachineError when the kernel fails."""
    count, left = at.matrix.num_rows, ends[0]
    weights, (maximum, denominator) = left.new_empty(at.matrix.nnz), left.new_empty(2, count)
    held = torch.empty(count, dtype=torch.uint8, device=left.device)
    given = [_pointer(t) for t in (at.rows, at.matrix.indptr, at.matrix.indices, sign, base)]
    made = [t.data_ptr() for t in (weights, maximum, denominator, held)]
    _call("softmax", left, (count, *given, int(running), *(t.data_ptr() for t in ends), at.slope, *made))
    return weights, maximum, denominator, held


def softmax_grad(at: Entries, ends: Ends, weights: Tensor, z: Tensor, into: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """As reference.softmax_grad, on the tensors' device. Raises MachineError when the kernel fails."""
    edges, row = torch.empty_like(weights), torch.empty_like(into[1])
    given = [_pointer(t) for t in (at.rows, at.matrix.indptr, at.matrix.indices, *ends)]
    made = [t.data_ptr() for t in (*into, edges, row)]
    _call("softmax_grad", z, (len(row), *given, at.slope, weights.data_ptr(), z.data_ptr(), z.shape[1], *made))
    return edges, row


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _call(name: str, x: Tensor, arguments: tuple[float | None, ...]) -> None:
    if status := _status(f"{name}_{'f32' if x.dtype == torch.float32 else 'f64'}", x, arguments):
        raise MachineError(f"native {name} on {x.device}: {_CAUSES[status]}")


def _status(name: str, x: Tensor, arguments: tuple[float | None, ...]) -> int:
    global launches
    launches += 1
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
