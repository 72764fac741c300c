"""Layouts: an epoch's numbering and blocks, against sets of nodes and edges looked up one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.batching.snapshots.chunks import BlockCounts, Chunks
from chronoscale.batching.snapshots.layout import Layout
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.batching.snapshots.survival import EpochDraws, levels, rank_of
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.errors import UserError


@dataclass(frozen=True)
class Drawn:
    """A graph, its chunks, and an epoch's layout of them."""

    snapshot: Snapshot
    chunks: Chunks
    epoch: EpochDraws
    decay: Decay
    layout: Layout

    def kept(self, level: int) -> set[int]:
        """Nodes of the chunks that survive a level's cutoffs."""
        depth = self.epoch.depth(self.chunks.count, self.decay, self.layout.ranks)
        return {node for node, chunk in enumerate(self.chunks.assignment.tolist()) if depth[chunk] >= level}

    def own(self, level: int, rank: int) -> set[int]:
        owner = rank_of(self.chunks.count, self.layout.ranks)
        return {node for node in self.kept(level) if owner[self.chunks.assignment[node]] == rank}

    def edges(self, level: int) -> set[tuple[int, int]]:
        kept = self.kept(level)
        return {(u, v) for u, v in zip(self.snapshot.src.tolist(), self.snapshot.dst.tolist(), strict=True) if u in kept and v in kept}

    def read(self, level: int, rank: int) -> set[int]:
        """Remote nodes that a rank reads."""
        own = self.own(level, rank)
        return {u for u, v in self.edges(level) if v in own and u not in own}


@st.composite
def drawn(draw: st.DrawFn, ordered: bool = True) -> Drawn:
    nodes, chunks = draw(st.integers(1, 14)), draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 9999)))  # by Hypothesis' own choice graphs are too thin to have much of a halo
    edges = rng.integers(0, nodes, (2, draw(st.integers(0, 60))))
    snapshot, assignment = Snapshot.from_edges(nodes, *edges), rng.integers(0, chunks, nodes).astype(np.int32)
    ranks = draw(st.integers(1, min(chunks, 4)))
    decay = Decay(draw(st.integers(1, 2)), draw(st.integers(0, 5)), draw(st.sampled_from([0.02, 0.1, 0.4, 0.8, 1.0])))
    epoch = EpochDraws(draw(st.integers(0, 50)), draw(st.integers(0, 50)), draw(st.booleans()))
    made = Chunks(assignment, chunks)
    return Drawn(snapshot, made, epoch, decay, made.layout(epoch, decay, ranks, ordered))


cases = drawn()


@given(cases)
def test_counts_are_those_of_sets(case: Drawn) -> None:
    layout = case.layout
    assert layout.levels == len(levels(case.decay, case.chunks.count))
    edges, read, sent = layout.counts(case.snapshot)
    for level in range(layout.levels):
        for rank in range(layout.ranks):
            own = case.own(level, rank)
            assert layout.rows[level, rank] == len(own)
            assert edges[level, rank] == sum(v in own for _, v in case.edges(level))
            assert read[level, rank] == len(case.read(level, rank))
            assert sent[level, rank] == sum(len(case.read(level, other) & own) for other in range(layout.ranks))


@given(cases)
def test_what_is_kept_is_a_prefix(case: Drawn) -> None:
    layout = case.layout
    assert (layout.order[layout.place] == np.arange(case.snapshot.num_nodes)).all()
    for rank in range(layout.ranks):
        nodes, remote = layout.nodes(rank).tolist(), layout.block(case.snapshot.csr(), layout.halo(case.snapshot), rank).remote.tolist()
        for level in range(layout.levels):
            own, read = case.own(level, rank), case.read(level, rank)
            assert len(set(nodes)) == len(nodes) and set(nodes[: len(own)]) == own
            assert len(set(remote)) == len(remote) and set(remote[: len(read)]) == read


@given(cases, st.sampled_from(["exact", "as-published"]))
def test_a_shrunk_block_is_the_induced_subgraph(case: Drawn, variant: str) -> None:
    """Row by row, entry by entry, in the order and with the weights of the whole snapshot."""
    layout, whole = case.layout, case.snapshot.csr(variant)
    for rank in range(layout.ranks):
        block = layout.block(case.snapshot.csr(variant), layout.halo(case.snapshot), rank)
        assert block.indices.dtype == np.int32 and block.values.dtype == block.scale.dtype == np.float32
        for level in range(layout.levels):
            own, read, kept = case.own(level, rank), case.read(level, rank), case.kept(level)
            part = block.shrunk(len(own), len(read))
            rows = layout.nodes(rank)[: len(own)].tolist()
            ids = [*rows, *part.remote.tolist()]
            assert part.rows == len(own) and len(part.remote) == len(read) and part.indptr.dtype == np.int64
            assert part.indptr[-1] == len(part.indices) == len(part.values)
            assert part.indices.dtype == np.int32 and (len(part.indices) == 0 or 0 <= part.indices.min() <= part.indices.max() < len(ids))
            np.testing.assert_array_equal(part.scale, whole.scale[rows])
            for row, node in enumerate(rows):
                here, there = slice(*part.indptr[row : row + 2]), slice(*whole.indptr[node : node + 2])
                expected = [(u, w) for u, w in zip(whole.indices[there].tolist(), whole.values[there].tolist(), strict=True) if u in kept]
                found = [(ids[u], w) for u, w in zip(part.indices[here].tolist(), part.values[here].tolist(), strict=True)]
                assert found == expected


