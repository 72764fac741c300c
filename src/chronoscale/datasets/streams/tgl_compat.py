"""TGL's sampler (Zhou et al., VLDB 2022, section 4.1) as its code has it, to compare with what it published; the exact one is TCSR.sample.

What it does otherwise: roots are nodes and times, all in float32. A node's oldest event is never returned, except by a draw. The window of
`fanout` entries is cut where the node's pointer stands, which has walked to the latest root of the batch and never goes back; only then are
those dropped that are not before the root's own time, so that there are fewer. Earlier events of the root's own batch are seen. Uniform
draws are with replacement.

Followed: `sampler_core.cpp` of github.com/wyq-carol/TGL at 7f5be45, a copy of amazon-science/tgl as its issue 32 finds it: entries with
`k > max(s_search, …)`. There, at e1ea542, it says `k >= …`, by which the oldest event is back, and a node without events is given its
successor's first. From the second layer on TGL walks for roots that were never set: here, as in github.com/NoneBone/FAST at ea97ab1, those
of the newest window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chronoscale.cuda_ext.sampling.temporal import MAX_FANOUT, POLICIES, Policy, SampledNeighbors
from chronoscale.datasets.arrays import Float32, Float64, Int32, Int64, require
from chronoscale.datasets.randomness import uniform
from chronoscale.datasets.streams import draws
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import UserError, unknown

MARGIN = np.float32(1e-7)  # what TGL takes from a root's time, which changes no time of 4 and more


class TimedHop(NamedTuple):
    """Neighbours that TGL's sampler found in one hop, and the roots [R] that they were sampled for: nodes, -1 for none, and their times."""

    node: Int32
    time: Float32
    sampled: SampledNeighbors


