"""Sparse operands: a snapshot as CSR, and the change between two snapshots as a Delta.

Kernels trust their ids, so every operator checks an operand once: `check` remembers that it passed, copies, transposes and compact
rows of a checked operand count as checked, and `mark_checked` says so of one that this package made.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.sparse_arrays import (
    PIECE,
    check_column,
    check_csr,
    check_ids,
    check_numbers,
    check_size,
    extent,
    list_pieces,
    reorder,
    row_ids,
)
from chronoscale.errors import UserError


class _Operand:
    """Sparse operand: rows of entries, in tensors of one device."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    _ids: ClassVar[tuple[str, ...]]  # the tensors whose numbers `check` looks at
    indptr: Tensor
    indices: Tensor

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return self.indices.shape[0]

    @cached_property
    def device(self) -> torch.device:
        """The device of its tensors."""
        return self.indptr.device

    @property
    def nbytes(self) -> int:
        """Bytes of its tensors: what a transfer to a device moves."""
        return sum(tensor.nbytes for tensor in self._tensors().values())

    def to(self, device: torch.device | str, non_blocking: bool = False, copy: bool = False) -> Self:
        """Return the same operand on `device`; non_blocking and copy as in torch (the source must be pinned to gain from the first)."""
        moved = {name: tensor.to(device, non_blocking=non_blocking, copy=copy) for name, tensor in self._tensors().items()}
        operand = replace(self, **moved)
        if self._checked:
            row_pieces = None if self.row_pieces is None else self.row_pieces.to(device, non_blocking=non_blocking, copy=copy)
            operand.mark_checked()._set_layout(self.longest_row, row_pieces)
        return operand

    def check(self) -> Self:
        """Raise UserError unless its ids are in range and in order, as the class says; return the operand itself.

        It takes O(nnz) the first time and again after torch wrote into the tensors; nothing is looked at otherwise. Tensors made in
        inference mode do not tell whether they were written, and are looked at in every call. What is written into their memory past
        torch's counting (`.data`, NumPy, another thread, a resized storage) is not noticed: then kernels read and write out of bounds.
        """
        if not self._checked or ("_was_looked_at" in self.__dict__ and self._unwatched):
            self._check_values()
            self.__dict__.update(_checked_versions=self._versions(), _was_looked_at=True)
        return self

    def mark_checked(self) -> Self:
        """Mark the operand as checked without checking it, and without waiting for its device: for ids that can only be right; return
        it."""
        versions = self._versions()
        if self.__dict__.get("_checked_versions", versions) != versions:
            self._set_layout(None, None)  # it was that of other rows
        self.__dict__["_checked_versions"] = versions
        return self

    longest_row: ClassVar[int | None] = None  # entries of its longest row, where `check` has counted them
    row_pieces: ClassVar[Tensor | None] = None  # then, if that is PIECE or more: int32 [n, 2], (long row, piece that it lies in)

    def _set_layout(self, longest_row: int | None, row_pieces: Tensor | None) -> Self:
        """Remember the longest row and the pieces of long rows; return the operand."""
        self.__dict__.update(longest_row=longest_row, row_pieces=row_pieces)
        self.__dict__.pop("row_layout", None)
        return self

    @cached_property
    def row_layout(self) -> tuple[int, Tensor | None]:
        """`longest_row`, -1 where it has not been counted, and `row_pieces`, in the form that operators in C++ take."""
        return -1 if self.longest_row is None else self.longest_row, self.row_pieces

    def _measure(self, lengths: Tensor) -> None:
        """Remember the layout of rows of those lengths."""
        longest_row = int(lengths.max()) if len(lengths) else 0
        row_pieces = list_pieces(self.indptr, lengths) if longest_row >= PIECE else None
        self._set_layout(longest_row, row_pieces.pin_memory() if row_pieces is not None and self.indptr.is_pinned() else row_pieces)

    @property
    def _checked(self) -> bool:
        """True if it has been checked and torch has not written into its ids since."""
        return self.__dict__.get("_checked_versions") == self._versions()

    @cached_property
    def _unwatched(self) -> bool:
        """True if some of its ids may change unnoticed: tensors of inference mode have no version."""
        return len(self._watched) < sum(getattr(self, name) is not None for name in self._ids)

    def _check_values(self) -> None:
        """Raise UserError for ids that are out of range or order, and remember the rows' layout."""
        raise NotImplementedError

    def _versions(self) -> list[int]:
        """Return torch's version counters of the tensors of ids, which count writes."""
        return [tensor._version for tensor in self._watched]

    @cached_property
    def _watched(self) -> list[Tensor]:
        """The tensors of ids whose versions torch counts."""
        tensors = (getattr(self, name) for name in self._ids)
        return [tensor for tensor in tensors if tensor is not None and not tensor.is_inference()]

    @cached_property
    def extents(self) -> list[tuple[int, int]]:
        """Ranges of memory [begin, end) of each of its tensors."""
        return [extent(tensor) for tensor in self._tensors().values()]

    def _tensors(self) -> dict[str, Tensor]:
        """Return its tensors by their names."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}


@dataclass(frozen=True, eq=False)
class CSR(_Operand):
    """Sparse matrix [num_rows, num_cols] in compressed rows, as kernels take a snapshot; row v holds the in-edges of node v.

    indptr int64 [num_rows + 1] with indptr[0] == 0; indices int32 [nnz], column ids; values float32 [nnz], or None for all ones; all
    contiguous and on one device. Raises UserError when shapes, dtypes or devices differ from that; `check` also unless indptr ascends from
    0 to nnz and every column id is in range.
    """

    _ids = ("indptr", "indices")
    indptr: Tensor
    indices: Tensor
    values: Tensor | None
    num_cols: int
    # The matrix that it was copied from, with the versions of both by then; its own versions when its transpose was made, that, the order.
    _copied_from: ClassVar[tuple[CSR, list[int], list[int]] | None] = None
    _transpose_cache: ClassVar[tuple[list[int], CSR, Tensor | None] | None] = None

    def __post_init__(self) -> None:
        check_csr("CSR", self.indptr, self.indices, self.values, self.num_cols)

    @property
    def num_rows(self) -> int:
        """Return the number of rows of the matrix."""
        return self.indptr.shape[0] - 1

    def transpose(self) -> CSR:
        """Return the transpose [num_cols, num_rows], for a kernel's backward pass; checks the matrix first.

        It is cached until torch writes into this matrix.
        """
        return self._transposed()[0]

    def _check_values(self) -> None:
        self._measure(check_numbers("CSR", self.indptr, self.indices, self.num_cols))

    def order(self) -> Tensor:
        """Return where each entry of `transpose()` lies in this matrix, int64 [nnz], for kernels' backward passes.

        It is cached with the transpose unless that has values.
        """
        kept = self._transposed()[1]
        return torch.sort(self.indices, stable=True).indices if kept is None else kept

    def copy(self, shares: bool = True) -> CSR:
        """Return the same matrix in tensors of its own.

        shares: one transpose is computed for all copies, at the first call of `transpose`.
        """
        copy = self.to(self.device, non_blocking=True, copy=True)
        if shares:
            copy.__dict__["_copied_from"] = self, self._written(), copy._written()
        return copy

    def _transposed(self) -> tuple[CSR, Tensor | None]:
        """Return the transpose, and the order of its entries (None where it is not cached)."""
        if self._copied_from is not None:
            source, source_versions, own_versions = self._copied_from
            if (source._written(), self._written()) == (source_versions, own_versions):
                return source._transposed()
        if self._transpose_cache is None or self._transpose_cache[0] != self._written():
            self.check()
            order = torch.sort(self.indices, stable=True).indices
            transposed = CSR(*reorder(order, self.indptr, self.indices, self.values, self.num_cols), self.num_rows).mark_checked()
            self.__dict__["_transpose_cache"] = self._written(), transposed, order if self.values is None else None
        assert self._transpose_cache is not None
        return self._transpose_cache[1:]

    def _written(self) -> list[int]:
        """Return torch's version counters of its tensors, which count writes."""
        return [tensor._version for tensor in self._counted]

    @cached_property
    def _counted(self) -> list[Tensor]:
        """The tensors whose versions torch counts."""
        return [tensor for tensor in self._tensors().values() if not tensor.is_inference()]


