"""Generator of streams of events with given counts, skew, repetition and burstiness, drawn in blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from chronoscale.datasets.arrays import Bool, Float32, Float64, Int64, require_num_nodes
from chronoscale.datasets.generate.mixing import mix, require_mixing
from chronoscale.datasets.generate.pairs import Pairs, most_pairs
from chronoscale.datasets.randomness import permute, uniform
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

_TRIES = 8  # to find a pair to repeat among those that have come
_SHAPES = (0.1, 100.0)  # of Weibull's law: burstiness 0.995 to -0.97


@dataclass(frozen=True, slots=True)
class RandomStream:
    """Generator of an event stream, a dataset of `events` events over `nodes` nodes; the same for the same seed, whatever `block` (events
    in memory at once).

    items: the last nodes, to which all events of the others go; 0: one id space, without self-loops, where who sends most receives most.
    pairs: distinct (src, dst), exactly; every node is in one. A new one comes at a random place of each stretch of events / pairs events;
    all other events repeat one that was there. source_skew, destination_skew: Zipf exponents of a node's events, and of its partners as far
    as they last. Where they do not (`Pairs.crowded`), an event tries 8 pairs by these weights, then takes any that was there: skew falls
    short while few pairs have come. burstiness: (sd - mean) / (sd + mean) of the gaps between events (Goh and Barabasi, 2008, eq. 1), which
    are independent and follow Weibull's law: -1 even, 0 Poisson, 1 bursts. Time begins at 0 and is expected to end at `span`; `whole`
    rounds it down (int64, else float64), which adds to burstiness where gaps are about 1. features, node_features: widths, standard normal
    float32. labels: the share of events with label 1, the others have 0; with 0 there are none. mixing: the share of pairs that leave their
    community (`mixing.mix`: partners are exchanged, so that nobody has more or fewer); None: there are no communities. Memory is one block,
    of events or rows of node features, and O(nodes), with communities O(pairs). Raises UserError for parameters outside their range.
    """

    unit: ClassVar[str] = "events"  # what it generates, one by one or in blocks
    nodes: int
    events: int
    pairs: int
    items: int = 0
    source_skew: float = 0.8
    destination_skew: float = 0.8
    burstiness: float = 0.3
    span: float = 2_592_000.0
    whole: bool = True
    features: int = 0
    node_features: int = 0
    labels: float = 0.0
    seed: int = 0
    name: str = "events"
    block: int = 1 << 16
    mixing: float | None = None

    def __post_init__(self) -> None:
        require_num_nodes(self.nodes)
        if self.nodes < 2 or (self.items != 0 and not 2 <= self.items <= self.nodes - 2):
            raise UserError(f"events: expected 2 nodes or more, and no items or 2 and 2 others, got {self.nodes} nodes, {self.items} items")
        least, most = self._owners, most_pairs(self._owners, self._partners)
        if not least <= self.pairs <= most:
            raise UserError(f"events: pairs expected in {least}..{most}, so that every node is in one, got {self.pairs}")
        if self.events < self.pairs:
            raise UserError(f"events: expected at least one for each of {self.pairs} pairs, got {self.events}")
        for field in ("source_skew", "destination_skew"):
            if not 0 <= getattr(self, field) <= 3:
                raise UserError(f"events: {field} expected in [0, 3], got {getattr(self, field)}")
        if not -0.9 <= self.burstiness <= 0.9:
            raise UserError(f"events: burstiness expected in [-0.9, 0.9], got {self.burstiness}")
        if not 0 < self.span <= 2**52:
            raise UserError(f"events: span expected in (0, 2^52], got {self.span}")
        require_mixing(self.nodes, self.mixing)
        if min(self.features, self.node_features) < 0 or not 0 <= self.labels < 1 or self.block < 1:
            raise UserError("events: expected widths of at least 0, a share of labels in [0, 1), and blocks of at least 1 event")

    def __len__(self) -> int:
        return self.events

    @property
    def _sources_own(self) -> bool:
        """Whether sources are the owners of pairs: the more numerous end is, as `Pairs` assures the other one a pair for each owner."""
        return 2 * self.items <= self.nodes

    @property
    def _owners(self) -> int:
        return max(self.items, self.nodes - self.items)

    @property
    def _partners(self) -> int | None:
        return self.nodes - self._owners or None

    def __iter__(self) -> Iterator[EventStream]:
        """Yield blocks of `block` events, the last one shorter, each over all nodes."""
        keys = [int(key) for key in np.random.SeedSequence([self.seed, 4]).generate_state(3 + 2 * _TRIES, np.uint64)]
        skews = (self.source_skew, self.destination_skew) if self._sources_own else (self.destination_skew, self.source_skew)
        table = Pairs(self._owners, self._partners, self.pairs, self.events, *skews, keys[0])
        meeting = self._meeting(table)
        waiting, marking, featuring = (np.random.default_rng([self.seed, 4, use]) for use in range(3))  # one value after another
        now = 0.0
        for begin in range(0, self.events, self.block):
            count = min(self.block, self.events - begin)
            src, dst = self._ids(*meeting(self._numbers(begin, count, table, keys[2:])), keys[1])
            time: Float64 = np.cumsum(np.concatenate([[now], self._gaps(waiting, count)]))
            now = time[-1]
            features = featuring.standard_normal((count, self.features), np.float32) if self.features else None
            labels = (marking.random(count) < self.labels).astype(np.int64) if self.labels else None
            t = time[:-1].astype(np.int64) if self.whole else time[:-1]
            yield EventStream(self.nodes, src.astype(np.int32), dst.astype(np.int32), t, features, labels, name=self.name)

    def _meeting(self, table: Pairs) -> Callable[[Int64], tuple[Int64, Int64]]:
        """Return what gives (owner, partner), int64 [n] each, of pairs by their numbers, int64 [n]."""
        if self.mixing is None:
            return table
        owner, partner = table(np.arange(self.pairs))
        first = 0 if self._partners is None else self._owners  # in one space of ids, in which communities are
        mixed = mix(self.nodes, owner, partner + first, self.mixing, self.seed) - first
        return lambda number: (owner[number], mixed[number])

    def _numbers(self, begin: int, count: int, table: Pairs, keys: list[int]) -> Int64:
        """Draw the number of the pair of each event, int64 [count]."""
        new, introduced = self._introduced(begin, count, keys[0])
        event = np.arange(begin, begin + count)
        order = np.where(new, introduced - 1, (uniform(event, keys[1]) * introduced).astype(np.int64))
        number = permute(order, self.pairs, keys[0])  # pairs come in random order
        repeats = np.flatnonzero(~new & table.crowded)
        for first, second in zip(keys[1::2], keys[2::2], strict=True):
            repeated = table.repeated(uniform(event[repeats], first), uniform(event[repeats], second))
            there = permute(repeated, self.pairs, keys[0], back=True) < introduced[repeats]
            number[repeats[there]] = repeated[there]
            repeats = repeats[~there]
        return number

    def _introduced(self, begin: int, count: int, key: int) -> tuple[Bool, Int64]:
        """Return (whether an event brings a new pair, how many have come with it), bool and int64 [count]."""
        first, last = (((at + 1) * self.pairs - 1) // self.events for at in (begin, begin + count - 1))  # pairs in whose stretch they lie
        pair = np.arange(first, last + 1)
        stretch = pair * self.events // self.pairs
        place = stretch + (uniform(pair, key) * ((pair + 1) * self.events // self.pairs - stretch)).astype(np.int64)
        place[pair == 0] = 0  # there is nothing to repeat before
        new = np.zeros(count, np.bool_)
        new[place[(place >= begin) & (place < begin + count)] - begin] = True
        return new, first + int(place[0] < begin) + np.cumsum(new)

    def _ids(self, owner: Int64, partner: Int64, key: int) -> tuple[Int64, Int64]:
        """Return the ids (src, dst), int64 [n] each, of owners and partners by rank: in random order, items after the others."""
        if self._partners is None:
            return permute(owner, self.nodes, key), permute(partner, self.nodes, key)
        owner, partner = permute(owner, self._owners, key), permute(partner, self._partners, key)
        return (owner, partner + self._owners) if self._sources_own else (partner, owner + self._partners)

    def _gaps(self, rng: np.random.Generator, count: int) -> Float64:
        shape = weibull_shape(self.burstiness)
        mean = self.span / max(self.events - 1, 1)
        return rng.weibull(shape, count) * (mean / math.gamma(1 + 1 / shape))

    def node_blocks(self) -> Iterator[Float32]:
        """Generate the features of the nodes block by block, float32 [at most `block`, node_features] each; none where that width is 0."""
        rng = np.random.default_rng([self.seed, 4, 3])
        for begin in range(0, self.nodes if self.node_features else 0, self.block):
            yield rng.standard_normal((min(self.block, self.nodes - begin), self.node_features), np.float32)

    def stream(self) -> EventStream:
        """Generate the whole event stream in memory."""
        rows = list(self.node_blocks())
        return EventStream.from_blocks(list(self), np.concatenate(rows) if rows else None)


def weibull_shape(burstiness: float) -> float:
    """Compute the shape parameter of the Weibull law whose gaps have this burstiness (Goh and Barabasi, 2008, eq. 1), from -0.9 to 0.9, for
    generated event streams."""
    variation = (1 + burstiness) / (1 - burstiness)  # sd / mean

    def excess(shape: float) -> float:
        return math.lgamma(1 + 2 / shape) - 2 * math.lgamma(1 + 1 / shape) - math.log1p(variation**2)

    from scipy.optimize import brentq  # noqa: PLC0415 (heavy, and little of what imports this file comes here)

    return float(brentq(excess, *_SHAPES))
