"""Calls of the graph kernels by ctypes: pointers, sizes and the current CUDA stream go in, a status comes out.

Operands have been checked by `operators`: contiguous, of the dtypes named there, on one device, ids in range. On CUDA the host does not
wait for results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from chronoscale.cuda_ext.native.loader import cpu_library, cuda_library
from chronoscale.cuda_ext.operators.graph import CSR, AttentionEntries, Delta, EdgeMap
from chronoscale.cuda_ext.reference import aggregation as aggregation_reference
from chronoscale.cuda_ext.reference.aggregation import MISMATCH, Ends, Factors, sum_dtype
from chronoscale.errors import MachineError, UserError

Listener = Callable[[str, tuple[float | None, ...], "CudaLaunch"], None]
listeners: list[Listener] = []  # called at every call; each is one kernel, softmax two where rows may be long
BAD_ARGUMENT = 1
_KINDS = {torch.float32: "f32", torch.float64: "f64", torch.bfloat16: "bf16"}
_CAUSES = {BAD_ARGUMENT: "an argument is out of range", 2: "out of memory", 3: "no driver or device", 4: "the launch failed"}


def aggregate(matrix: CSR, values: Tensor | None, x: Tensor, row_mask: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """Call the native kernel that sums the neighbours of each row: out[v] = sum over its entries e of values[e] * x[indices[e]].

    values None: ones. x [num_cols, F] in float32, float64 or bfloat16; the result is [num_rows, F], float32 for bfloat16. Only on CUDA:
    row_mask, uint8 [num_rows]; a row of `out` where it is 0 stays as it is. Raises MachineError when the kernel fails.
    """
    rows, width = matrix.num_rows, x.shape[1]
    out = x.new_empty(rows, width, dtype=sum_dtype(x.dtype)) if out is None else out
    inputs = [pointer(t) for t in (matrix.indptr, matrix.indices, values, x)]
    name = "weigh" if values is not None and values.dtype == torch.float64 else "aggregate"
    call(name, x, (rows, *inputs, width, out.data_ptr()), CudaLaunch((pointer(row_mask),), matrix, width))
    return out


def increment_(sums: Tensor, delta: Delta, x: Tensor) -> Tensor:
    """Call the native kernel that adds a change to neighbour sums in place; return a copy of the touched rows, [R, F] (REAL, eq. 3).

    sums [num_rows, F], x [num_cols, F]; fresh rows of the change start from zero. Raises MachineError when the kernel fails.
    """
    count, width = delta.rows.shape[0], x.shape[1]
    touched = sums.new_empty(count, width)
    inputs = [pointer(t) for t in (delta.rows, delta.fresh, delta.indptr, delta.indices, delta.values, x)]
    call("increment", x, (count, *inputs, width, sums.data_ptr(), touched.data_ptr()), CudaLaunch((), delta, width))
    return touched


def rebuild(
    before: CSR, change: EdgeMap, steps: Tensor, factors: Factors | None, indptr: Tensor, unfit: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Call the native kernel that builds the next snapshot's adjacency; return its indices and values (REAL, section 4.3).

    steps int64 [changed + 1]: sums of the signs before each entry of the change. factors: float64 factors of columns and rows; None: no
    values. indptr: of the new adjacency. unfit int32 [1]: becomes 1 where the change does not belong to the adjacency; None: then UserError
    is raised, for which the host waits for a GPU.
    """
    compact_row = torch.full((before.num_rows,), -1, dtype=torch.int32, device=indptr.device)
    compact_row[change.rows.long()] = torch.arange(len(change.rows), dtype=torch.int32, device=indptr.device)
    capacity = max(0, before.nnz + change.growth())
    indices = (torch.empty if unfit is None else torch.zeros)(capacity, dtype=torch.int32, device=indptr.device)
    values = None if factors is None else torch.empty(len(indices), dtype=torch.float32, device=indptr.device)
    inputs = (before.indptr, before.indices, compact_row, change.indptr, change.indices, steps, *(factors or (None, None)))
    arguments = (before.num_rows, *(pointer(t) for t in (*inputs, indptr, indices, values)))
    flag = torch.zeros(1, dtype=torch.int32, device=indptr.device) if unfit is None else unfit
    on_cuda_only = (change.nnz, len(change.rows), change.rows.data_ptr(), len(indices), flag.data_ptr())
    refused = call_for_status("rebuild", indptr, arguments, CudaLaunch(on_cuda_only, before)) == BAD_ARGUMENT
    if refused and unfit is not None:
        unfit.fill_(1)
    elif refused or (unfit is None and on_cuda(indptr) and bool(flag)):
        raise UserError(MISMATCH)
    return indices, values


