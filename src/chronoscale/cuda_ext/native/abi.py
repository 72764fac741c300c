"""The kernels through the C ABI: pointers, sizes and the current stream in, nothing but a status out.

They take tensors that ops.py has checked: contiguous, of the dtypes said there, on one device, ids in range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from chronoscale.cuda_ext.native.loader import cpu_library, cuda_library
from chronoscale.cuda_ext.operators.graph import CSR, AttentionEntries, Delta, EdgeMap
from chronoscale.cuda_ext.reference import aggregation as reference
from chronoscale.cuda_ext.reference.aggregation import MISMATCH, Ends, Factors, sum_dtype
from chronoscale.errors import MachineError, UserError

Listener = Callable[[str, tuple[float | None, ...], "CudaLaunch"], None]
listeners: list[Listener] = []  # told of every call; each is one kernel, softmax two where rows may be long
ARGUMENT = 1
_KINDS = {torch.float32: "f32", torch.float64: "f64", torch.bfloat16: "bf16"}
_CAUSES = {ARGUMENT: "an argument is out of range", 2: "out of memory", 3: "no driver or device", 4: "the launch failed"}


def aggregate(matrix: CSR, values: Tensor | None, x: Tensor, only: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """As reference.aggregate, on x's device. Raises MachineError when the kernel fails.

    On CUDA alone: only, uint8 [rows], where it is 0 a row of `out` stays as it is.
    """
    rows, width = matrix.num_rows, x.shape[1]
    out = x.new_empty(rows, width, dtype=sum_dtype(x.dtype)) if out is None else out
    given = [pointer(t) for t in (matrix.indptr, matrix.indices, values, x)]
    name = "weigh" if values is not None and values.dtype == torch.float64 else "aggregate"
    call(name, x, (rows, *given, width, out.data_ptr()), CudaLaunch((pointer(only),), matrix, width))
    return out


def increment_(sums: Tensor, delta: Delta, x: Tensor) -> Tensor:
    """As reference.increment_, on x's device. Raises MachineError when the kernel fails."""
    count, width = delta.rows.shape[0], x.shape[1]
    touched = sums.new_empty(count, width)
    given = [pointer(t) for t in (delta.rows, delta.fresh, delta.indptr, delta.indices, delta.values, x)]
    call("increment", x, (count, *given, width, sums.data_ptr(), touched.data_ptr()), CudaLaunch((), delta, width))
    return touched


