"""Patterns: which links the bytes of a collective cross, as NCCL lays it out over its ranks; worked out once for each set of ranks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from chronoscale.simulator.network.links import LinkGraph
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

PatternKind = Literal["ring", "tree", "nvls", "gather", "exchange"]
REDUCTIONS = ("ring", "tree", "nvls")  # of one tensor that all ranks have
AT_ONCE = 1 << 22  # products of links and collectives that are held at a time


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """Which links a collective among some ranks crosses, with how many bytes: linear in what ranks bring (simulated network).

    link: those that are crossed, int64 [l]; bandwidth: theirs, bytes/s, float64 [l]; law: bytes on each link by each input, [l, inputs],
    sparse but for the one input of reductions.
    """

    kind: PatternKind
    link: Ints
    bandwidth: Floats
    law: csr_matrix | Floats
    node: Ints  # [ranks] which of the machines that take part each rank is on, numbered from 0

    def inputs(self, moved: Ints) -> Floats:
        """Return the vector that `law` applies to, float64 [inputs, c], for c collectives.

        moved: bytes that ranks bring, int64 [ranks, c]. Of a reduction: the reduced tensor, once. Of others: each rank's bytes, their
        sum over each machine, and over all.
        """
        if self.kind in REDUCTIONS:
            return np.asarray(moved.max(axis=0, keepdims=True), np.float64)
        machines = np.add.reduceat(moved, np.flatnonzero(np.diff(self.node, prepend=-1)), axis=0).astype(np.float64)
        return np.concatenate([moved.astype(np.float64), machines, machines.sum(axis=0, keepdims=True)])

    def bytes(self, moved: Ints) -> Floats:
        """Return the bytes that c collectives put on each link, float64 [l, c]. moved: bytes that ranks bring, int64 [ranks, c]."""
        return np.asarray(np.maximum(self.law @ self.inputs(moved), 0.0), np.float64)

    def total(self, moved: Ints, wire: Floats) -> Floats:
        """Return the bytes that c collectives together put on each link, float64 [l].

        moved: bytes that ranks bring, int64 [ranks, c]. wire: the share of what crosses links that is data, float64 [c].
        """
        return np.asarray(np.maximum(self.law @ (self.inputs(moved) @ (1 / wire)), 0.0), np.float64)

    def seconds(self, moved: Ints, shares: Floats | None = None) -> Floats:
        """Return the seconds that the slowest link needs for each of c collectives, float64 [c].

        moved: bytes that ranks bring, int64 [ranks, c]. shares: of each link's bandwidth that is reached, float64 [l]; None: all.
        """
        bandwidth = self.bandwidth if shares is None else self.bandwidth * shares
        if self.kind in REDUCTIONS:
            peak = (np.asarray(self.law)[:, 0] / bandwidth).max(initial=0.0)
            return np.asarray(peak * self.inputs(moved)[0])
        step = max(1, AT_ONCE // max(len(self.link), 1))
        parts = [self.bytes(moved[:, i : i + step]) / bandwidth[:, None] for i in range(0, moved.shape[1], step)]
        return np.concatenate([part.max(axis=0, initial=0.0) for part in parts])


@dataclass(frozen=True, slots=True, eq=False)
class Patterns:
    """Cache of which links of a simulated cluster collectives cross: worked out once for each kind and set of ranks."""

    graph: LinkGraph
    _known: dict[tuple[PatternKind, bytes], Pattern] = field(default_factory=dict)

    def of(self, kind: PatternKind, ranks: Ints) -> Pattern:
        """Return which links a collective crosses: a 'ring', 'tree' or 'nvls' all-reduce, all-'gather' or all-to-all ('exchange').

        ranks: those that take part, ascending, two at least.
        """
        key = kind, ranks.tobytes()
        if key not in self._known:
            self._known[key] = self._make(kind, ranks)
        return self._known[key]

    def _make(self, kind: PatternKind, ranks: Ints) -> Pattern:
        """Lay a collective out over `ranks` and collect which links its bytes cross."""
        _, node, counts = np.unique(ranks // self.graph.gpus, return_inverse=True, return_counts=True)
        members = np.split(ranks, np.cumsum(counts)[:-1])
        rings = int(counts.min()) if len(members) > 1 else 1
        if kind == "ring":
            edges = ring_edges(members, rings)
            each = np.full(len(edges), 2 * (len(ranks) - 1) / len(ranks) / rings)
            entries = self._entries(edges[:, 0], edges[:, 1], [(np.zeros(len(edges), np.int64), each)])
        elif kind == "tree":
            edges, each = tree_edges(members, rings)
            entries = self._entries(edges[:, 0], edges[:, 1], [(np.zeros(len(edges), np.int64), each)])
        elif kind == "nvls":
            entries = self._switched(members, rings)
        elif kind == "gather":  # all shares but the one that its end has brought pass an edge of a ring
            edges = ring_edges(members, rings)
            brought, each = np.searchsorted(ranks, edges[:, 1]), np.full(len(edges), 1 / rings)
            every = np.full(len(edges), len(ranks) + len(members))
            entries = self._entries(edges[:, 0], edges[:, 1], [(every, each), (brought, -each)])
        else:
            entries = self._exchange(ranks, node, counts)
        inputs = 1 if kind in REDUCTIONS else len(ranks) + len(members) + 1
        row, column, share = (np.concatenate(part) for part in zip(*entries, strict=True))
        link, place = np.unique(row, return_inverse=True)
        if kind in REDUCTIONS:
            return Pattern(kind, link, self.graph.bandwidth[link], np.bincount(place, share, len(link))[:, None], node)
        from scipy.sparse import coo_matrix  # noqa: PLC0415 (heavy, and little of what imports this file comes here)

        law = coo_matrix((share, (place, column)), (len(link), inputs)).tocsr()
        return Pattern(kind, link, self.graph.bandwidth[link], law, node)

    def _entries(self, source: Ints, target: Ints, terms: list[tuple[Ints, Floats]]) -> list[tuple[Ints, Ints, Floats]]:
        """Return links, inputs and shares of bytes that go from devices to devices. terms: (input, share) of each pair."""
        entries = []
        for pair, link in crossed_links(self.graph, source, target):
            entries += [(link, column[pair], share[pair]) for column, share in terms]
        return entries

    def _switched(self, members: list[Ints], heads: int) -> list[tuple[Ints, Ints, Floats]]:
        """Return links, inputs and shares of an all-reduce that NVSwitch adds up in each machine, and trees from machine to machine.

        Each of a machine's m ranks has a share of the tensor: all send it to the switch, which gives that rank the sum, and all the result.
        `heads` of them are nodes of trees, as many as the machine with fewest ranks has.
        """
        entries = []
        for ranks in members:
            port = self.graph.inside(ranks, np.roll(ranks, 1))[:, :2].ravel()
            entries.append((port, np.zeros(len(port), np.int64), np.full(len(port), 1 + 1 / len(ranks)) * (len(ranks) > 1)))
        for start in range(heads if len(members) > 1 else 0):
            head = np.array([ranks[start] for ranks in members])
            for parent in double_tree(len(head)):
                child = np.flatnonzero(parent >= 0)
                ends = head[child], head[parent[child]]
                up, down = np.concatenate(ends), np.concatenate(ends[::-1])
                entries += self._entries(up, down, [(np.zeros(len(up), np.int64), np.full(len(up), 0.5 / heads))])
        return entries

    def _exchange(self, ranks: Ints, node: Ints, counts: Ints) -> list[tuple[Ints, Ints, Floats]]:
        """Return links, inputs and shares of an all-to-all: every rank's bytes go to all others alike."""
        others, graph = len(ranks) - 1, self.graph
        at, first = np.arange(len(ranks)), np.cumsum(counts) - counts
        mates = counts[node]
        source = np.repeat(at, mates)  # every two of a machine
        target = np.arange(len(source)) - np.repeat(np.cumsum(mates) - mates, mates) + np.repeat(first[node], mates)
        apart = source != target
        source, target = source[apart], target[apart]
        entries = self._entries(ranks[source], ranks[target], [(source, np.full(len(source), 1 / others))])
        if len(counts) == 1:
            return entries
        every = np.full(len(ranks), len(ranks) + len(counts))
        for rank, link in _links_by_row(graph.leaving(ranks)):
            entries.append((link, rank, ((len(ranks) - mates) / others)[rank]))
        for rank, link in _links_by_row(graph.entering(ranks)):
            each = np.full(len(rank), 1 / others)
            entries += [(link, every[rank], each), (link, len(ranks) + node[rank], -each)]
        machine = ranks[first] // graph.gpus
        a, b = (grid.ravel() for grid in np.meshgrid(np.arange(len(counts)), np.arange(len(counts)), indexing="ij"))
        for pair, link in _links_by_row(graph.between(machine[a], machine[b])):
            entries.append((link, len(ranks) + a[pair], counts[b[pair]] / others))
        return entries


