"""Chunks: METIS by recursive bisection, so that halves of the numbers are sides of a cut and one assignment serves any number of ranks."""

from __future__ import annotations

import numpy as np
import pytest

from chronoscale.batching.snapshots.chunks import Chunks, ExactChunking, cut_into_chunks
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.batching.snapshots.survival import EpochDraws
from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.errors import UserError

GROWTH = GrowthGraph.rmat(60, 200, 6, 0.1, 1).sequence().without_self_edges()
FEW = "training.chunks: 3 chunks cannot be shared by 4 ranks; ask for 4 or more"


def cliques(count: int, size: int) -> tuple[SnapshotSequence, Int64]:
    """Cliques of scattered nodes, the first and the second of every two joined by an edge a node, and these pairs by one edge in all; a
    half of the edges in each of two snapshots. And the nodes of each."""
    scattered = np.random.default_rng(0).permutation(count * size).reshape(count, size)
    pairs = [(own[i], own[j]) for own in scattered for i in range(size) for j in range(size) if i != j]
    pairs += [(scattered[k, i], scattered[k + 1, i]) for k in range(count - 1) for i in range(1 if k % 2 else size)]
    src, dst = np.array(pairs).T
    parts = [Snapshot.from_edges(count * size, src[half::2], dst[half::2]) for half in range(2)]
    return SnapshotSequence.from_snapshots(parts, "cliques"), scattered


@pytest.mark.slow
def test_halves_of_the_numbers_are_sides_of_a_cut() -> None:
    """Of four cliques and eight chunks: each clique has two chunks that follow each other, a half of the numbers two joined cliques."""
    sequence, members = cliques(4, 8)
    chunks = cut_into_chunks(sequence, 8)
    assert chunks.assignment.dtype == np.int32 and sorted(set(chunks.assignment.tolist())) == list(range(8))
    quarter = [set((chunks.assignment[own] // 2).tolist()) for own in members]
    assert sorted(map(sorted, quarter)) == [[0], [1], [2], [3]]
    half = [one.pop() // 2 for one in quarter]
    assert half in ([0, 0, 1, 1], [1, 1, 0, 0])


@pytest.mark.slow
def test_one_assignment_serves_any_number_of_ranks() -> None:
    chunks, epoch, decay = cut_into_chunks(GROWTH, 16), EpochDraws(1, 2), Decay(2, 4, 0.1)
    one, two, four = (chunks.layout(epoch, decay, ranks) for ranks in (1, 2, 4))
    assert (four.rank // 2 == two.rank).all() and (one.rank == 0).all()
    for other in (two, four):
        assert (other.depth == one.depth).all() and other.levels == one.levels
    sizes = np.bincount(chunks.assignment, minlength=16)
    assert sizes.min() > 0 and sizes.sum() == 60


def test_what_is_kept_lies_on_all_ranks_evenly() -> None:
    """Chunks of one size each: at every level no rank has more than one chunk more than another."""
    chunks = Chunks(np.arange(64, dtype=np.int32), 64)
    for number in range(20):
        for ranks in (2, 4, 8):
            rows = chunks.layout(EpochDraws(0, number), Decay(2, 6, 0.1), ranks).rows
            assert (rows.max(1) - rows.min(1) <= 1).all()


@pytest.mark.slow
def test_planners_count_what_is_laid_out() -> None:
    chunks, epoch, decay = cut_into_chunks(GROWTH, 8), EpochDraws(), Decay(1, 3, 0.2)
    found, layout = ExactChunking(GROWTH, chunks).count_blocks(epoch, decay, 2), chunks.layout(epoch, decay, 2)
    assert (found.rows == layout.rows).all() and ExactChunking.origin == "METIS"
    assert (found.edges[3] == layout.counts(GROWTH[3])[0]).all()


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(UserError) as error:
        cut_into_chunks(cliques(2, 3)[0], 7)
    assert str(error.value) == "training.chunks: 7, and dataset 'cliques' has 6 nodes"
    for wrong in ([0, 1, 3], [0, -1, 2]):
        with pytest.raises(UserError, match=r"^chunks: expected one of 0\.\.2 for every node$"):
            Chunks(np.array(wrong, np.int32), 3)
    chunks = Chunks(np.array([0, 1, 2], np.int32), 3)
    for call in (
        lambda: chunks.layout(EpochDraws(), Decay(), 4),
        lambda: ExactChunking(GROWTH, chunks).count_blocks(EpochDraws(), Decay(), 4),
    ):
        with pytest.raises(UserError) as error:
            call()
        assert str(error.value) == FEW
