"""Generator of streams between nodes that arrive, are active for a while and come back; how much sampled neighbourhoods repeat can be
set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from chronoscale.datasets.arrays import Bool, Float32, Float64, Int64, require_num_nodes
from chronoscale.datasets.randomness import permute, uniform
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

# Their multiples fill [0, 1) evenly (Knuth, 1998, section 6.4); one for each side, so that two that met do not come back together.
_TURNS = (0.6180339887498949, 0.41421356237309503)
_KEYS = 11


@dataclass(frozen=True, slots=True)
class SessionStream:
    """Generator of an event stream, a dataset of `events` events over `nodes` nodes, whose sampled neighbourhoods repeat as much as is set;
    the same for the same seed, whatever `block` (events in memory at once).

    Nodes arrive: `founders` are there before the first event, the others come one by one, as many in each `wave` of so many events. A
    newcomer's first events come at once: until the next one arrives, the first event and a share `fresh` of all others have it at one end.
    All other ends are nodes that came earlier, met in sessions of `stay` events, which begin with a wave: at a time `active` guests and
    `hosts` have one, and events are shared among either by Zipf's law with exponent `skew`. Newcomers meet hosts; other events are of a
    guest and a host, or, a share `peers` of them, of two guests. Who has a session takes turns, evenly among the last `lasting` nodes that
    have come, so that a node comes back when others have had theirs; a share `casual` of the ends is any of these nodes, without a session.
    items: the last nodes, to which all events of the others go; hosts, active and lasting are shared between the sides by their size. 0:
    one id space, without self-loops, where sources are destinations as often. What follows, by batches: fresh and the pace of arrivals say
    how many roots have no neighbours yet (unbalance); hosts, active and skew how many different nodes a batch has (repeat); stay, lasting
    and casual how many of them the next one has, too (match). Gaps of time are exponential; time begins at 0 and is expected to end at
    `span`; int64. features, node_features: widths, standard normal float32. Every node but founders has an event. Memory is one block and
    O(hosts + active). Raises UserError for parameters outside their range.
    """

    unit: ClassVar[str] = "events"  # what it generates, one by one or in blocks
    nodes: int
    events: int
    founders: int
    fresh: float
    hosts: int
    active: int
    stay: int
    lasting: int
    skew: float = 0.0
    peers: float = 1.0
    casual: float = 0.0
    wave: int = 1
    items: int = 0
    span: float = 2_592_000.0
    features: int = 0
    node_features: int = 0
    seed: int = 0
    name: str = "sessions"
    block: int = 1 << 16

    def __post_init__(self) -> None:
        require_num_nodes(self.nodes)
        if self.items and not 2 <= self.items <= self.nodes - 2:
            raise UserError(f"sessions: expected no items or 2 and 2 others, got {self.items} of {self.nodes} nodes")
        if min(self.hosts, self.active, self.stay, self.lasting, self.wave, self.block) < 1:
            raise UserError("sessions: hosts, active, stay, lasting, wave and block expected to be at least 1")
        coming = self.nodes - self.founders
        if not 3 <= self.founders < self.nodes or coming > self.events // self.wave * self.wave:
            most = f"{self.nodes - 1}, and an event of a whole wave of {self.wave} for each other node"
            raise UserError(f"sessions: founders expected in 3..{most}, got {self.founders} and {self.events} events")
        if self.items and min(self._around(np.zeros(1, np.int64), side)[0] for side in range(2)) < 1:
            raise UserError(f"sessions: expected founders of both sides, got {self.founders} for {self.items} items of {self.nodes} nodes")
        if not (all(0 <= share <= 1 for share in (self.fresh, self.peers, self.casual)) and 0 <= self.skew <= 3):
            got = f"{self.fresh}, {self.peers}, {self.casual}, {self.skew}"
            raise UserError(f"sessions: fresh, peers and casual expected in [0, 1], skew in [0, 3], got {got}")
        if not 0 < self.span <= 2**52 or min(self.features, self.node_features) < 0:
            raise UserError(f"sessions: expected a span in (0, 2^52] and widths of at least 0, got {self.span}, {self.features}, ...")

    def __len__(self) -> int:
        return self.events

    def __iter__(self) -> Iterator[EventStream]:
        """Yield blocks of `block` events, the last one shorter, each over all nodes."""
        keys = [int(key) for key in np.random.SeedSequence([self.seed, 5]).generate_state(_KEYS, np.uint64)]
        waiting, featuring = (np.random.default_rng([self.seed, 5, use]) for use in range(2))  # one value after another
        now = 0.0
        for begin in range(0, self.events, self.block):
            at = np.arange(begin, min(begin + self.block, self.events))
            src, dst = self._ends(at, keys)
            gaps = waiting.exponential(self.span / max(self.events - 1, 1), at.size)
            time: Float64 = np.cumsum(np.concatenate([[now], gaps]))
            now = time[-1]
            features = featuring.standard_normal((at.size, self.features), np.float32) if self.features else None
            yield EventStream(self.nodes, src.astype(np.int32), dst.astype(np.int32), time[:-1].astype(np.int64), features, name=self.name)

    def _ends(self, at: Int64, keys: list[int]) -> tuple[Int64, Int64]:
        """Return the ids (src, dst) of events `at`, int64 [n] each."""
        newcomer = self._newest(at)
        debut = (at == 0) | (newcomer != self._newest(at - 1)) | (uniform(at, keys[0]) < self.fresh)
        visit, turned = ~debut & (uniform(at, keys[1]) >= self.peers), uniform(at, keys[2]) < 0.5
        if self.items:
            item = newcomer * self.items // self.nodes  # of the nodes before it so many are items
            is_item = (newcomer + 1) * self.items // self.nodes > item
            first, second = (self._met(at, debut | (visit & (turned == bool(side))), side, side, keys) for side in range(2))
            src = np.where(debut & ~is_item, newcomer - item, first)
            dst = np.where(debut & is_item, item, second)
            others = self.nodes - self.items
            return permute(src, others, keys[3]), permute(dst, self.items, keys[3]) + others
        first = np.where(debut, newcomer, self._met(at, np.zeros(at.size, np.bool_), 0, 0, keys))
        second = self._met(at, debut | visit, 0, 1, keys)
        second = np.where(first == second, (second + newcomer - 1) % newcomer, second)  # the one that came before, in place of a loop
        ends = permute(first, self.nodes, keys[3]), permute(second, self.nodes, keys[3])
        return np.where(turned, ends[1], ends[0]), np.where(turned, ends[0], ends[1])

    def _met(self, at: Int64, hosting: Bool, side: int, end: int, keys: list[int]) -> Int64:
        """Draw the node that is at one end of events `at`, int64 [n], of those of a side that came earlier: by the order of arrival."""
        share = 1.0 if not self.items else (self.items if side else self.nodes - self.items) / self.nodes
        lasting, hosts, active = (max(round(count * share), 1) for count in (self.lasting, self.hosts, self.active))
        uniform_rank, rank = uniform(at, keys[4 + end]), np.empty(at.size, np.int64)
        for here, count, first in ((hosting, hosts, 0), (~hosting, active, hosts)):
            weights = np.cumsum(np.arange(1, count + 1) ** -float(self.skew))
            rank[here] = first + np.searchsorted(weights, uniform_rank[here] * weights[-1], side="right").clip(max=count - 1)
        sessions = hosts + active
        # Session k opens with the first wave from event k stay / sessions on, and has rank k mod sessions.
        opened = at // self.wave * self.wave * sessions // self.stay
        number = opened - (opened - rank) % sessions
        turn = (number * _TURNS[side] + uniform(np.array([side]), keys[8])) % 1.0
        casual = uniform(at, keys[6 + end]) < self.casual
        turn = np.where(casual, uniform(at, keys[9 + end]), turn)
        around = self._around(np.where(casual, at, np.maximum(number, 0) * self.stay // sessions), side)
        back: Int64 = (turn * np.minimum(around, lasting)).astype(np.int64)
        return around - 1 - back

    def _newest(self, at: Int64) -> Int64:
        """Return the last node that has come by events `at`, int64 [n], by the order of arrival; all others that have come are below it."""
        newcomers, waves = self.nodes - self.founders, self.events // self.wave
        wave, within = np.divmod(at, self.wave)
        before, after = (np.minimum((wave + more) * newcomers // waves, newcomers) for more in (0, 1))
        coming = after - before
        return np.asarray(self.founders + before + np.where(coming > 0, within * coming // self.wave, -1), np.int64)

    def _around(self, at: Int64, side: int) -> Int64:
        """Count the nodes of a side that came before the newest at events `at`, int64 [n]."""
        came = self._newest(at)
        items = came * self.items // self.nodes
        return items if side else came - items

    def shortened(self, events: int) -> SessionStream:
        """Return a generator of a shorter stream that behaves alike: as many arrivals of nodes an event, and the same sessions; fewer nodes
        therefore. Raises UserError for more events than this one has, or none."""
        if not 1 <= events <= self.events:
            raise UserError(f"sessions: expected 1..{self.events} events, got {events}")
        nodes = self.founders + max(round((self.nodes - self.founders) * events / self.events), 1)
        return replace(
            self, nodes=nodes, events=events, items=round(self.items * nodes / self.nodes), span=self.span * events / self.events
        )

    def node_blocks(self) -> Iterator[Float32]:
        """Generate the features of the nodes block by block, float32 [at most `block`, node_features] each; none where that width is 0."""
        rng = np.random.default_rng([self.seed, 5, 2])
        for begin in range(0, self.nodes if self.node_features else 0, self.block):
            yield rng.standard_normal((min(self.block, self.nodes - begin), self.node_features), np.float32)

    def stream(self) -> EventStream:
        """Generate the whole event stream in memory."""
        rows = list(self.node_blocks())
        return EventStream.from_blocks(list(self), np.concatenate(rows) if rows else None)