def crossed_links(graph: LinkGraph, source: Ints, target: Ints) -> Iterable[tuple[Ints, Ints]]:
    """Yield which links of a simulated cluster pairs of devices cross, in parts: numbers of pairs and of links, both int64 [any].

    source, target: ranks of the pairs, int64 [pairs]. A link that is crossed twice comes twice.
    """
    a, b = source // graph.gpus, target // graph.gpus
    near, far = np.flatnonzero(a == b), np.flatnonzero(a != b)
    ways = [graph.leaving(source[far]), graph.between(a[far], b[far]), graph.entering(target[far])]
    for pairs, way in ((near, graph.inside(source[near], target[near])), *((far, way) for way in ways)):
        for pair, link in _links_by_row(way):
            yield pairs[pair], link


def _links_by_row(ways: Ints) -> Iterable[tuple[Ints, Ints]]:
    """Yield rows and links of an array of paths, without the places that are -1."""
    row, hop = np.nonzero(ways >= 0)
    if len(row):
        yield row, ways[row, hop]


def ring_edges(members: list[Ints], rings: int) -> Ints:
    """Return who sends to whom in a simulated ring collective: edges of all rings, int64 [rings * ranks, 2].

    members: the ranks of each machine. Machine after machine, in ring r entered at its r-th rank.
    """
    edges = []
    for start in range(rings):
        order = _order_from(members, start)
        edges.append(np.stack([order, np.roll(order, -1)], axis=1))
    return np.concatenate(edges)


