"""Rebuilding an adjacency from a change equals building it afresh, bit for bit, on every backend."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from changing_graphs import changing, operand
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.cuda_ext.native.backend import backends
from chronoscale.cuda_ext.operators.aggregation import rebuild
from chronoscale.cuda_ext.operators.graph import CSR, EdgeMap
from chronoscale.datasets.snapshots import difference
from chronoscale.datasets.snapshots.sequence import Snapshot
from chronoscale.errors import UserError

N = 9
edge_sets = st.sets(st.tuples(st.integers(0, N - 1), st.integers(0, N - 1)), max_size=40)


def snapshot(edges: set[tuple[int, int]]) -> Snapshot:
    array = np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)
    return Snapshot.from_edges(N, array[:, 0], array[:, 1])


def change(before: Snapshot, after: Snapshot, device: str = "cpu") -> EdgeMap:
    made = difference.edge_map(before, after)
    moved = EdgeMap(*(torch.from_numpy(a) for a in (made.rows, made.indptr, made.indices, made.sign)), made.num_nodes)
    assert moved.nbytes == made.nbytes == EdgeMap.nbytes_of(len(made.rows), len(made.indices))
    assert made.nbytes == difference.EdgeMap.nbytes_of(made.rows.size, made.indices.size)
    return moved.check().to(device)


def equal(graph: CSR, fresh: CSR) -> None:
    assert torch.equal(graph.indptr, fresh.indptr) and torch.equal(graph.indices, fresh.indices)
    assert graph.values is not None and fresh.values is not None and torch.equal(graph.values, fresh.values)


@pytest.mark.sample(1)
@pytest.mark.parametrize("variant", ["exact", "as-published"])
def test_a_long_run_equals_fresh_graphs(backend: str, device: str, variant: str) -> None:
    snapshots = list(changing(3000, 30_000, 60))
    graph, scale = operand(snapshots[0], variant, device)
    for before, after in pairwise(snapshots):
        graph, scale = rebuild(graph, change(before, after, device), variant, backend=backend)
        fresh, fresh_scale = operand(after, variant, device)
        equal(graph.check(), fresh)
        assert torch.equal(scale, fresh_scale)


@given(edge_sets, edge_sets)
def test_any_two_graphs(first: set[tuple[int, int]], second: set[tuple[int, int]]) -> None:
    before, after = snapshot(first), snapshot(second)
    made = difference.edge_map(before, after)
    dst = np.repeat(made.rows, np.diff(made.indptr))
    for sign, expected in ((1, second - first), (-1, first - second)):
        chosen = made.sign == sign
        assert set(zip(made.indices[chosen].tolist(), dst[chosen].tolist(), strict=True)) == expected
    for backend in {"reference", "cpu"} & set(backends()):
        for variant in ("exact", "as-published"):
            equal(rebuild(operand(before, variant)[0], change(before, after), variant, backend=backend)[0], operand(after, variant)[0])
            plain, _ = rebuild(operand(before)[0], change(before, after), variant, weighted=False, backend=backend)
            assert plain.values is None and torch.equal(plain.indices, operand(after)[0].indices)


def test_a_change_of_other_edges_is_an_error(backend: str, device: str) -> None:
    there, other = snapshot({(0, 1), (2, 1), (3, 4)}), snapshot({(5, 6)})
    empty = snapshot(set())
    for graph, map_ in (
        (there, change(other, empty)),  # removes what is not there
        (there, change(empty, there)),  # adds what is there
        (empty, change(there, empty)),
        (other, change(there, other)),
        (empty, change(snapshot({(1, 0), (2, 0), (3, 0), (4, 0)}), empty)),  # more than the first row has: ends below zero
        (empty, change(snapshot({(1, 8), (2, 8), (3, 8), (4, 8)}), empty)),  # more than the last row has: others reach beyond the end
    ):
        with pytest.raises(UserError, match="does not belong"):
            rebuild(operand(graph, device=device)[0], map_.to(device), backend=backend)


def test_an_adjacency_that_is_none_is_an_error(backend: str, device: str) -> None:
    nothing = change(snapshot(set()), snapshot(set()), device)
    graph = operand(snapshot({(0, 2), (1, 2), (3, 2)}), device=device)[0]
    for at, node in ((0, 1), (2, 0), (len(graph.indices) - 1, 0)):
        indices = graph.indices.clone()
        indices[at] = node
        with pytest.raises(UserError, match="does not begin with its own node"):
            rebuild(CSR(graph.indptr, indices, None, N), nothing, backend=backend)
    without = graph.indptr.clone()
    without[-1] -= 1  # the last row has no entry
    with pytest.raises(UserError, match="does not begin with its own node"):
        rebuild(CSR(without, graph.indices[:-1].contiguous(), None, N), nothing, backend=backend)


STAR = {(v, 0) for v in range(1, 9)} | {(0, v) for v in range(1, 9)}


@pytest.mark.parametrize("weighted", [True, False])
def test_whether_a_change_fits_can_be_asked_later(backend: str, device: str, weighted: bool) -> None:
    there, other = {(0, 1), (2, 1), (3, 4)}, {(5, 6)}
    for graph, first, second, fits in (
        (there, there, other, True),
        (there, other, set(), False),
        (there, set(), there, False),
        (set(), STAR, set(), False),  # more goes than there is
        (other, there, other, False),
        (STAR, there, set(), False),
    ):
        unfit = torch.zeros(1, dtype=torch.int32, device=device)
        step = change(snapshot(first), snapshot(second), device)
        made, _ = rebuild(operand(snapshot(graph), device=device)[0], step, weighted=weighted, backend=backend, unfit=unfit)
        assert bool(unfit) != fits
        CSR(made.indptr, made.indices, made.values, N).check()  # some matrix, whatever is in it
        if fits:
            assert torch.equal(made.indices, operand(snapshot(second), device=device)[0].indices)


def test_malformed_maps_and_arguments_are_errors() -> None:
    def ints(*numbers: int) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.int32)

    pointer, one = torch.tensor([0, 1]), torch.ones(1, dtype=torch.int8)
    with pytest.raises(UserError, match=r"EdgeMap\.sign has 1 entries, expected 2"):
        EdgeMap(ints(0), torch.tensor([0, 2]), ints(1, 2), one, 3)
    for rows, indptr, indices, sign, message in (
        (ints(3), pointer, ints(0), one, "rows must lie"),
        (ints(1, 0), torch.tensor([0, 1, 2]), ints(0, 0), torch.ones(2, dtype=torch.int8), "ascend"),
        (ints(1), torch.tensor([0, 2]), ints(2, 1), torch.ones(2, dtype=torch.int8), "ascend"),
        (ints(1), pointer, ints(0), 2 * one, r"\+1 or -1"),
    ):
        with pytest.raises(UserError, match=message):
            EdgeMap(rows, indptr, indices, sign, 3).check()
    graph, fits = operand(snapshot({(0, 1)}))[0], change(snapshot({(0, 1)}), snapshot(set()))
    with pytest.raises(UserError, match="did you mean 'exact'"):
        rebuild(graph, fits, "exakt")
    with pytest.raises(UserError, match="of 3 nodes"):
        rebuild(graph, EdgeMap(ints(0), pointer, ints(1), one, 3))
    with pytest.raises(UserError, match="without empty rows"):
        difference.EdgeMap(3, np.zeros(1, np.int32), np.zeros(2, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int8))
    with pytest.raises(UserError, match=r"expected \+1 or -1"):
        difference.EdgeMap(3, np.zeros(1, np.int32), np.array([0, 1]), np.zeros(1, np.int32), np.zeros(1, np.int8))
    with pytest.raises(UserError, match="9 and 3 nodes"):
        difference.edge_map(snapshot(set()), Snapshot.from_edges(3, np.array([0]), np.array([1])))
