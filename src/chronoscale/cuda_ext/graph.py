"""Sparse operands: a snapshot as CSR, and the change between two snapshots as a Delta."""

from __future__ import annotations

from dataclasses import Field, dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from chronoscale.errors import UserError


class _Operand:
    """Rows of entries, held in tensors of one device."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    indptr: Tensor
    indices: Tensor

    @property
    def nnz(self) -> int:
        return len(self.indices)

    @property
    def device(self) -> torch.device:
        return self.indptr.device

    @property
    def nbytes(self) -> int:
        """Bytes of its tensors: what a transfer to the device moves."""
        return sum(tensor.nbytes for tensor in self._tensors().values())

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """The same on `device`; non_blocking as in torch (the source must be pinned to gain from it)."""
        return replace(self, **{name: tensor.to(device, non_blocking=non_blocking) for name, tensor in self._tensors().items()})

    def _tensors(self) -> dict[str, Tensor]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}


@dataclass(frozen=True, eq=False)
class CSR(_Operand):
    """A sparse matrix of shape [num_rows, num_cols]; row v holds the in-edges of node v.

    indptr int64 [num_rows + 1] with indptr[0] == 0; indices int32 [nnz], column ids; values float32 [nnz], or None for
    all ones; all contiguous and on one device. Raises UserError when shapes, dtypes or devices differ from that;
    `check` looks at the numbers too.
    """

    indptr: Tensor
    indices: Tensor
    values: Tensor | None
    num_cols: int

    def __post_init__(self) -> None:
        _check_csr("CSR", self.indptr, self.indices, self.values, self.num_cols)

    @property
    def num_rows(self) -> int:
        return len(self.indptr) - 1

    def transpose(self) -> CSR:
        """The matrix [num_cols, num_rows], made once and kept: backward passes need it at every step."""
        return self._turned[0]

    def check(self) -> CSR:
        """Raises UserError unless indptr ascends from 0 to nnz and every column id is in range. Returns itself."""
        _check_numbers("CSR", self.indptr, self.indices, self.num_cols)
        return self

    def order(self) -> Tensor:
        """int64 [nnz]: where each entry of `transpose()` lies here; made once and kept."""
        return self._turned[1]

    @cached_property
    def _turned(self) -> tuple[CSR, Tensor]:
        order = torch.sort(self.indices, stable=True).indices
        return CSR(*_reorder(order, self.indptr, self.indices, self.values, self.num_cols), self.num_rows), order


@dataclass(frozen=True, eq=False)
class Delta(_Operand):
    """Changed edges of a snapshot (REAL, section 4.1, the difference map), as rows of a matrix [num_rows, num_cols].

    rows int32 [R], distinct row ids; indptr int64 [R + 1], indices int32 [nnz], values float32 [nnz] as in CSR, with
    one compact row for each of `rows`: a value is +w for an edge that appears and -w for one that goes. fresh uint8 [R], or None
    for all zeros: where it is 1 the compact row holds the whole new row, and its sum starts from zero.
    Raises UserError as CSR does.
    """

    rows: Tensor
    indptr: Tensor
    indices: Tensor
    values: Tensor | None
    num_rows: int
    num_cols: int
    fresh: Tensor | None = None

    def __post_init__(self) -> None:
        _check_csr("Delta", self.indptr, self.indices, self.values, self.num_cols)
        _check_column("Delta.rows", self.rows, torch.int32, len(self.indptr) - 1, "each row of indptr", self.device)
        if not len(self.rows) <= self.num_rows:
            raise UserError(f"Delta.rows has {len(self.rows)} entries, more than num_rows = {self.num_rows}")
        if self.fresh is not None:
            _check_column("Delta.fresh", self.fresh, torch.uint8, len(self.rows), "each of rows", self.device)

    def compact(self) -> CSR:
        """Its touched rows alone, a matrix [R, num_cols] that shares its tensors."""
        return self._compact

    def transpose(self) -> CSR:
        """The transpose [num_cols, R] of `compact()`, made once and kept."""
        return self._compact.transpose()

    def check(self) -> Delta:
        """Raises UserError unless all ids are in range, rows are distinct, and fresh is 0 or 1. Returns itself."""
        _check_numbers("Delta", self.indptr, self.indices, self.num_cols)
        _check_ids("Delta.rows", self.rows, self.num_rows)
        if len(torch.unique(self.rows)) != len(self.rows):
            raise UserError("Delta.rows names a row twice")
        if self.fresh is not None and bool((self.fresh > 1).any()):
            raise UserError("Delta.fresh must be 0 or 1")
        return self

    @cached_property
    def _compact(self) -> CSR:
        return CSR(self.indptr, self.indices, self.values, self.num_cols)


@dataclass(frozen=True, eq=False)
class EdgeMap(_Operand):
    """The edges that come and go between two snapshots of num_nodes nodes (REAL, section 4.1: the difference map, topology alone).

    rows int32 [R], the distinct destinations of changed edges, ascending; indptr int64 [R + 1]; indices int32 [changed], the sources,
    ascending in a row; sign int8 [changed], +1 for an added edge and -1 for a removed one. net, the sum of the signs, is counted on a CPU;
    on another device it is taken along by `to`, or counted when it is asked for. Raises UserError as CSR does.
    """

    rows: Tensor
    indptr: Tensor
    indices: Tensor
    sign: Tensor
    num_nodes: int
    net: int | None = None

    def __post_init__(self) -> None:
        _check_csr("EdgeMap", self.indptr, self.indices, None, self.num_nodes)
        _check_column("EdgeMap.rows", self.rows, torch.int32, len(self.indptr) - 1, "each row of indptr", self.device)
        _check_column("EdgeMap.sign", self.sign, torch.int8, len(self.indices), "each of indices", self.device)
        if self.net is None and self.sign.device.type == "cpu":
            object.__setattr__(self, "net", int(self.sign.sum()))

    def growth(self) -> int:
        """Edges that come less edges that go; where no host knows it, the device is waited for."""
        return int(self.sign.sum()) if self.net is None else self.net

    @staticmethod
    def nbytes_of(rows: int, edges: int) -> int:
        """`nbytes` from counts: distinct destinations of changed edges, changed edges."""
        return 4 * rows + 8 * (rows + 1) + 5 * edges

    def check(self) -> EdgeMap:
        """Raises UserError unless all ids are in range, rows and a row's sources ascend, and signs are +1 or -1. Returns itself."""
        _check_numbers("EdgeMap", self.indptr, self.indices, self.num_nodes)
        _check_ids("EdgeMap.rows", self.rows, self.num_nodes)
        keys = self.rows.long()[row_ids(self.indptr, self.nnz)] * self.num_nodes + self.indices
        if bool((self.rows.diff() <= 0).any()) or bool((keys.diff() <= 0).any()):
            raise UserError("EdgeMap: rows must ascend, and sources within a row")
        if bool((self.sign.abs() != 1).any()):
            raise UserError("EdgeMap.sign must be +1 or -1")
        return self


