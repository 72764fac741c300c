"""Rivals that remember pairs and how popular destinations are: EdgeBank, how often a pair was there, preferential attachment."""

from __future__ import annotations

import math

import numpy as np

from chronoscale.batching.rivals.links.counts import EventIndex, FadingCounts
from chronoscale.batching.rivals.links.rival import LinkRival
from chronoscale.datasets.arrays import Float64, Int64
from chronoscale.datasets.snapshots import edge_keys
from chronoscale.datasets.streams.events import EventStream

EVER = math.inf  # a half-life: no event counts less for its age


class LinkHistory:
    """Events of a stream as rivals count them: by pair, by destination, and by the nodes at either end.

    clock int64 [M]: by which events fade, ascending; unit: its unit, in words.
    """

    def __init__(self, events: EventStream, clock: Int64, unit: str) -> None:
        src, dst, event = events.src, events.dst.astype(np.int64), np.arange(len(events), dtype=np.int64)
        self.clock, self.unit, self.t = clock, unit, np.asarray(events.t)
        self.pairs = EventIndex(edge_keys.pack(src, events.dst))
        self.destinations = EventIndex(dst)
        self.ends = EventIndex(np.concatenate([src.astype(np.int64), dst]), np.concatenate([event, event]))


class SeenPair(LinkRival):
    """Rival that predicts the pairs that were there: EdgeBank (Poursafaei et al. 2022, section 5); with a `window`, in the stream's unit of
    time, those whose newest event is no older than that where the newest known event happens."""

    def __init__(self, history: LinkHistory, name: str = "EdgeBank", window: float | None = None, among: str = "all events so far") -> None:
        """among: the events in words."""
        self._history, self._window, self.name = history, window, name
        self.meaning = f"the pairs that were there among {among}"

    def _score(self, src: Int64, dst: Int64, known: Int64) -> Float64:
        t, since = self._history.t, None
        if self._window is not None:
            since = np.searchsorted(t, t[np.maximum(known - 1, 0)] - self._window)
        return (self._history.pairs.count(edge_keys.pack(src, dst), known, since) > 0).astype(np.float64)


class PairFrequency(LinkRival):
    """Rival that scores a pair by how often it was there."""

    name = "times the pair was there"
    meaning = "the number of events that the pair has had so far"

    def __init__(self, history: LinkHistory) -> None:
        self._pairs = history.pairs

    def _score(self, src: Int64, dst: Int64, known: Int64) -> Float64:
        return self._pairs.count(edge_keys.pack(src, dst), known).astype(np.float64)


class PreferentialAttachment(LinkRival):
    """Rival that scores a pair by the product of how many events its ends have had (Liben-Nowell and Kleinberg 2003, section 3)."""

    name = "preferential attachment"
    meaning = "the product of the numbers of events that both ends have had so far"

    def __init__(self, history: LinkHistory) -> None:
        self._ends = history.ends

    def _score(self, src: Int64, dst: Int64, known: Int64) -> Float64:
        return self._ends.count(src, known).astype(np.float64) * self._ends.count(dst, known)


class Popularity(LinkRival):
    """Rival that scores a pair by its destination's events of late, which fade (PopTrack: Daniluk and Dabrowski 2023, section 4)."""

    name = "popularity of late"
    _first = ""

    def __init__(self, history: LinkHistory, half_life: float, chosen: str) -> None:
        """half_life: on the history's clock. chosen: what chose it, a clause."""
        self._history, self._counts = history, FadingCounts(history.destinations, history.clock, half_life)
        fading = "" if math.isinf(half_life) else f", each of which counts half as much after {half_life:,g} {history.unit}"
        self.meaning = f"{self._first}the number of the destination's events so far{fading}; {chosen}"
        self._least = -2.0 - (history.clock[-1] - min(history.clock[0], 0) + 1) / half_life  # below any logarithm of a count

    def _score(self, src: Int64, dst: Int64, known: Int64) -> Float64:
        weight: Float64 = np.maximum(self._counts.weigh(dst, known), self._least)
        return weight


class SeenThenPopular(Popularity):
    """Rival that puts pairs that were there before above all others, and orders either by the destination's popularity of late."""

    name = "seen pair then popularity of late"
    _first = "pairs that were there before above all others, in either group by "

    def _score(self, src: Int64, dst: Int64, known: Int64) -> Float64:
        popularity = super()._score(src, dst, known)
        seen = self._history.pairs.count(edge_keys.pack(src, dst), known) > 0
        return np.where(seen, popularity, popularity + self._least - 64)  # no more than 2 ** 62 events


class LatestThenPopular(Popularity):
    """Rival that puts pairs that were there before above all others, the latest first, and orders those by the destination's popularity of
    late."""

    name = "latest pair then popularity of late"
    _first = "pairs that were there before above all others, the latest first, and others by "

    def _score(self, src: Int64, dst: Int64, known: Int64) -> Float64:
        newest = self._history.pairs.newest(edge_keys.pack(src, dst), known)
        popularity = super()._score(src, dst, known)
        return np.where(newest >= 0, newest, popularity - 64)  # no more than 2 ** 63 events
