"""Distinct pairs of nodes with skewed degrees, as a function of their number, so that no table of them is needed."""

from __future__ import annotations

import math

import numpy as np

from chronoscale.datasets.arrays import Float64, Int64
from chronoscale.datasets.randomness import uniform

_RESOLUTION = 2.0**52  # of the partners' weights, which are whole numbers so that no rounding makes two pairs one
_CROWDED = 0.05


def most_pairs(owners: int, partners: int | None) -> int:
    """Return the number of different pairs (owner, partner) that `Pairs` can have in a generated event stream; partners None: owners meet
    each other."""
    return owners * (owners - 1) if partners is None else owners * (partners - 1) + partners


class Pairs:
    """Table of the `count` different pairs of nodes (owner, partner) that meet in a generated event stream, numbered 0 .. count - 1, for
    `events` events; memory is O(owners + partners).

    Owners and partners are ranks: the lower, the more pairs. Both follow Zipf's law, weight (rank + 1) ** -skew. An owner's quota is its
    share of `count`, at least one pair, at most all partners (less one where none is assured to it). Its partners are drawn without
    repetition, with probability proportional to weight, by systematic sampling (Madow, 1949), those whose probability would pass 1 first;
    so a pair needs its number only. Partners are at most as many as owners, and each has a pair that is assured to it; None: they are the
    owners themselves, and nobody is its own partner. `crowded`: whether of many pairs (one in twenty) the partner is certain, so that pairs
    are less skewed than requested. `count` lies in owners .. `most_pairs`; `key` as in `randomness`.
    """

    def __init__(
        self, owners: int, partners: int | None, count: int, events: int, owner_skew: float, partner_skew: float, key: int
    ) -> None:
        self._assured = 0 if partners is None else partners  # as many owners have a pair that is not drawn
        self._key = key
        candidates = (owners if partners is None else partners) - 1  # ranks to draw from: all but an owner's own
        most = candidates + (np.arange(owners) < self._assured)
        self._starts = np.concatenate([[0], np.cumsum(np.ones(owners, np.int64)) + _spread(count - owners, most - 1, owner_skew)])
        weights = np.maximum(1, np.rint(_zipf(candidates, partner_skew) * _RESOLUTION)).astype(np.int64)
        self._ends = np.concatenate([[0], np.cumsum(weights)])
        remaining = np.maximum(_zipf(owners, owner_skew) * events - np.diff(self._starts), 0)  # what new pairs do not give an owner already
        self._repeats = np.cumsum(remaining if remaining.any() else remaining + 1)
        self._repeats /= self._repeats[-1]
        beyond = np.arange(candidates) + (self._ends[-1] - self._ends[:-1]) // weights  # so many partners make rank h certain
        self._certain = np.searchsorted(beyond, np.maximum(np.diff(self._starts) - (np.arange(owners) < self._assured), 1))  # of an owner
        self.crowded = bool(self._certain.sum() > _CROWDED * count)

    def __call__(self, number: Int64) -> tuple[Int64, Int64]:
        """Return owner and partner, int64 [n] each, of pairs `number` int64 [n]."""
        owner = np.searchsorted(self._starts, number, side="right") - 1
        assured = owner < self._assured
        own = np.where(assured, self._assured - 1 - owner, -1) if self._assured else owner
        turn = number - self._starts[owner] - assured
        quota = self._starts[owner + 1] - self._starts[owner] - assured
        partner = self._drawn(owner, np.maximum(turn, 0), np.maximum(quota, 1))
        partner += (own >= 0) & (partner >= own)  # the owner's own rank is passed over
        return owner, np.where(turn < 0, own, partner)

    def repeated(self, first: Float64, second: Float64) -> Int64:
        """Draw the number of the pair that an event repeats, int64 [n], by two random numbers in [0, 1) an event, float64 [n] each.

        Owners and, of an owner's partners, those that are certain come by their weights; the others, which were drawn by theirs, alike. So
        events have the skew that pairs cannot have where an owner has run out of partners.
        """
        owner = np.minimum(np.searchsorted(self._repeats, first, side="right"), len(self._repeats) - 1)
        assured = (owner < self._assured).astype(np.int64)
        begin, quota = self._starts[owner], self._starts[owner + 1] - self._starts[owner]
        candidates = np.maximum(quota - assured, 1)
        share = (second * quota - assured) / candidates  # below 0 the pair that is assured
        at = np.maximum(share, 0) * self._ends[-1]
        certain = self._certain[owner]
        beyond = (at - self._ends[certain]) / (self._ends[-1] - self._ends[certain]) * (candidates - certain)
        rank = np.searchsorted(self._ends, at, side="right") - 1
        turn = np.where(rank < certain, rank, np.minimum(certain + beyond.astype(np.int64), candidates - 1))
        return begin + np.where(share < 0, 0, turn + assured)

    def _drawn(self, owner: Int64, turn: Int64, quota: Int64) -> Int64:
        """Return the rank that is drawn at `turn` of `quota`: the first ranks are certain; the remaining ones at equal steps, none shorter
        than a weight.
        """
        certain = self._certain[owner]
        begin, steps = self._ends[certain], quota - certain
        step, left = np.divmod(self._ends[-1] - begin, steps)
        later = np.maximum(turn - certain, 0)
        at = begin + later * step + later * left // steps + (uniform(owner, self._key) * step).astype(np.int64)
        return np.where(turn < certain, turn, np.searchsorted(self._ends, at, side="right") - 1)


def _zipf(ranks: int, skew: float) -> Float64:
    weights: Float64 = np.arange(1, ranks + 1, dtype=np.float64) ** -skew
    weights /= weights.sum()
    return weights


def _spread(total: int, most: Int64, skew: float) -> Int64:
    """Return running sums int64 [n] of shares of `total`, each at most `most` int64 [n]: Zipf's less the one that everybody has already."""
    weights = _zipf(len(most), skew)

    def shares(log_scale: float) -> Float64:
        clipped: Float64 = np.clip(weights * math.exp(log_scale) - 1, 0, most)
        return clipped

    largest = math.log((int(most.max()) + 2) / weights[-1])  # where everybody has the most
    from scipy.optimize import brentq  # noqa: PLC0415 (heavy, and little of what imports this file comes here)

    scale = brentq(lambda log_scale: float(shares(log_scale).sum()) - total, 0.0, largest, xtol=1e-13)
    sums = np.floor(np.cumsum(shares(scale)) + 0.5).astype(np.int64)
    sums[-1] = total  # the scale is found up to rounding
    return sums