class Entries(NamedTuple):
    """What one head attends to, in compact rows: score(e) = leaky_relu(left[indices[e]] + right[row], slope)."""

    matrix: CSR  # [R, num_cols]; its values are not read
    rows: Tensor | None  # int32 [R], the row of `right` for each of the matrix's; None: its own
    slope: float


def transpose(indptr: Tensor, indices: Tensor, values: Tensor | None, num_cols: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """indptr, indices, values of the transpose of a CSR matrix; a stable (counting) sort by column."""
    return _reorder(torch.sort(indices, stable=True).indices, indptr, indices, values, num_cols)


def _reorder(order: Tensor, indptr: Tensor, indices: Tensor, values: Tensor | None, num_cols: int) -> tuple[Tensor, Tensor, Tensor | None]:
    pointer = torch.zeros(num_cols + 1, dtype=torch.int64, device=indptr.device)
    torch.cumsum(column_counts(indices, num_cols), 0, out=pointer[1:])
    return pointer, row_ids(indptr, len(indices)).to(torch.int32)[order], None if values is None else values[order]


def column_counts(indices: Tensor, num_cols: int) -> Tensor:
    """int32 [num_cols]: how often each column id occurs. Unlike torch.bincount it does not wait for a device."""
    ones = torch.ones(1, dtype=torch.int32, device=indices.device).expand(len(indices))
    return torch.zeros(num_cols, dtype=torch.int32, device=indices.device).index_add_(0, indices, ones)


def row_ids(indptr: Tensor, nnz: int) -> Tensor:
    """int64 [nnz]: the row of each stored entry."""
    return torch.repeat_interleave(torch.arange(len(indptr) - 1, device=indptr.device), indptr.diff(), output_size=nnz)


def _check_vector(name: str, tensor: Tensor, dtype: torch.dtype, device: torch.device) -> None:
    if tensor.dtype != dtype or tensor.dim() != 1 or not tensor.is_contiguous() or tensor.device != device:
        found = f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}{'' if tensor.is_contiguous() else ', not contiguous'}"
        raise UserError(f"{name} is {found}; expected a contiguous {dtype} vector on {device}")


def _check_column(name: str, tensor: Tensor, dtype: torch.dtype, count: int, of: str, device: torch.device) -> None:
    _check_vector(name, tensor, dtype, device)
    if len(tensor) != count:
        raise UserError(f"{name} has {len(tensor)} entries, expected {count} (one for {of})")


def _check_csr(name: str, indptr: Tensor, indices: Tensor, values: Tensor | None, num_cols: int) -> None:
    _check_vector(f"{name}.indptr", indptr, torch.int64, indptr.device)
    _check_vector(f"{name}.indices", indices, torch.int32, indptr.device)
    if len(indptr) == 0:
        raise UserError(f"{name}.indptr is empty; expected one entry more than there are rows")
    if num_cols < 0:
        raise UserError(f"{name}.num_cols is {num_cols}; expected a size")
    if values is not None:
        _check_column(f"{name}.values", values, torch.float32, len(indices), "each of indices", indptr.device)
        if values.requires_grad:
            raise UserError(f"{name}.values asks for gradients; expected constants (operators are differentiable in x and sums)")


def _check_numbers(name: str, indptr: Tensor, indices: Tensor, num_cols: int) -> None:
    if int(indptr[0]) != 0 or int(indptr[-1]) != len(indices) or bool((indptr.diff() < 0).any()):
        raise UserError(f"{name}.indptr must ascend from 0 to {len(indices)}, the number of indices")
    _check_ids(f"{name}.indices", indices, num_cols)


def _check_ids(name: str, ids: Tensor, below: int) -> None:
    if len(ids) and not (int(ids.min()) >= 0 and int(ids.max()) < below):
        raise UserError(f"{name} must lie in [0, {below})")
