"""Arrays of a sparse operand: checked, transposed, listed by row, and described in errors."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index

import torch
from torch import Tensor

from chronoscale.errors import UserError

PIECE = 512  # entries, of which CUDA's kernels give a block one piece (csrc/cuda/pieces.cuh)


def transpose(indptr: Tensor, indices: Tensor, values: Tensor | None, num_cols: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return indptr, indices and values of a CSR matrix's transpose, by a stable sort of its columns, for kernels' backward passes."""
    return reorder(torch.sort(indices, stable=True).indices, indptr, indices, values, num_cols)


def reorder(order: Tensor, indptr: Tensor, indices: Tensor, values: Tensor | None, num_cols: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return indptr, indices and values of a CSR matrix's transpose, where the order of its entries is known, for backward passes.

    order int64 [nnz]: the number in the matrix of each entry of the transpose.
    """
    pointer = torch.zeros(num_cols + 1, dtype=torch.int64, device=indptr.device)
    torch.cumsum(column_counts(indices, num_cols), 0, out=pointer[1:])
    return pointer, row_ids(indptr, len(indices)).to(torch.int32)[order], None if values is None else values[order]


def column_counts(indices: Tensor, num_cols: int) -> Tensor:
    """Return how often each column id of a sparse matrix occurs, int32 [num_cols]. Unlike torch.bincount it does not wait for a device."""
    ones = torch.ones(1, dtype=torch.int32, device=indices.device).expand(len(indices))
    return torch.zeros(num_cols, dtype=torch.int32, device=indices.device).index_add_(0, indices, ones)


def row_ids(indptr: Tensor, nnz: int) -> Tensor:
    """Return the row of each stored entry of a CSR matrix, int64 [nnz]."""
    return torch.repeat_interleave(torch.arange(len(indptr) - 1, device=indptr.device), indptr.diff(), output_size=nnz)


def is_plain(tensor: Tensor) -> bool:
    """Return whether a kernel may read the tensor's memory as it is: contiguous, inside its storage, without the lazy negation bit."""
    if tensor.layout != torch.strided or not tensor.is_contiguous() or tensor.is_neg():
        return False
    stored, is_empty = tensor.untyped_storage().nbytes(), tensor.numel() == 0
    return is_empty or stored >= tensor.storage_offset() * tensor.element_size() + tensor.nbytes


def describe(tensor: Tensor) -> str:
    """Return dtype, shape and device of a kernel's operand in words, for an error."""
    return f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}{'' if is_plain(tensor) else ', not contiguous (call .contiguous())'}"


def extent(tensor: Tensor) -> tuple[int, int]:
    """Return the addresses [begin, end) of a contiguous tensor's memory, to find kernels' operands that overlap."""
    begin = tensor.data_ptr()
    return begin, begin + tensor.nbytes


def require_apart(name: str, written: Tensor, read: Iterable[tuple[int, int]]) -> None:
    """Raise UserError when memory that a kernel writes is also memory that it reads.

    name: of the written tensor, for the message. read: addresses (begin, end) of each tensor that is read.
    """
    first, last = extent(written)
    for begin, end in read:
        if begin < last and first < end and max(begin, first) < min(end, last):
            raise UserError(f"{name} is written in place and shares its memory with another argument")


def check_vector(name: str, tensor: Tensor, dtype: torch.dtype, device: torch.device) -> None:
    """Raise UserError unless a kernel's operand is a contiguous vector of that dtype on that device. name: of it, for the message."""
    if tensor.dtype != dtype or tensor.dim() != 1 or not is_plain(tensor) or tensor.device != device:
        raise UserError(f"{name} is {describe(tensor)}; expected a contiguous {dtype} vector on {device}")


def check_size(name: str, size: int) -> None:
    """Raise UserError unless a size of a kernel's operand is in [0, 2^31). name: of it, for the message."""
    if not 0 <= index(size) < 2**31:
        raise UserError(f"{name} is {size}; expected a size below 2^31: ids are int32")


def check_column(name: str, tensor: Tensor, dtype: torch.dtype, count: int, of: str, device: torch.device) -> None:
    """Raise UserError unless a kernel's operand is a contiguous vector of that dtype, device and length.

    name: of the operand; of: words for what it has one entry for, such as 'each of rows'; both for the message.
    """
    check_vector(name, tensor, dtype, device)
    if len(tensor) != count:
        raise UserError(f"{name} has {len(tensor)} entries, expected {count} (one for {of})")


def check_csr(name: str, indptr: Tensor, indices: Tensor, values: Tensor | None, num_cols: int) -> None:
    """Raise UserError unless dtypes, shapes and devices are those of a CSR matrix for kernels; numbers are not read.

    name: of the matrix, for the message.
    """
    check_vector(f"{name}.indptr", indptr, torch.int64, indptr.device)
    check_vector(f"{name}.indices", indices, torch.int32, indptr.device)
    if len(indptr) == 0:
        raise UserError(f"{name}.indptr is empty; expected one entry more than there are rows")
    check_size(f"{name}.num_cols", num_cols)
    check_size(f"{name}.num_rows", len(indptr) - 1)
    if values is not None:
        check_column(f"{name}.values", values, torch.float32, len(indices), "each of indices", indptr.device)
        if values.requires_grad:
            raise UserError(f"{name}.values asks for gradients; expected constants (operators are differentiable in x and sums)")


def list_pieces(indptr: Tensor, lengths: Tensor) -> Tensor:
    """List long rows (PIECE entries or more), for kernels that cut them, with each piece of PIECE entries that they lie in: int32 [n, 2].

    lengths: entries of each row.
    """
    rows = (lengths >= PIECE).nonzero()[:, 0]
    first = indptr[rows] // PIECE
    count = (indptr[rows + 1] - 1) // PIECE - first + 1
    before = torch.repeat_interleave(count.cumsum(0) - count - first, count)
    return torch.stack([torch.repeat_interleave(rows, count), torch.arange(len(before), device=rows.device) - before], 1).int()


def check_numbers(name: str, indptr: Tensor, indices: Tensor, num_cols: int) -> Tensor:
    """Raise UserError unless a CSR matrix for kernels has ascending indptr and column ids in range; return the rows' lengths.

    name: of the matrix, for the message.
    """
    lengths = indptr.diff()
    if int(indptr[0]) != 0 or int(indptr[-1]) != len(indices) or bool((lengths < 0).any()):
        raise UserError(f"{name}.indptr must ascend from 0 to {len(indices)}, the number of indices")
    check_ids(f"{name}.indices", indices, num_cols)
    return lengths


def check_ids(name: str, ids: Tensor, below: int) -> None:
    """Raise UserError unless all ids of a kernel's operand are in [0, below). name: of it, for the message."""
    if len(ids) and not (int(ids.min()) >= 0 and int(ids.max()) < below):
        raise UserError(f"{name} must lie in [0, {below})")
