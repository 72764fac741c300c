"""Communities of a generated graph: ends of edges are exchanged until a wanted share of the edges leaves its community."""

from __future__ import annotations

import math

import numpy as np

from chronoscale.datasets.arrays import Bool, Int32, Int64
from chronoscale.datasets.snapshots import edge_keys
from chronoscale.errors import UserError

SMALLEST = 20  # nodes of a community; they are at most a tenth of the graph
_LARGEST = 0.1
_SIZE_TAIL = 1.5  # exponent of the power law of sizes: in the middle of the 1 to 2 of Lancichinetti, Fortunato and Radicchi (2008)
_FILLED = 4  # one of so many pairs of a community at most is an edge
_ROUNDS = 1_000
_PATIENT, _STUCK = 200, 5e-3  # rounds after which edges that found no end of their kind take any, and how many of all may


def require_mixing(nodes: int, mixing: float | None) -> None:
    """Raise UserError unless `mixing` is None or a share in (0, 1] and the graph has room for two communities of `SMALLEST` nodes."""
    if mixing is None:
        return
    if not 0 < mixing <= 1:
        raise UserError(f"mixing: expected the share of edges that leave their community, in (0, 1], got {mixing:g}")
    if mixing < 1 and nodes < SMALLEST / _LARGEST:
        raise UserError(f"mixing: expected {SMALLEST / _LARGEST:g} nodes or more to make communities of, got {nodes}")


def draw_communities(nodes: int, seed: int) -> Int32:
    """Draw the community of every node, int32 [nodes]: sizes follow a power law from `SMALLEST` nodes to a tenth of the graph; nodes are
    placed at random."""
    draw = np.random.default_rng([seed, 6])
    largest = max(int(_LARGEST * nodes), SMALLEST)
    uniform, falls = draw.random(nodes // SMALLEST + 1), 1 - _SIZE_TAIL
    low, high = SMALLEST**falls, (largest + 1) ** falls
    sizes = ((low + uniform * (high - low)) ** (1 / falls)).astype(np.int64)
    of = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)[:nodes]
    if (of == of[-1]).sum() < SMALLEST:  # what the last one has got is too small: it joins the one before
        of[of == of[-1]] -= 1
    return draw.permutation(of)


def mix(nodes: int, src: Int64, dst: Int64, mixing: float, seed: int) -> Int64:
    """Give edges other ends, so that a share `mixing` of them leaves the community of their source: int64 [E], the new `dst`.

    src, dst int64 [E]: distinct edges without self-edges, and so are those that come out. Both degrees of every node stay: ends are
    exchanged, none is drawn (a configuration model with communities, as in Lancichinetti, Fortunato and Radicchi, 2008). Of a hub's edges
    only so many stay that it need not meet another twice. Where a community or a hub leaves no room, up to a hundredth of the edges stay
    or leave beyond `mixing`. mixing 1: nothing is exchanged, there are no communities. Communities are those of `draw_communities`. Raises
    UserError where so many edges cannot stay, by how many can.
    """
    require_mixing(nodes, mixing)
    if mixing == 1:
        return dst
    draw = np.random.default_rng([seed, 5])
    community = draw_communities(nodes, seed)
    inside_src, inside_dst, group = _stay(community, src, dst, mixing, draw)
    outside_src, outside_dst = (np.flatnonzero(~chosen) for chosen in (_among(inside_src, len(src)), _among(inside_dst, len(dst))))
    mixed = np.empty_like(dst)
    mixed[inside_src] = dst[inside_dst]
    mixed[outside_src] = dst[draw.permutation(outside_dst)]
    of = np.full(len(src), -1)  # the community within which an edge stays, -1: it leaves
    of[inside_src] = group
    return _Exchange(community, src, mixed, of, draw).settle()


def _among(rows: Int64, count: int) -> Bool:
    among = np.zeros(count, np.bool_)
    among[rows] = True
    return among


