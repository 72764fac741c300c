"""Adjacency in CSR form with GCN weights, whole or as the increment from one snapshot to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

import numpy as np

from chronoscale.datasets.arrays import Float32, Float64, Int32, Int64, Numbers, UInt8, require, require_ids
from chronoscale.errors import UserError, unknown

Variant = Literal["exact", "as-published"]
Count = TypeVar("Count", int, Int64)


def check_variant(variant: str) -> None:
    """Check that `variant` says how weights of an adjacency matrix are defined: "exact" or "as-published" (see `WeightedCSR`). Raises
    UserError for another."""
    if variant not in get_args(Variant):
        raise unknown("variant", variant, get_args(Variant))


def inverse_root(degree: Numbers) -> Float64:
    """Return 1 / sqrt(degree + 1) of each node, the factor of GCN's normalisation with a self-loop added: float64 [N]."""
    factor: Float64 = 1.0 / np.sqrt(degree.astype(np.float64) + 1.0)
    return factor


@dataclass(frozen=True, slots=True, eq=False)
class WeightedCSR:
    """Adjacency matrix A + I of one snapshot with GCN weights; rows are destinations, the self-loop comes first in its row.

    aggregate(v) = scale[v] * S(v), S(v) = sum over the row's entries of values * x[indices].

    exact: values = c[src], scale = r, with c = 1/sqrt(out_degree + 1) and r = 1/sqrt(in_degree + 1) (Kipf's symmetric normalisation on
    directed edges, left factored so that S changes by exact increments). as-published (REAL eq. 4): values = c[src] * r[dst], scale = 1. A
    self-edge in the data is an edge like any other, beside the added self-loop. Edge multiplicities do not weigh.

    indptr int64 [N+1], indices int32 [nnz], values float32 [nnz], scale float32 [N]; nnz = E + N.
    """

    indptr: Int64
    indices: Int32
    values: Float32
    scale: Float32

    def __post_init__(self) -> None:
        nodes = self.scale.size
        _check("WeightedCSR", self.indptr, self.indices, self.values, self.scale, rows=nodes)

    @classmethod
    def of_edges(cls, num_nodes: int, src: Int32, dst: Int32, variant: Variant = "exact") -> WeightedCSR:
        """Build a snapshot's weighted adjacency matrix from its edges, int32 [E], sorted by (dst, src), in linear time. Raises UserError
        for an unknown variant."""
        check_variant(variant)
        in_degree = np.bincount(dst, minlength=num_nodes)
        c = inverse_root(np.bincount(src, minlength=num_nodes))
        r = inverse_root(in_degree)
        indptr = np.zeros(num_nodes + 1, dtype=np.int64)
        np.cumsum(in_degree + 1, out=indptr[1:])
        edge_places = np.arange(dst.size, dtype=np.int64) + dst + 1  # rows 0..v put v + 1 self-loops before an edge of row v
        indices = np.empty(dst.size + num_nodes, dtype=np.int32)
        values = np.empty(indices.size, dtype=np.float32)
        indices[indptr[:-1]] = np.arange(num_nodes, dtype=np.int32)
        indices[edge_places] = src
        if variant == "exact":
            values[indptr[:-1]], values[edge_places] = c, c[src]
            return cls(indptr, indices, values, r.astype(np.float32))
        values[indptr[:-1]], values[edge_places] = c * r, c[src] * r[dst]
        return cls(indptr, indices, values, np.ones(num_nodes, dtype=np.float32))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays: what copying the matrix to the device moves."""
        return self.indptr.nbytes + self.indices.nbytes + self.values.nbytes + self.scale.nbytes

    @staticmethod
    def nbytes_of(nodes: Count | int, edges: Count) -> Count:
        """Compute `nbytes` from counts alone, for planners: `nodes` of the dataset, `edges` of the snapshot (without the added
        self-loops)."""
        return 8 * edges + 8 + (8 + 8 + 4) * nodes  # pointers, self-loops and scales of nodes


@dataclass(frozen=True, slots=True, eq=False)
class DeltaCSR:
    """Increment from one snapshot to the next: what a device adds to the sums S of `WeightedCSR` instead of computing them anew. S[rows] +=
    values * x[indices]; then `scale` holds for all rows.

    Where fresh is 1 the row's sum starts from zero: its entries are the whole row of the later snapshot.

    rows int32 [R] (touched destinations, ascending), fresh uint8 [R], indptr int64 [R+1], indices int32 [nnz], values float32 [nnz], scale
    float32 [N] (of the later snapshot). Built by `chronoscale.datasets.snapshots.difference.delta_csr`.
    """

    rows: Int32
    fresh: UInt8
    indptr: Int64
    indices: Int32
    values: Float32
    scale: Float32

    def __post_init__(self) -> None:
        require(self.rows, "DeltaCSR.rows", "int32", (None,))
        _check("DeltaCSR", self.indptr, self.indices, self.values, self.scale, rows=self.rows.size)
        require_ids(self.rows, "DeltaCSR.rows", self.scale.size)
        if (self.rows[1:] <= self.rows[:-1]).any():
            raise UserError("DeltaCSR.rows: expected ascending rows without duplicates")
        require(self.fresh, "DeltaCSR.fresh", "uint8", (self.rows.size,))
        if (self.fresh > 1).any():
            raise UserError("DeltaCSR.fresh: expected 0 or 1")

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays: what copying the increment to the device moves."""
        return self.rows.nbytes + self.fresh.nbytes + self.indptr.nbytes + self.indices.nbytes + self.values.nbytes + self.scale.nbytes

    @staticmethod
    def nbytes_of(rows: Count, edges: Count, nodes: Count | int) -> Count:
        """Compute `nbytes` from counts alone, for planners: touched `rows`, `edges` that the increment has entries for (nnz), `nodes` of
        the dataset."""
        return 5 * rows + 8 * (rows + 1) + 8 * edges + 4 * nodes


def _check(name: str, indptr: Int64, indices: Int32, values: Float32, scale: Float32, rows: int) -> None:
    require(scale, f"{name}.scale", "float32", (None,))
    require(indptr, f"{name}.indptr", "int64", (rows + 1,))
    require(indices, f"{name}.indices", "int32", (None,))
    require(values, f"{name}.values", "float32", (indices.size,))
    if indptr[0] != 0 or indptr[-1] != indices.size or (indptr[1:] < indptr[:-1]).any():
        raise UserError(f"{name}.indptr: expected to rise from 0 to {indices.size}")
    require_ids(indices, f"{name}.indices", scale.size)