@dataclass(frozen=True, eq=False)
class Delta(_Operand):
    """Changed edges between two snapshots with weights (REAL, section 4.1, the difference map), as kernels take them.

    Rows of a matrix [num_rows, num_cols]: rows int32 [R], distinct row ids; indptr int64 [R + 1], indices int32 [nnz], values float32 [nnz]
    as in CSR, with one compact row for each of `rows`: a value is +w for an edge that appears and -w for one that goes. fresh uint8 [R], or
    None for all zeros: where it is 1 the compact row holds the whole new row, and its sum starts from zero. Raises UserError as CSR does,
    `check` also unless rows are distinct and fresh is 0 or 1.
    """

    _ids = ("rows", "indptr", "indices", "fresh")
    rows: Tensor
    indptr: Tensor
    indices: Tensor
    values: Tensor | None
    num_rows: int
    num_cols: int
    fresh: Tensor | None = None

    def __post_init__(self) -> None:
        check_csr("Delta", self.indptr, self.indices, self.values, self.num_cols)
        check_column("Delta.rows", self.rows, torch.int32, len(self.indptr) - 1, "each row of indptr", self.device)
        check_size("Delta.num_rows", self.num_rows)
        if not len(self.rows) <= self.num_rows:
            raise UserError(f"Delta.rows has {len(self.rows)} entries, more than num_rows = {self.num_rows}")
        if self.fresh is not None:
            check_column("Delta.fresh", self.fresh, torch.uint8, len(self.rows), "each of rows", self.device)

    def compact(self) -> CSR:
        """Return the touched rows only, as a matrix [R, num_cols] that shares the tensors."""
        return self._compact

    def transpose(self) -> CSR:
        """Return the transpose [num_cols, R] of `compact()`, for a kernel's backward pass; computed once and cached."""
        return self._compact.transpose()

    def _check_values(self) -> None:
        self._measure(check_numbers("Delta", self.indptr, self.indices, self.num_cols))
        check_ids("Delta.rows", self.rows, self.num_rows)
        if len(torch.unique(self.rows)) != len(self.rows):
            raise UserError("Delta.rows names a row twice")
        if self.fresh is not None and bool((self.fresh > 1).any()):
            raise UserError("Delta.fresh must be 0 or 1")

    @cached_property
    def _compact(self) -> CSR:
        """The matrix that `compact` returns, made once."""
        compact = CSR(self.indptr, self.indices, self.values, self.num_cols)
        return compact.mark_checked()._set_layout(self.longest_row, self.row_pieces) if self._checked else compact