def _stay(community: Int32, src: Int64, dst: Int64, mixing: float, draw: np.random.Generator) -> tuple[Int64, Int64, Int64]:
    """Choose which edges' sources and which edges' ends stay within their communities: (rows of sources, rows of ends, their community),
    int64 [share of E] each, by community."""
    wanted = round((1 - mixing) * len(src))
    sizes = np.bincount(community)
    eligible = [_eligible(community, ends, draw) for ends in (src, dst)]
    rooms = [np.bincount(of, minlength=len(sizes)) for _, of in eligible]
    most = np.minimum(np.minimum(*rooms), sizes * (sizes - 1) // _FILLED)
    if most.sum() < wanted:
        least = math.ceil(1000 * (1 - most.sum() / len(src))) / 1000
        raise UserError(f"mixing: at these degrees {least:g} or more of the edges leave communities of such sizes, got {mixing:g}")
    runs = np.rint(np.cumsum(most) * (wanted / most.sum())).astype(np.int64)
    counts = np.diff(runs, prepend=0)
    chosen = [rows[_first(of, counts)] for rows, of in eligible]
    return chosen[0], chosen[1], np.repeat(np.arange(len(sizes)), counts)


def _eligible(community: Int32, ends: Int64, draw: np.random.Generator) -> tuple[Int64, Int64]:
    """Return (rows, community) of ends that may stay, by community and within one in random order.

    Of a node at most the root of all that stay in its community: more would make two hubs meet twice (the structural cut-off of Boguna,
    Pastor-Satorras and Vespignani, 2004).
    """
    shuffled = draw.permutation(len(ends))
    order = shuffled[np.argsort(ends[shuffled], kind="stable")]
    turn = np.arange(len(order)) - np.searchsorted(ends[order], ends[order])
    of = community[ends[order]].astype(np.int64)
    by = np.argsort(of * len(ends) + turn, kind="stable")
    place = (of * len(ends) + turn)[by]
    stay = np.searchsorted(place, place, side="right") - np.searchsorted(of[by], of[by])  # ends there whose turn is no later
    fits = (turn[by] + 1) ** 2 <= np.maximum(stay, 1)
    rows = draw.permutation(order[by][fits])
    of = community[ends[rows]].astype(np.int64)
    by = np.argsort(of, kind="stable")
    return rows[by], of[by]


def _first(groups: Int64, counts: Int64) -> Bool:
    """Return which rows are the first `counts` of their group; groups int64 [n] are in order."""
    return np.arange(len(groups)) - np.searchsorted(groups, groups) < counts[groups]


class _Exchange:
    """Exchanges of ends between edges of one kind (those that stay within a community, those that leave), each of which mends one edge that
    is a self-edge, repeated, or does not leave, and spoils none."""

    def __init__(self, community: Int32, src: Int64, dst: Int64, of: Int64, draw: np.random.Generator) -> None:
        self._community, self._src, self._dst, self._of, self._draw = community, src, dst, of, draw
        self._rows = np.argsort(of, kind="stable")
        self._starts = np.searchsorted(of[self._rows], np.arange(-1, of.max(initial=-1) + 2))

    def settle(self) -> Int64:
        """Return the ends of all edges when every one is sound, int64 [E]. Raises UserError where some never are."""
        src, dst, rows = self._src, self._dst, np.arange(len(self._src))
        made = edge_keys.pack(src, dst)
        fits = self._new(made, np.zeros(0, np.int64)) & self._allowed(src, dst, self._of)
        bad, keys, sound = rows[~fits], np.sort(made[fits]), fits
        for turn in range(_ROUNDS):
            if not bad.size:
                return dst
            free = turn >= _PATIENT and bad.size <= _STUCK * len(src)  # these few exchange with edges of any kind
            kind = self._of[bad] + 1
            low, high = (np.zeros(len(bad), np.int64), len(rows)) if free else (self._starts[kind], self._starts[kind + 1])
            other = self._rows[low + (self._draw.random(len(bad)) * (high - low)).astype(np.int64)]
            ends = dst[other], dst[bad]
            mine, theirs = edge_keys.pack(src[bad], ends[0]), edge_keys.pack(src[other], ends[1])
            new = self._new(np.concatenate([mine, theirs]), keys).reshape(2, -1).all(0)
            of = np.zeros_like(bad) if free else self._of[bad]
            new &= self._allowed(src[bad], ends[0], of) & self._allowed(src[other], ends[1], of)
            first = np.zeros(len(bad), np.bool_)
            first[np.unique(other, return_index=True)[1]] = True
            new &= first & sound[other]
            keys = np.delete(keys, np.searchsorted(keys, edge_keys.pack(src[other[new]], dst[other[new]])))
            dst[bad[new]], dst[other[new]] = ends[0][new], ends[1][new]
            keys = edge_keys.merge(keys, np.sort(np.concatenate([mine[new], theirs[new]])))
            sound[bad[new]] = True
            bad = bad[~new]
        raise UserError(f"mixing: {bad.size} of {len(src)} edges find no end: communities are too crowded; ask for a larger share")

    def _allowed(self, src: Int64, dst: Int64, of: Int64) -> Bool:
        allowed: Bool = (src != dst) & ((of >= 0) | (self._community[src] != self._community[dst]))
        return allowed

    def _new(self, made: Int64, keys: Int64) -> Bool:
        """Return which of the edges `made` are not among `keys` nor an earlier one of `made`."""
        first = np.zeros(len(made), np.bool_)
        first[np.unique(made, return_index=True)[1]] = True
        return first & ~edge_keys.contains(keys, made)
