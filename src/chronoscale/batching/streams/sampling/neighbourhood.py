"""Neighbourhood: what the sampler finds around the roots of a batch, as index arrays over the rows that have to be gathered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chronoscale.batching.streams.sampling import boundary
from chronoscale.batching.streams.sampling.boundary import Boundary, LocalPart
from chronoscale.cuda_ext.native.arguments import WeightedNeighbors
from chronoscale.cuda_ext.sampling.temporal import Policy, SampledNeighbors
from chronoscale.cuda_ext.sampling.unique_ids import unique_ids
from chronoscale.datasets.arrays import Bool, Float32, Int32, Int64, Numbers
from chronoscale.datasets.streams import draws
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import UserError


@dataclass(frozen=True, slots=True)
class Sampling:
    """Settings of how the neighbours of a batch of events are sampled: `fanouts` of each hop, the nearest first.

    windows, duration: of DySAT, whose roots have a neighbourhood in each of so many spans of that length before them (Sankar et al. 2020,
    on events as TGL §3.1 has it). unique: a node, an edge, and a neighbour with its event stand once in a batch, however often they are
    sampled (MemShare §4.3); otherwise once a slot, as in TGL. delivers: to how many neighbours of an event's ends its mail goes (APAN).
    sources: roots are only the sources of events (`IndexedStream.roots`). boundary: recent neighbours, of other parts only some; every hop
    samples so, each target at its own time.

    outgoing: a node has as neighbours only those to which it sent an event, as in data that TGL's and FAST's `gen_graph.py` make without
    `--add_reverse`. all_nodes: negatives of training are drawn from all nodes, as in their `NegLinkSampler` (`negatives.any_nodes`), not
    from the destinations of training. Raises UserError for a boundary with another policy or with windows.
    """

    fanouts: tuple[int, ...]
    policy: Policy = "recent"
    windows: int = 1
    duration: float = 0.0
    unique: bool = True
    delivers: int = 0
    sources: bool = False
    boundary: Boundary | None = None
    outgoing: bool = False
    all_nodes: bool = False

    def __post_init__(self) -> None:
        if self.boundary and (self.policy != "recent" or self.windows != 1 or self.duration):
            raise UserError(f"a boundary is for recent neighbours without windows, got {self.policy}, {self.windows} windows")

    def __str__(self) -> str:
        """Return the text in keys of counts on disk, some of which are older than the last three settings."""
        return repr(self).replace(", boundary=None", "").replace(", outgoing=False", "").replace(", all_nodes=False", "")


class Hop(NamedTuple):
    """Hop of a tree of sampled neighbours: K slots for each of T targets. What stands in a slot that is not `there` has no meaning, but is
    a row that can be read."""

    slot: Int64  # [T, K]: a target of the next level
    there: Bool  # [T, K]
    edge: Int64  # [T, K]: a row of the batch's edges
    elapsed: Float32  # [T, K]: time of the target less that of the event
    weight: Float32 | None = None  # [T, K]: what a slot stands for, 1 where it is not there; None: 1 each


class Tree(NamedTuple):
    """Tree of neighbours sampled for a batch: hop k leads from the targets of level k to those of level k + 1; the targets of level 0 are
    the roots."""

    levels: list[Int64]  # [T]: a row of the batch's nodes
    hops: list[Hop]


@dataclass(frozen=True, slots=True, eq=False)
class Neighbourhood:
    """Neighbourhood sampled for a batch of events, as index arrays over the rows that a model reads. nodes int32 [U] and edges int32 [E]
    (numbers of events): the rows to read. trees: one for each window, the oldest first, whose indices are into them. stale bool [U]: which
    rows of nodes are read only by neighbours that a boundary left out and a cache has (`Boundary.stale`); None: none."""

    nodes: Int32
    edges: Int32
    trees: list[Tree]
    stale: Bool | None = None


class _Level(NamedTuple):
    node: Int32
    before: Int32  # events from here on are not seen
    since: Int32 | None  # nor those before this
    time: Numbers


class _SampledLevels(NamedTuple):
    levels: list[_Level]
    events: list[Int32]  # of each hop [T, K]
    slots: list[Int64]
    there: list[Bool]
    weights: list[Float32 | None]
    cached: list[Bool | None]  # of each hop [T, K]: read from a cache


def sample(
    tcsr: TCSR,
    t: Numbers,
    roots: tuple[Int32, Int32, Numbers],
    sampling: Sampling,
    seed: int = 0,
    threads: int = 0,
    local_part: LocalPart | None = None,
) -> Neighbourhood:
    """Sample the neighbourhood of a batch of an event stream, for its roots: nodes int32 [R], the first event that each does not see, int32
    [R], and their times [R] (`IndexedStream.roots`). t [M]: times of the events. local_part: the part that samples, where `sampling` has a
    boundary.

    Raises UserError as `TCSR.sample` and `boundary.sample`, and for a boundary without a local part.
    """
    windows = _window_roots(t, roots, sampling)
    grown = [
        _sample_tree(tcsr, t, level, sampling, draws.derive_key(seed, number), threads, local_part) for number, level in enumerate(windows)
    ]
    ids, place = compact(np.concatenate([level.node for tree in grown for level in tree.levels]), sampling.unique)
    filled = [event[there] for tree in grown for event, there in zip(tree.events, tree.there, strict=True)]
    edges, edge_place = compact(np.concatenate([*filled, np.empty(0, np.int32)]), sampling.unique)
    trees = []
    node_at = 0
    edge_at = 0
    for tree in grown:
        levels, hops = [], []
        for level in tree.levels:
            levels.append(place[node_at : node_at + level.node.size])
            node_at += level.node.size
        for number, (event, slot, there, weight) in enumerate(zip(tree.events, tree.slots, tree.there, tree.weights, strict=True)):
            edge, count = np.zeros(there.shape, np.int64), int(np.count_nonzero(there))
            edge[there] = edge_place[edge_at : edge_at + count]
            edge_at += count
            elapsed = (tree.levels[number].time[:, None] - t[np.maximum(event, 0)]).astype(np.float32)
            hops.append(Hop(slot, there, edge, elapsed, weight))
        trees.append(Tree(levels, hops))
    stale = _stale_rows(ids.size, trees, grown) if sampling.boundary is not None and sampling.boundary.stale else None
    return Neighbourhood(ids, edges, trees, stale)


def _stale_rows(rows: int, trees: list[Tree], grown: list[_SampledLevels]) -> Bool:
    """Return which of a neighbourhood's rows of nodes no root is and no slot means but those that are read from a cache, bool [rows]."""
    stale = np.ones(rows, np.bool_)
    for tree, sampled in zip(trees, grown, strict=True):
        stale[tree.levels[0]] = False
        for hop, level, cached in zip(tree.hops, tree.levels[1:], sampled.cached, strict=True):
            stale[level[hop.slot[hop.there if cached is None else hop.there & ~cached]]] = False
    return stale