def rebuild(
    before: CSR, change: EdgeMap, steps: Tensor, factors: Factors | None, indptr: Tensor, unfit: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """As reference.rebuild."""
    slots = torch.full((before.num_rows,), -1, dtype=torch.int32, device=indptr.device)
    slots[change.rows.long()] = torch.arange(len(change.rows), dtype=torch.int32, device=indptr.device)
    size = max(0, before.nnz + change.growth())
    indices = (torch.empty if unfit is None else torch.zeros)(size, dtype=torch.int32, device=indptr.device)
    values = None if factors is None else torch.empty(len(indices), dtype=torch.float32, device=indptr.device)
    given = (before.indptr, before.indices, slots, change.indptr, change.indices, steps, *(factors or (None, None)))
    arguments = (before.num_rows, *(pointer(t) for t in (*given, indptr, indices, values)))
    flag = torch.zeros(1, dtype=torch.int32, device=indptr.device) if unfit is None else unfit
    more = (change.nnz, len(change.rows), change.rows.data_ptr(), len(indices), flag.data_ptr())
    refused = call_for_status("rebuild", indptr, arguments, CudaLaunch(more, before)) == ARGUMENT
    if refused and unfit is not None:
        unfit.fill_(1)
    elif refused or (unfit is None and on_cuda(indptr) and bool(flag)):
        raise UserError(MISMATCH)
    return indices, values


def softmax(
    at: AttentionEntries, ends: Ends, sign: Tensor | None, base: Tensor | None, running: bool, only: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """As reference.softmax, on the tensors' device; `only` as in `aggregate`: weights of other rows are 0. Raises MachineError when the
    kernel fails."""
    count, left = at.matrix.num_rows, ends[0]
    weights = (left.new_empty if only is None else left.new_zeros)(at.matrix.nnz)
    maximum, denominator = left.new_empty(2, count)
    held = torch.empty(count, dtype=torch.uint8, device=left.device)
    given = [pointer(t) for t in (at.rows, at.matrix.indptr, at.matrix.indices, sign, base)]
    made = [t.data_ptr() for t in (weights, maximum, denominator, held)]
    arguments = (count, *given, int(running), *(t.data_ptr() for t in ends), at.slope, *made)
    call("softmax", left, arguments, CudaLaunch((pointer(only),), at.matrix, 2))
    return weights, maximum, denominator, held


def softmax_grad(
    at: AttentionEntries, ends: Ends, weights: Tensor, z: Tensor, into: tuple[Tensor, Tensor], only: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """As reference.softmax_grad, on the tensors' device; `only` as in `aggregate`: edges of other rows are 0. Raises MachineError when the
    kernel fails."""
    edges, row = (torch.empty_like if only is None else torch.zeros_like)(weights), torch.empty_like(into[1])
    given = [pointer(t) for t in (at.rows, at.matrix.indptr, at.matrix.indices, *ends)]
    made = [t.data_ptr() for t in (*into, edges, row)]
    arguments = (len(row), *given, at.slope, weights.data_ptr(), z.data_ptr(), z.shape[1], *made)
    call("softmax_grad", z, arguments, CudaLaunch((pointer(only),), at.matrix, 1))
    return edges, row


def column_sums(matrix: CSR, entries: Tensor) -> Tensor:
    """As reference.by_column; on CUDA by the transpose, for sums by atomics would differ from run to run."""
    if not on_cuda(entries):
        return reference.column_sums(matrix, entries)
    turned = matrix.transpose()
    ones = entries.new_ones(matrix.num_rows, 1)
    return aggregate(turned, entries[matrix.order()], ones).squeeze(1)


def pointer(tensor: Tensor | None) -> int | None:
    """Where its memory begins, for the C ABI."""
    return None if tensor is None else tensor.data_ptr()


def on_cuda(x: Tensor) -> bool:
    """Whether the kernels of the CUDA library serve a tensor: then the host does not wait for results."""
    return x.is_cuda


class EntryLayout(NamedTuple):
    """AttentionEntries that are no matrix's: how many there are, and the most in one row, where that is known."""

    nnz: int
    longest_row: int | None
    row_pieces: Tensor | None = None


class CudaLaunch(NamedTuple):
    """What a call needs on CUDA besides: arguments, the matrix, and the numbers of x's type that a piece of a long row of it hands on."""

    arguments: tuple[int | None, ...]
    matrix: CSR | Delta | EntryLayout
    share: int = 0


def call(name: str, x: Tensor, arguments: tuple[float | None, ...], cuda: CudaLaunch) -> None:
    """Runs the kernel of x's dtype on x's device. Raises MachineError when it fails."""
    if found := call_for_status(f"{name}_{_KINDS[x.dtype]}", x, arguments, cuda):
        raise MachineError(f"native {name} on {x.device}: {_CAUSES[found]}")


def call_for_status(name: str, x: Tensor, arguments: tuple[float | None, ...], cuda: CudaLaunch) -> int:
    """What a kernel, named with its kind, answers: 0 or ARGUMENT. Raises MachineError for the rest."""
    for listener in listeners:
        listener(name, arguments, cuda)
    library: Any = cuda_library() if on_cuda(x) else cpu_library()
    found = _enqueue(library, name, x, arguments, cuda) if on_cuda(x) else getattr(library, f"cs_{name}")(*arguments)
    if found > ARGUMENT:
        detail = f": {library.cs_cuda_last_error().decode()}" if found == 4 else ""
        raise MachineError(f"native {name} on {x.device}: {_CAUSES.get(found, found)}{detail}")
    return int(found)


def _enqueue(library: Any, name: str, x: Tensor, arguments: tuple[float | None, ...], cuda: CudaLaunch) -> int:
    piece: int = library.cs_cuda_piece()
    entries, longest = cuda.matrix.nnz, cuda.matrix.longest_row
    pieces = 0 if entries < piece or (longest is not None and longest < piece) else -(-entries // piece)
    partial = x.new_empty(2 * pieces * cuda.share, dtype=torch.float64 if x.dtype == torch.float64 else torch.float32)
    cuts = cuda.matrix.row_pieces if pieces else None
    if cuts is not None and cuts.is_cuda:
        cuts.record_stream(torch.cuda.current_stream(x.device))  # an operand's own: nobody else marks it
    with _on_device(x) as stream:
        counters = _counters(x.device, stream, pieces) if pieces else None  # without them no row is taken for a long one
        listed = (pointer(cuts), 0 if cuts is None else len(cuts))
        launch = (entries, pointer(counters), partial.data_ptr(), *listed, x.device.index or 0, stream)
        return int(getattr(library, f"cs_cuda_{name}")(*arguments, *cuda.arguments, *launch))


@contextmanager
def _on_device(x: Tensor) -> Iterator[int]:
    """The stream to enqueue on. The kernel's own runtime is told the device; torch's is moved there and back so that the two agree."""
    with torch.cuda.device(x.device):
        yield torch.cuda.current_stream().cuda_stream


_zeros: dict[tuple[torch.device, int], Tensor] = {}


def _counters(device: torch.device, stream: int, pieces: int) -> Tensor:
    """Zeros int32 [>= pieces], of this stream alone: kernels leave them as they find them. A CUDA graph gets its own: what is captured runs
    later, on any stream."""
    if _captured(device):
        return torch.zeros(pieces, dtype=torch.int32, device=device)
    kept = _zeros.get((device, stream))
    if kept is None or len(kept) < pieces:
        kept = _zeros[device, stream] = torch.zeros(max(1024, 2 * pieces), dtype=torch.int32, device=device)
    return kept


def _captured(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()