def _order_from(members: list[Ints], start: int) -> Ints:
    """Return all ranks, machine after machine, each entered at its rank of number `start` and gone round."""
    return np.concatenate([part for ranks in members for part in (ranks[start:], ranks[:start])])


def tree_edges(members: list[Ints], channels: int) -> tuple[Ints, NDArray[np.float64]]:
    """Return who sends to whom in a simulated tree all-reduce: edges of all channels' double binary trees, int64 [edges, 2].

    And the share of the tensor that crosses each, float64 [edges]. members: the ranks of each machine. Ranks of a machine are a chain, in
    channel c from its c-th rank on; the first ones of the chains are the nodes of two trees, half of a channel's share over each, up and
    down (Sanders, Speck, Traeff 2009; NCCL src/graph/trees.cc).
    """
    edges, shares = [], []
    first = np.cumsum([0, *(len(ranks) for ranks in members[:-1])])
    above = np.delete(np.arange(sum(map(len, members)) - 1), first[1:] - 1)  # in a chain, all but the last one
    for start in range(channels):
        order = _order_from(members, start)
        down, heads = np.stack([order[above], order[above + 1]], axis=1), order[first]
        for parent in double_tree(len(heads)):
            child = np.flatnonzero(parent >= 0)
            edges.append(np.stack([heads[parent[child]], heads[child]], axis=1))
            shares.append(np.full(len(child), 0.5 / channels))
        edges.append(down)
        shares.append(np.full(len(down), 1 / channels))
    downward = np.concatenate(edges)
    return np.concatenate([downward, downward[:, ::-1]]), np.tile(np.concatenate(shares), 2)


def double_tree(nodes: int) -> tuple[Ints, Ints]:
    """Return the parents of `nodes` machines in the two binary trees of NCCL's all-reduce, int64 [nodes] each, -1 of the root.

    An inner node of one tree is a leaf of the other.
    """
    place = np.arange(nodes)
    bit = place & -place  # the lowest that is set
    up = (place ^ bit) | (bit << 1)
    parent = np.where(place == 0, -1, np.where(up < nodes, up, place ^ bit))
    if nodes % 2 == 0:  # the other way round
        return parent, np.where(parent[::-1] < 0, -1, nodes - 1 - parent[::-1])
    shifted = np.roll(parent, 1)  # one further
    return parent, np.where(shifted < 0, -1, (shifted + 1) % nodes)
