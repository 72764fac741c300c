"""Shrinking a matrix of own and remote nodes, against a loop over its entries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.cuda_ext.operators.shrink import shrink
from chronoscale.errors import UserError


@dataclass(frozen=True)
class Cut:
    """A matrix and what is to be left of it."""

    graph: CSR
    rows: int
    halo: int

    def expected(self) -> tuple[list[int], list[int], list[float]]:
        """indptr, indices, values."""
        graph, own = self.graph, self.graph.num_rows
        indptr, indices, values = [0], [], []
        for row in range(self.rows):
            for at in range(int(graph.indptr[row]), int(graph.indptr[row + 1])):
                column = int(graph.indices[at])
                if column < self.rows or own <= column < own + self.halo:
                    indices.append(column if column < own else column - own + self.rows)
                    values.append(1.0 if graph.values is None else float(graph.values[at]))
            indptr.append(len(indices))
        return indptr, indices, values


@st.composite
def cuts(draw: st.DrawFn) -> Cut:
    own, halo = draw(st.integers(0, 9)), draw(st.integers(0, 5))
    columns = st.lists(st.integers(0, own + halo - 1), max_size=8) if own + halo else st.just([])
    entries = draw(st.lists(columns, min_size=own, max_size=own))
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in entries])]).astype(np.int64)
    indices = np.array([column for row in entries for column in row], np.int32)
    values = torch.from_numpy(np.random.default_rng(len(indices)).standard_normal(len(indices), np.float32))
    graph = CSR(torch.from_numpy(indptr), torch.from_numpy(indices), values if draw(st.booleans()) else None, own + halo)
    return Cut(graph, draw(st.integers(0, own)), draw(st.integers(0, halo)))


@given(cuts())
def test_any_part_of_any_matrix(cut: Cut) -> None:
    indptr, indices, values = cut.expected()
    before = [cut.graph.indptr.clone(), cut.graph.indices.clone()]
    found = shrink(cut.graph, cut.rows, cut.halo, len(indices))
    assert (found.num_rows, found.num_cols, found.nnz) == (cut.rows, cut.rows + cut.halo, len(indices))
    assert found.indptr.dtype == torch.int64 and found.indices.dtype == torch.int32
    assert found.indptr.tolist() == indptr and found.indices.tolist() == indices
    assert (found.values is None) == (cut.graph.values is None)
    assert found.values is None or found.values.tolist() == values
    assert torch.equal(cut.graph.indptr, before[0]) and torch.equal(cut.graph.indices, before[1])
    CSR(found.indptr, found.indices, found.values, found.num_cols).check()  # counts as checked, and would pass


@given(cuts(), st.data())
def test_step_by_step_is_at_once(cut: Cut, data: st.DataObject) -> None:
    rows = data.draw(st.integers(cut.rows, cut.graph.num_rows))
    halo = data.draw(st.integers(cut.halo, cut.graph.num_cols - cut.graph.num_rows))
    first = shrink(cut.graph, rows, halo, len(Cut(cut.graph, rows, halo).expected()[1]))
    nnz = len(cut.expected()[1])
    found, once = shrink(first, cut.rows, cut.halo, nnz), shrink(cut.graph, cut.rows, cut.halo, nnz)
    assert torch.equal(found.indptr, once.indptr) and torch.equal(found.indices, once.indices)
    assert once.values is None or torch.equal(found.values, once.values)


def whole() -> CSR:
    return CSR(torch.tensor([0, 2, 3, 5]), torch.tensor([0, 3, 1, 2, 4], dtype=torch.int32), None, 5)


def test_all_of_a_matrix_is_itself() -> None:
    graph = whole()
    assert shrink(graph, 3, 2, 5) is graph


@pytest.mark.parametrize("asked", [(4, 2, 5), (3, 3, 5), (3, 2, 6), (-1, 0, 0), (0, -1, 0), (0, 0, -1)])
def test_more_than_there_is(asked: tuple[int, int, int]) -> None:
    rows, halo, nnz = asked
    with pytest.raises(UserError) as error:
        shrink(whole(), *asked)
    assert str(error.value) == f"shrunk: [3, 5] of 5 entries has no part of {rows} rows, {halo} remote ones, {nnz} entries"


def test_fewer_columns_than_rows() -> None:
    graph = CSR(torch.tensor([0, 1, 1, 1]), torch.tensor([0], dtype=torch.int32), None, 2)
    with pytest.raises(UserError, match=r"^shrunk: \[3, 2\] of 1 entries has no part"):
        shrink(graph, 1, 0, 1)


def test_a_matrix_is_checked() -> None:
    wrong = CSR(torch.tensor([0, 1]), torch.tensor([7], dtype=torch.int32), None, 2)
    with pytest.raises(UserError, match=r"^CSR\.indices must lie in \[0, 2\)$"):
        shrink(wrong, 0, 0, 0)


@pytest.mark.parametrize("nnz", [0, 1, 2])
def test_a_wrong_number_of_entries_writes_nowhere_else(nnz: int) -> None:
    """Some of the three that are left: nothing is read or written out of bounds."""
    found = shrink(whole(), 2, 1, nnz)
    assert found.nnz == nnz and set(found.indices.tolist()) <= {0, 1, 2}