@dataclass(frozen=True, eq=False)
class EdgeMap(_Operand):
    """Edges added and removed between two snapshots of num_nodes nodes, as kernels take them (REAL, section 4.1: the difference map).

    rows int32 [R], the distinct destinations of changed edges, ascending; indptr int64 [R + 1]; indices int32 [changed], the sources,
    ascending in a row; sign int8 [changed], +1 for an added edge and -1 for a removed one. net, the sum of the signs, is counted on a CPU;
    on another device it is copied along by `to`, or counted at the first read. Raises UserError as CSR does, `check` also unless rows and a
    row's sources ascend and signs are +1 or -1.
    """

    _ids = ("rows", "indptr", "indices", "sign")
    rows: Tensor
    indptr: Tensor
    indices: Tensor
    sign: Tensor
    num_nodes: int
    net: int | None = None

    def __post_init__(self) -> None:
        check_csr("EdgeMap", self.indptr, self.indices, None, self.num_nodes)
        check_column("EdgeMap.rows", self.rows, torch.int32, len(self.indptr) - 1, "each row of indptr", self.device)
        check_column("EdgeMap.sign", self.sign, torch.int8, len(self.indices), "each of indices", self.device)
        if self.net is None and self.sign.device.type == "cpu":
            object.__setattr__(self, "net", int(self.sign.sum()))

    def growth(self) -> int:
        """Return by how many edges the next snapshot is larger: added ones less removed ones.

        Where no host knows it, the device is waited for.
        """
        return int(self.sign.sum()) if self.net is None else self.net

    def compact(self) -> CSR:
        """Return the touched rows only, as a matrix [R, num_nodes] that shares the tensors."""
        return self._compact

    @cached_property
    def _compact(self) -> CSR:
        """The matrix that `compact` returns, made once."""
        compact = CSR(self.indptr, self.indices, None, self.num_nodes)
        return compact.mark_checked()._set_layout(self.longest_row, self.row_pieces) if self._checked else compact

    @staticmethod
    def nbytes_of(rows: int, edges: int) -> int:
        """Return how many bytes the tensors of such a change have, from counts alone.

        rows: distinct destinations of changed edges. edges: changed edges.
        """
        return 4 * rows + 8 * (rows + 1) + 5 * edges

    def _check_values(self) -> None:
        self._measure(check_numbers("EdgeMap", self.indptr, self.indices, self.num_nodes))
        check_ids("EdgeMap.rows", self.rows, self.num_nodes)
        keys = self.rows.long()[row_ids(self.indptr, self.nnz)] * self.num_nodes + self.indices
        if bool((self.rows.diff() <= 0).any()) or bool((keys.diff() <= 0).any()) or bool((self.indptr.diff() <= 0).any()):
            raise UserError("EdgeMap: rows must ascend, and sources within a row, which has one at least")
        if bool((self.sign.abs() != 1).any()):
            raise UserError("EdgeMap.sign must be +1 or -1")
        if self.net is not None and self.net != int(self.sign.sum()):
            raise UserError(f"EdgeMap.net is {self.net}; the signs add up to {int(self.sign.sum())}")


class AttentionEntries(NamedTuple):
    """Entries of a sparse matrix that the attention kernels score: score(e) = leaky_relu(left[indices[e]] + right[row], slope)."""

    matrix: CSR  # [R, num_cols]; its values are not read
    rows: Tensor | None  # int32 [R], the row of `right` for each of the matrix's; None: its own
    slope: float