def compact(ids: Int32, unique: bool) -> tuple[Int32, Int64]:
    """Find which rows a batch reads, from sampled ids [n], which may repeat: return the rows int32 [U], the different ids in ascending
    order (not `unique`: all of them as they stand), and for each id the index of its row, int64 [n]."""
    if not unique:
        return ids, np.arange(ids.size)
    return unique_ids(ids)


def _window_roots(t: Numbers, roots: tuple[Int32, Int32, Numbers], sampling: Sampling) -> Sequence[_Level]:
    """Return the roots once a window, the oldest first; one without bounds where there are no windows."""
    node, before, time = roots
    if sampling.windows == 1 and not sampling.duration:
        return [_Level(node, before, None, time)]
    spans = [number * sampling.duration for number in range(sampling.windows + 1)]
    if t.dtype.kind == "i":  # whole times: exact, and t is not copied to be compared with others
        spans = [math.floor(span) for span in spans]
    ends = [np.searchsorted(t, time - span) for span in spans]
    ends[0] = before.astype(np.int64)  # also what is as late as the root, if it came in an earlier batch
    bounds = [np.minimum(end, before).astype(np.int32) for end in ends]
    return [_Level(node, bounds[number], bounds[number + 1], time) for number in reversed(range(sampling.windows))]


def _sample_tree(
    tcsr: TCSR, t: Numbers, roots: _Level, sampling: Sampling, seed: int, threads: int, local_part: LocalPart | None
) -> _SampledLevels:
    """Sample the levels and hops of one tree."""
    grown = _SampledLevels([roots], [], [], [], [], [])
    for hop, fanout in enumerate(sampling.fanouts):
        level = grown.levels[-1]
        sampled = _sample_level(tcsr, t, level, fanout, sampling, draws.derive_key(seed, hop), threads, local_part)
        there = np.arange(fanout) < sampled.counts[:, None]
        event, node = sampled.event[there], sampled.neighbor[there]
        since = None if level.since is None else np.repeat(level.since, sampled.counts)
        index = np.arange(event.size)
        if sampling.unique:
            index = _number_targets(node, event, since, hop + 1 == len(sampling.fanouts))
        slot = np.zeros(there.shape, np.int64)
        slot[there] = index
        node, event = _values_by_number(node, index), _values_by_number(event, index)
        since = None if since is None else _values_by_number(since, index)
        if not node.size:  # a row that no slot means
            node = level.node[:1]
            event = np.zeros(1, np.int32)
            since = None if since is None else np.zeros(1, np.int32)
        grown.levels.append(_Level(node, event, since, t[event]))
        grown.events.append(sampled.event)
        grown.slots.append(slot)
        grown.there.append(there)
        weighted = sampled if isinstance(sampled, WeightedNeighbors) else None
        grown.weights.append(weighted.weight if weighted else None)
        grown.cached.append(weighted.cached if weighted else None)
    return grown


def _sample_level(
    tcsr: TCSR, t: Numbers, level: _Level, fanout: int, sampling: Sampling, key: int, threads: int, local_part: LocalPart | None
) -> SampledNeighbors | WeightedNeighbors:
    if sampling.boundary is None:
        return tcsr.sample(level.node, level.before, fanout, sampling.policy, key, threads, level.since)
    if local_part is None:
        raise UserError("neighbours are sampled across a boundary, and nothing says which part is the own; expected a local part")
    return boundary.sample(tcsr, t, local_part, level.node, level.before, fanout, sampling.boundary, key, threads)


def _number_targets(node: Int32, event: Int32, since: Int32 | None, last: bool) -> Int64:
    """Number the different targets that slots [n] lead to: int64 [n], equal for slots of one target. Targets of the last level differ by
    node; those of others also by time, and by how far back they look.
    """
    if last:
        return unique_ids(node)[1]
    events, index = unique_ids(event)
    end = np.empty(events.size, np.int32)
    end[index] = node
    alike = unique_ids((2 * index + (end[index] != node)).astype(np.int32))[1]  # an event has two ends
    if since is None:
        return alike
    bounds, bound = unique_ids(since)
    return np.asarray(np.unique(alike * bounds.size + bound, return_inverse=True)[1], np.int64)


def _values_by_number(values: Int32, index: Int64) -> Int32:
    """Return the value of each number in index [n], of which those that are alike have one."""
    distinct_values = np.empty(int(index.max(initial=-1)) + 1, values.dtype)
    distinct_values[index] = values
    return distinct_values