class TGLSampler:
    """Sampler of the neighbours that TGL's code, not its definition, takes from a T-CSR whose event e has time t[e] (int64 or float64 [M],
    ascending): to compare with what TGL published.

    windows, duration, propagate: TGL's `history`, `duration` and `prop_time`: a root has a neighbourhood in each of the windows of that
    duration before it; neighbours are sampled for at their root's time, not at that of their event. Not TGL's: random numbers (`rand_r` of
    the thread; here of seed, root and slot); the second entry that a self-loop has in its T-CSR; the order of events of one time, which its
    sort leaves open; that each layer samples for the roots of the one before again.

    pointers int64 [windows + 1, N], an entry of each node's row: all that it remembers. They never go back: batches come in order, and
    `reset` before each epoch. Beside them memory is 4 bytes an event. Raises UserError for an unknown policy, sizes that do not fit, and
    times that fall or are not finite in float32.
    """

    def __init__(
        self,
        graph: TCSR,
        t: Int64 | Float64,
        policy: Policy = "recent",
        windows: int = 1,
        duration: float = 0.0,
        propagate: bool = False,
    ) -> None:
        if policy not in POLICIES:
            raise unknown("policy", policy, POLICIES)
        require(t, "t", "int64 float64", (None,))
        if graph.event.size and int(graph.event.max()) >= t.size:
            raise UserError(f"t has {t.size:,} times, the T-CSR an event {int(graph.event.max()):,}")
        if windows < 1 or not 0 <= duration < np.inf or (windows > 1 and duration <= MARGIN):
            raise UserError(f"windows={windows} of duration={duration}; expected 1 or more, and a duration above 0 where there are several")
        times = _times("t", t)
        if (times[1:] < times[:-1]).any():
            raise UserError(f"t[{int(np.argmax(times[1:] < times[:-1])) + 1}]: time falls")
        self._graph = graph
        self._recent = policy == "recent"
        self._propagate = propagate
        self._t = np.append(times, np.float32(np.inf))  # the last is that of event -1: no neighbour
        self._windows, self._duration = windows, np.float32(duration)
        self.reset()

    def reset(self) -> None:
        """Move the sampler's pointers back to the nodes' first events, before an epoch."""
        self.pointers = np.tile(self._graph.indptr[:-1], (self._windows + 1, 1))

    def sample(self, node: Int32, time: Float32 | Float64 | Int64, fanouts: Sequence[int], seed: int = 0) -> list[list[TimedHop]]:
        """Sample neighbours of node int32 [R] before time [R], as TGL's code does: for each window, the oldest first, a hop for each of the
        fanouts, the roots of the second hop being the slots of the first.

        Slots are in the order of events (TGL's: the latest first, or as drawn). Moves the pointers. Raises UserError for arrays that do not
        fit, ids outside [-1, N), times that are not finite in float32, a fanout outside [0, 1024], a seed below 0 or above 2^128 - 1.
        """
        nodes = self._graph.num_nodes
        require(node, "node", "int32", (None,))
        require(time, "time", "int64 float32 float64", (node.size,))
        if node.size and not (node.min() >= -1 and node.max() < nodes):
            raise UserError(f"sample: node ids must lie in [-1, {nodes})")
        if any(not 0 <= fanout <= MAX_FANOUT for fanout in fanouts):
            raise UserError(f"sample: fanouts={list(fanouts)}; expected 0 to {MAX_FANOUT}")
        roots = [(node, _times("time", time))] * self._windows
        windows: list[list[TimedHop]] = [[] for _ in roots]
        for hop, fanout in enumerate(fanouts):
            walks = hop == 0 or self._recent or (self._propagate and self._windows == 1)
            if walks:
                self._walk(self._windows, *roots[0], np.float32(0))
            for back, (node, at) in enumerate(roots):
                offset = np.float32(-back) * self._duration
                if walks and self._duration > MARGIN:
                    self._walk(self._windows - 1 - back, node, at, offset - self._duration)
                first, last = self._window(node, at, back, offset, walks)
                sampled = self._taken((node, at), first, last, at + offset - MARGIN, fanout, draws.derive_key(seed, hop, back))
                windows[back].append(TimedHop(node, at, sampled))
                there = sampled.event.ravel() >= 0
                times = np.repeat(at, fanout) if self._propagate else self._t[sampled.event.ravel()]
                roots[back] = sampled.neighbor.ravel(), np.where(there, times, np.float32(0))
        return windows[::-1]

    def _walk(self, window: int, node: Int32, time: Float32, offset: np.float32) -> None:
        """Move these nodes' pointers on to the last event that is not after their time, for all roots before any is sampled for."""
        there = node >= 0
        last = self._later(node[there], time[there] + offset - MARGIN) - 1
        np.maximum.at(self.pointers[window], node[there], last)

    def _window(self, node: Int32, time: Float32, back: int, offset: np.float32, walked: bool) -> tuple[Int64, Int64]:
        """Return the entries [R] that a root's window begins and ends with; TGL returns that which it begins with only by a draw."""
        first, last = np.zeros(node.size, np.int64), np.zeros(node.size, np.int64)
        there = node >= 0
        v, at = node[there], time[there] + offset
        if walked:
            first[there], last[there] = self.pointers[self._windows - 1 - back, v], self.pointers[self._windows - back, v]
        else:
            first[there] = begin = self._graph.indptr[v]
            if self._windows > 1:
                first[there] = begin = np.maximum(self._later(v, at - self._duration) - 1, begin)
            last[there] = np.maximum(self._later(v, at) - 1, begin)
        return first, last

    def _taken(self, root: tuple[Int32, Float32], first: Int64, last: Int64, limit: Float32, fanout: int, key: int) -> SampledNeighbors:
        """Return each root's latest entries of its window, or as many draws, of which those stay whose time is below `limit` [R]."""
        at = np.maximum(first, last - fanout)[:, None] + 1 + np.arange(fanout)
        full = np.flatnonzero(last - first >= fanout)
        if not self._recent and fanout:
            bits = root[1][full].view(np.uint32).astype(np.int64)
            number = (uniform(root[0][full].astype(np.int64) << 32 | bits, key) * 2.0**53).astype(np.int64)  # of the root, by hash
            fraction = uniform(number[:, None] * MAX_FANOUT + np.arange(fanout), key)
            at[full] = np.sort(first[full, None] + (fraction * (last - first + 1)[full, None]).astype(np.int64))
        neighbor, event = np.full(at.shape, -1, np.int32), np.full(at.shape, -1, np.int32)
        there = at <= last[:, None]
        event[there] = self._graph.event[at[there]]
        there = self._t[event] < limit[:, None]
        neighbor[there] = self._graph.neighbor[at[there]]
        event[~there] = -1
        return SampledNeighbors(neighbor, event, there.sum(1, dtype=np.int32))

    def _later(self, node: Int32, time: Float32) -> Int64:
        """Return the first entry of each row that is after its time [R], or the row's end."""
        low, high = self._graph.indptr[node], self._graph.indptr[node + 1]
        while (left := np.flatnonzero(low < high)).size:
            middle = (low[left] + high[left]) >> 1
            after = self._t[self._graph.event[middle]] > time[left]
            high[left[after]], low[left[~after]] = middle[after], middle[~after] + 1
        return low


def _times(name: str, t: Int64 | Float64 | Float32) -> Float32:
    with np.errstate(over="ignore"):
        times: Float32 = t.astype(np.float32) + np.float32(0)  # -0 is 0
    if not np.isfinite(times).all():
        raise UserError(f"{name}[{int(np.argmin(np.isfinite(times)))}]: time is not finite in float32")
    return times
