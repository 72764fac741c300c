"""What is kept of a snapshot, built anew, is what shrinking leaves of it: edges, weights, features and states, bit for bit."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from chronoscale.batching.snapshots.chunks import Chunks
from chronoscale.batching.snapshots.layout import Layout
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.batching.snapshots.survival import EpochDraws
from chronoscale.cuda_ext.operators.shrink import shrink
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.real_exec.snapshots.material import Full, SnapshotMaterial
from chronoscale.real_exec.snapshots.windows.host_blocks import HostBlocks, SnapshotRows
from chronoscale.real_exec.snapshots.windows.remap import kept_ids, remap
from chronoscale.real_exec.snapshots.windows.states import PrefixStates, ScatteredStates, WeightStates

CPU = torch.device("cpu")


@st.composite
def stocks(draw: st.DrawFn) -> tuple[list[HostBlocks], list[HostBlocks], int]:
    """Every rank's blocks of one snapshot, in order of survival and in order of ids; and the number of levels."""
    nodes, edges, chunks = draw(st.integers(4, 20)), draw(st.integers(0, 60)), draw(st.integers(4, 8))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    snapshot = Snapshot.from_edges(nodes, rng.integers(0, nodes, edges), rng.integers(0, nodes, edges))
    parts, ranks = Chunks(rng.integers(0, chunks, nodes).astype(np.int32), chunks), draw(st.integers(1, 3))
    decay = Decay(1, draw(st.integers(0, 4)), draw(st.sampled_from([0.05, 0.3, 0.8, 1.0])))
    material, epoch = SnapshotMaterial(SnapshotSequence.from_snapshots([snapshot]), 3), EpochDraws(draw(st.integers(0, 9)))
    results: list[list[HostBlocks]] = []
    for ordered in (True, False):
        layout = parts.layout(epoch, decay, ranks, ordered)
        results.append([HostBlocks(material, rank, CPU) for rank in range(ranks)])
        for stock in results[-1]:
            stock.begin(layout, 0)
    return results[0], results[1], layout.levels


def described(
    rows: SnapshotRows, own: list[int], remote: list[int]
) -> tuple[list[tuple[int, list[tuple[int, float]], float]], dict[int, bytes]]:
    """Rows by node, in order: entries by node, in theirs, and the scale; and the features of every node that it has."""
    graph, ids = rows.full.graph, [*own, *remote]
    assert graph.num_rows == len(own) and graph.num_cols == len(ids) == len(rows.features)
    entries = list(zip((ids[u] for u in graph.indices.tolist()), graph.values.tolist(), strict=True))
    bounds = graph.indptr.tolist()
    table = [(node, entries[bounds[i] : bounds[i + 1]], rows.full.scale[i].item()) for i, node in enumerate(own)]
    return sorted(table), {node: rows.features[i].numpy().tobytes() for i, node in enumerate(ids)}


def remote(layout: Layout, stock: HostBlocks, rank: int) -> list[int]:
    snapshot = stock._material.snapshots[0]
    return layout.block(snapshot.csr(), layout.halo(snapshot), rank).remote.tolist()


@settings(max_examples=150, deadline=None)
@given(stocks())
def test_built_anew_is_shrunk(case: tuple[list[HostBlocks], list[HostBlocks], int]) -> None:
    by_survival, by_id, levels = case
    for rank, (stock, other) in enumerate(zip(by_survival, by_id, strict=True)):
        whole, scattered = stock.rows(0, 0), other.rows(0, 0)
        for level in range(levels):
            rows, edges, halo = stock.size(0, level)
            assert other.size(0, level) == (rows, edges, halo)
            graph = shrink(whole.full.graph, rows, halo, edges + rows)
            total = whole.full.graph.num_rows
            features = torch.cat([whole.features[:rows], whole.features[total : total + halo]])
            own = stock.layout.nodes(rank)[:rows].tolist()
            there = remote(stock.layout, stock, rank)[:halo]
            result = described(SnapshotRows(Full(graph, whole.full.scale[:rows]), features), own, there)
            assert described(stock.rows(0, level), own, there) == result
            remaining, read = other.kept_masks(0, level)
            anew = remap(scattered, remaining, read, rows, halo, edges + rows)
            there = [node for node, left in zip(remote(other.layout, other, rank), read.tolist(), strict=True) if left]
            assert described(anew, other.layout.nodes(rank)[remaining.numpy()].tolist(), there) == result


@settings(deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(1, 5), st.booleans(), st.integers(0, 99))
def test_states_are_inherited_alike(sizes: list[int], windows: int, forgets: bool, seed: int) -> None:
    """By place, and by looking every node up: of windows with any sizes, falling with age or not, and against a dictionary."""
    rng, nodes, width = np.random.default_rng(seed), 6, 2
    order = torch.from_numpy(rng.permutation(nodes))  # deepest first; ids are looked up in ascending order
    ids = [order[:size].sort().values for size in sizes]
    by_place, by_id = PrefixStates(sizes), ScatteredStates(ids, nodes)
    memory: dict[tuple[int, int], Tensor] = {}
    for window in range(windows):
        if forgets and window == 2:
            by_place.forget()
            by_id.forget()
            memory = {}
        left, last = {}, None
        for place, size in enumerate(sizes):
            own = order[:size]
            before = None if last is None else [last]
            states = by_place.initial(place, 0, before)
            sorted_before = None if last is None else [last[torch.argsort(order[: sizes[place - 1]])]]
            others = by_id.initial(place, 0, sorted_before)
            expected = torch.zeros(size, width)
            for row, node in enumerate(own.tolist()):
                if last is not None and row < sizes[place - 1]:
                    expected[row] = last[row]
                elif (place, node) in memory:
                    expected[row] = memory[place, node]
            for given_states, queries in ((states, expected), (others, expected[torch.argsort(own)])):
                assert torch.equal(given_states[0] if given_states is not None else torch.zeros(size, width), queries)
            last = torch.from_numpy(rng.standard_normal((size, width), np.float32))
            by_place.keep(place, 0, [last])
            by_id.keep(place, 0, [last[torch.argsort(own)]])
            left |= {(place, node): last[row].clone() for row, node in enumerate(own.tolist())}
        memory = left


def test_what_is_inherited_is_cut_from_the_gradient() -> None:
    for states in (PrefixStates([1, 2]), ScatteredStates([torch.tensor([0]), torch.tensor([0, 1])], 2), WeightStates()):
        after = torch.ones(1, 3, requires_grad=True) * 2
        states.keep(0, 0, [after])
        (result,) = states.initial(0, 0, None)
        assert not result.requires_grad and result.tolist() == [[2.0] * 3]
        states.forget()
        assert states.initial(0, 0, None) is None


def test_evolving_weights_go_on_from_the_oldest_snapshot() -> None:
    weights, first, second = WeightStates(), torch.ones(2, 2), torch.zeros(2, 2)
    weights.keep(0, 1, [first])
    weights.keep(1, 1, [second])
    assert weights.initial(0, 1, None)[0] is not second and torch.equal(weights.initial(0, 1, None)[0], first)
    assert weights.initial(1, 1, [second]) == [second] and weights.initial(0, 0, None) is None


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=12))
def test_ids_that_are_retained(mask: list[bool]) -> None:
    assert kept_ids(torch.tensor(mask, dtype=torch.bool), sum(mask)).tolist() == [i for i, each in enumerate(mask) if each]
