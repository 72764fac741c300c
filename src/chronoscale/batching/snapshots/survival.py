"""Survival of chunks: the order in which an epoch of sliding windows gives them up, and where it splits the sequence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.batching.snapshots.retention import Retention
from chronoscale.datasets.arrays import Int64

ORDER, SPLIT = 1, 2  # what a seed is for


@dataclass(frozen=True, slots=True)
class EpochDraws:
    """Random choices of one epoch of sliding windows over snapshots (FlareDTDG §3.2): which chunks of the graph older snapshots drop first,
    and where the sequence is split. All follow from the seed and the epoch's `number`, the same on every rank.

    each: every rank draws an order of its own chunks (the published code), so that the retained chunks depend on the number of ranks.
    """

    seed: int = 0
    number: int = 0
    each: bool = False

    def depth(self, chunks: int, retention: Retention, ranks: int) -> Int64:
        """Draw how long each chunk is kept while snapshots age, int64 [chunks]: the index in `levels` of the fewest chunks that it is still
        among."""
        if not self.each:
            return _depth(self._order(chunks, 0), levels(retention, chunks))
        depths = np.empty(chunks, np.int64)
        owner = rank_of(chunks, ranks)
        for rank in range(ranks):
            own = np.flatnonzero(owner == rank)
            kept = _all_levels(retention, len(own), levels(retention, chunks), chunks)
            depths[own] = _depth(self._order(len(own), 1 + rank), kept)
        return depths

    def steps(self, snapshots: int, window: int, apart: bool = False) -> list[range]:
        """Draw the order in which an epoch's windows are trained on, by their newest snapshots, in segments: from a random split of the
        sequence on, then those before it (FlareDTDG §3.2).

        Windows after the split read back over it, so that every snapshot from the first whole window on is trained on once, and more
        snapshots never make fewer steps. apart: no window crosses the split; each segment begins with its first whole window (Algorithm 1),
        which leaves out window - 1 of them. One segment where there would be no window in another.
        """
        last = snapshots - window if apart else snapshots - 1
        if last < window:
            return [range(window - 1, snapshots)]
        split = int(np.random.default_rng((self.seed, SPLIT, self.number)).integers(window, last + 1))
        return [range(split + (window - 1) * apart, snapshots), range(window - 1, split)]

    def _order(self, chunks: int, stream: int) -> Int64:
        """Return position of each chunk, int64 [chunks]; the last are dropped first.

        Every chunk is as likely at every position, and the retained ones are spread evenly over any half, quarter, … of the chunks, and so
        over ranks: of powers of two a bit-reversed sequence, scrambled (Owen, 1995).
        """
        position = np.empty(chunks, np.int64)
        position[_spread(range(chunks), np.random.default_rng((self.seed, ORDER, self.number, stream)))] = np.arange(chunks)
        return position


def _spread(chunks: range, generator: np.random.Generator) -> Int64:
    """Order chunks so that any first ones are spread evenly: that of either half, and from which half the next one is drawn systematically
    (Madow, 1949), so that any first ones of the order have their share of both but for less than one."""
    size, half = len(chunks), len(chunks) // 2
    order = np.array(chunks, np.int64)
    if size > 1:
        low = np.diff((np.arange(size + 1) * half + generator.integers(size)) // size) > 0
        order[low], order[~low] = _spread(chunks[:half], generator), _spread(chunks[half:], generator)
    return order


def levels(retention: Retention, chunks: int) -> Int64:
    """Return the different numbers of chunks that snapshots in a window keep as they age, int64 [levels], falling; the first is all
    `chunks`."""
    return np.unique(retention.kept_chunks(chunks))[::-1].copy()


def level_of(retention: Retention, chunks: int) -> Int64:
    """Return, for each age of a snapshot in a window, the index in `levels` of how many of `chunks` chunks it keeps, int64 [window]; 0:
    all."""
    return np.searchsorted(-levels(retention, chunks), -retention.kept_chunks(chunks))


def rank_of(chunks: int, ranks: int) -> Int64:
    """Return the rank that has each of `chunks` chunks of a graph, int64 [chunks]: consecutive ones, as evenly as may be."""
    return np.arange(chunks) * ranks // chunks


def _depth(position: Int64, kept: Int64) -> Int64:
    return np.asarray((position[:, None] < kept[None, 1:]).sum(1), np.int64)


def _all_levels(retention: Retention, own: int, kept: Int64, chunks: int) -> Int64:
    """Count the chunks of a rank's `own` that each level of all chunks retains, int64 [levels]."""
    own_kept, level = retention.kept_chunks(own), level_of(retention, chunks)
    return np.array([own_kept[np.argmax(level == number)] for number in range(len(kept))], np.int64)