def softmax(
    entries: AttentionEntries, ends: Ends, sign: Tensor | None, base: Tensor | None, running: bool, row_mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Call the native kernel for the unnormalised softmax weights of a graph attention head: sign * exp(score - the row's maximum).

    Returns weights [nnz], one an entry, and, for each row, the maximum, the denominator (sum of its weights), and whether a removed entry
    had the largest score (uint8). ends: the scores' parts left [num_cols] and right [num_rows]. sign int8 [nnz]: +1 or -1; None: all +1.
    base [R]: the least that a maximum may be; None: -inf. running: scores of added entries raise the maximum. row_mask uint8 [R], only on
    CUDA: weights of other rows are 0. Raises MachineError when the kernel fails.
    """
    num_rows, left = entries.matrix.num_rows, ends[0]
    weights = (left.new_empty if row_mask is None else left.new_zeros)(entries.matrix.nnz)
    maximum, denominator = left.new_empty(2, num_rows)
    lost_maximum = torch.empty(num_rows, dtype=torch.uint8, device=left.device)
    inputs = [pointer(t) for t in (entries.rows, entries.matrix.indptr, entries.matrix.indices, sign, base)]
    outputs = [t.data_ptr() for t in (weights, maximum, denominator, lost_maximum)]
    arguments = (num_rows, *inputs, int(running), *(t.data_ptr() for t in ends), entries.slope, *outputs)
    call("softmax", left, arguments, CudaLaunch((pointer(row_mask),), entries.matrix, 2))
    return weights, maximum, denominator, lost_maximum


def softmax_grad(
    entries: AttentionEntries, ends: Ends, weights: Tensor, z: Tensor, grad_out: tuple[Tensor, Tensor], row_mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Call the native kernel for the gradients of an attention head's scores before leaky_relu: of each entry [nnz], and summed by row [R].

    z: features [num_cols, F]. `grad_out`: the gradients of the rows' sums [R, F] and of their denominators [R]. row_mask uint8 [R], only on
    CUDA: gradients of other rows are 0. Raises MachineError when the kernel fails.
    """
    entry_grads, row_sums = (torch.empty_like if row_mask is None else torch.zeros_like)(weights), torch.empty_like(grad_out[1])
    inputs = [pointer(t) for t in (entries.rows, entries.matrix.indptr, entries.matrix.indices, *ends)]
    outputs = [t.data_ptr() for t in (*grad_out, entry_grads, row_sums)]
    arguments = (len(row_sums), *inputs, entries.slope, weights.data_ptr(), z.data_ptr(), z.shape[1], *outputs)
    call("softmax_grad", z, arguments, CudaLaunch((pointer(row_mask),), entries.matrix, 1))
    return entry_grads, row_sums


def column_sums(matrix: CSR, entries: Tensor) -> Tensor:
    """Call the native kernel that sums a matrix's entries [nnz] by column: [num_cols].

    On CUDA they are summed by the transpose, for sums by atomics would differ from run to run.
    """
    if not on_cuda(entries):
        return aggregation_reference.column_sums(matrix, entries)
    transposed = matrix.transpose()
    ones = entries.new_ones(matrix.num_rows, 1)
    return aggregate(transposed, entries[matrix.order()], ones).squeeze(1)


def pointer(tensor: Tensor | None) -> int | None:
    """Return the address of the tensor's memory, to hand to a native kernel; None for None."""
    return None if tensor is None else tensor.data_ptr()


def on_cuda(x: Tensor) -> bool:
    """Return whether the native CUDA kernels serve a tensor: then the host does not wait for results."""
    return x.is_cuda


class EntryLayout(NamedTuple):
    """Layout of entries that belong to no sparse matrix, for a CUDA kernel: how many, and the most in one row where that is known."""

    nnz: int
    longest_row: int | None
    row_pieces: Tensor | None = None


class CudaLaunch(NamedTuple):
    """Arguments that a call of a native kernel needs on CUDA besides those that both libraries take.

    arguments: further ones, only on CUDA. matrix: whose entries the kernel goes through. partials: how many numbers of x's type each piece
    of a long row hands on.
    """

    arguments: tuple[int | None, ...]
    matrix: CSR | Delta | EntryLayout
    partials: int = 0


def call(name: str, x: Tensor, arguments: tuple[float | None, ...], cuda: CudaLaunch) -> None:
    """Run the native kernel `name` of x's dtype on x's device. Raises MachineError when it fails.

    arguments: numbers and addresses of memory, in the order of the C function's parameters. cuda: what a CUDA kernel takes besides.
    """
    if status := call_for_status(f"{name}_{_KINDS[x.dtype]}", x, arguments, cuda):
        raise MachineError(f"native {name} on {x.device}: {_CAUSES[status]}")


def call_for_status(name: str, x: Tensor, arguments: tuple[float | None, ...], cuda: CudaLaunch) -> int:
    """Run the native kernel `name` (with its kind, such as a dtype) on x's device and return its status, 0 or BAD_ARGUMENT.

    arguments: numbers and addresses of memory, in the order of the C function's parameters. cuda: what a CUDA kernel takes besides. Raises
    MachineError for any other status.
    """
    for listener in listeners:
        listener(name, arguments, cuda)
    library: Any = cuda_library() if on_cuda(x) else cpu_library()
    status = _enqueue(library, name, x, arguments, cuda) if on_cuda(x) else getattr(library, f"cs_{name}")(*arguments)
    if status > BAD_ARGUMENT:
        detail = f": {library.cs_cuda_last_error().decode()}" if status == 4 else ""
        raise MachineError(f"native {name} on {x.device}: {_CAUSES.get(status, status)}{detail}")
    return int(status)


def _enqueue(library: Any, name: str, x: Tensor, arguments: tuple[float | None, ...], cuda: CudaLaunch) -> int:
    """Enqueue a CUDA kernel on the current stream, with memory for partial sums of rows that are cut into pieces; return its status."""
    piece_size: int = library.cs_cuda_piece()
    entry_count, longest_row = cuda.matrix.nnz, cuda.matrix.longest_row
    piece_count = 0 if entry_count < piece_size or (longest_row is not None and longest_row < piece_size) else -(-entry_count // piece_size)
    partial = x.new_empty(2 * piece_count * cuda.partials, dtype=torch.float64 if x.dtype == torch.float64 else torch.float32)
    row_pieces = cuda.matrix.row_pieces if piece_count else None
    if row_pieces is not None and row_pieces.is_cuda:
        row_pieces.record_stream(torch.cuda.current_stream(x.device))  # an operand's own: nobody else marks it
    with _on_device(x) as stream:
        counters = _counters(x.device, stream, piece_count) if piece_count else None  # without them no row is taken for a long one
        piece_list = (pointer(row_pieces), 0 if row_pieces is None else len(row_pieces))
        launch = (entry_count, pointer(counters), partial.data_ptr(), *piece_list, x.device.index or 0, stream)
        return int(getattr(library, f"cs_cuda_{name}")(*arguments, *cuda.arguments, *launch))


@contextmanager
def _on_device(x: Tensor) -> Iterator[int]:
    """Make x's device current and yield the CUDA stream to enqueue on.

    The kernel's own runtime is given the device; torch's is moved there and back so that the two agree.
    """
    with torch.cuda.device(x.device):
        yield torch.cuda.current_stream().cuda_stream


_zeros: dict[tuple[torch.device, int], Tensor] = {}


def _counters(device: torch.device, stream: int, count: int) -> Tensor:
    """Return zeros int32 [>= pieces] that only this CUDA stream uses; kernels leave them zero.

    A CUDA graph that is being captured gets its own, since its kernels may be replayed on any CUDA stream.
    """
    if _captured(device):
        return torch.zeros(count, dtype=torch.int32, device=device)
    counters = _zeros.get((device, stream))
    if counters is None or len(counters) < count:
        counters = _zeros[device, stream] = torch.zeros(max(1024, 2 * count), dtype=torch.int32, device=device)
    return counters


def _captured(device: torch.device) -> bool:
    """Return whether a CUDA graph is being captured on the device."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()