@given(cases, st.data())
def test_a_shrunk_block_shrinks_further(case: Drawn, data: st.DataObject) -> None:
    """Step by step is at once: a snapshot ages by one level after another."""
    layout = case.layout
    rank = data.draw(st.integers(0, layout.ranks - 1))
    read = layout.counts(case.snapshot)[1]
    step = whole = layout.block(case.snapshot.csr(), layout.halo(case.snapshot), rank)
    for level in range(layout.levels):
        size = int(layout.rows[level, rank]), int(read[level, rank])
        step, once = step.shrunk(*size), whole.shrunk(*size)
        for name in ("indptr", "indices", "values", "scale", "remote"):
            np.testing.assert_array_equal(getattr(step, name), getattr(once, name))


@given(cases)
def test_reads_are_told_the_same_to_reader_and_owner(case: Drawn) -> None:
    layout, halo = case.layout, case.layout.halo(case.snapshot)
    for level in range(layout.levels):
        left = halo.at(level)
        pairs = list(zip(left.reader.tolist(), left.owner.tolist(), layout.order[left.place].tolist(), strict=True))
        expected = {(reader, node) for reader in range(layout.ranks) for node in case.read(level, reader)}
        assert len(pairs) == len(expected) and {(reader, node) for reader, _, node in pairs} == expected
        assert all(layout.rank[node] == owner for _, owner, node in pairs)
        assert [reader for reader, _, _ in pairs] == sorted(reader for reader, _, _ in pairs)


@given(drawn(ordered=False))
def test_without_an_order_nodes_stand_by_their_ids(case: Drawn) -> None:
    layout = case.layout
    for rank in range(layout.ranks):
        assert layout.nodes(rank).tolist() == sorted(case.own(0, rank))
        block = layout.block(case.snapshot.csr(), layout.halo(case.snapshot), rank)
        remote = block.remote.tolist()
        assert remote == sorted(case.read(0, rank), key=lambda node: (layout.rank[node], node))
        ids = np.array([*layout.nodes(rank), *remote], np.int64)
        whole = case.snapshot.csr()
        for row, node in enumerate(layout.nodes(rank).tolist()):
            assert ids[block.indices[block.indptr[row] : block.indptr[row + 1]]].tolist() == list(
                whole.indices[whole.indptr[node] : whole.indptr[node + 1]]
            )


@given(cases)
def test_the_number_of_ranks_changes_nothing_of_what_is_kept(case: Drawn) -> None:
    if case.epoch.each:
        return
    alone = case.chunks.layout(case.epoch, case.decay, 1)
    assert (alone.depth == case.layout.depth).all() and (alone.rows.sum(1) == case.layout.rows.sum(1)).all()


def test_blocks_count_every_snapshot() -> None:
    rng = np.random.default_rng(3)
    parts = [Snapshot.from_edges(20, rng.integers(0, 20, 50), rng.integers(0, 20, 50)) for _ in range(3)]
    layout = Chunks(rng.integers(0, 6, 20).astype(np.int32), 6).layout(EpochDraws(), Decay(1, 3, 0.2), 3)
    found = BlockCounts.count(SnapshotSequence.from_snapshots(parts), layout)
    assert found.edges.shape == found.halo.shape == found.sent.shape == (3, layout.levels, 3)
    for t, part in enumerate(parts):
        for column, expected in zip((found.edges, found.halo, found.sent), layout.counts(part), strict=True):
            assert (column[t] == expected).all()
    assert (found.rows == layout.rows).all() and found.edges[:, 0].sum(1).tolist() == [part.num_edges for part in parts]


@pytest.mark.parametrize("rank", [[0, 2], [0, -1]])
def test_a_node_without_a_rank(rank: list[int]) -> None:
    with pytest.raises(UserError, match=r"^a layout needs one rank of 0\.\.1 for every node$"):
        Layout(np.array(rank, np.int32), np.zeros(2, np.int64), 2, 1)
