"""FAST's memory I/O: what an epoch sends and what that takes; how near splits of a cache's room are to the best (Figure 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from chronoscale.batching.streams.caching.loading import CacheCapacity, CachedRows, CachePlacement, RowFrequencies
from chronoscale.batching.streams.sampling.redundancy import BATCH
from chronoscale.cuda_ext.sampling.unique_ids import unique_ids
from chronoscale.datasets.arrays import Int32, Int64
from chronoscale.harness.study.hooks.fast_epochs import SAMPLING, Epoch, epoch_of
from chronoscale.harness.study.hooks.fast_traffic import Sent, loading, traffic
from chronoscale.harness.study.point import StudyPoint
from chronoscale.harness.study.timing import medians_in_turn
from chronoscale.strategies.streams.models import FP32
from chronoscale.strategies.streams.placements import Even, Greedy

PCIE = 32e9  # bytes a second, FAST §1: PCIe 4.0 with 16 lanes
TABLE, PICKED, REPEATS = 1 << 29, 100_000, 7  # bytes of the table that is gathered from, rows at once
ALL = 2**31


class Split(NamedTuple):
    """Division of a cache's room between node and event features, for FAST's Figure 8.

    nodes, edges: rows cached. hits: how often batches find one of them, a row once a batch.
    """

    nodes: int
    edges: int
    hits: int


def chosen(placement: CachePlacement, seen: RowFrequencies, real: RowFrequencies, room: CacheCapacity) -> Split:
    """Return how a rule of what to cache divides a cache's room, and its hits over all batches, for FAST's Figure 8.

    placement: the rule. seen: how often batches asked for each row, of the pre-sampled ones that it chooses by; real: of all.
    """
    cached: CachedRows = placement.fill(seen, room)
    hits = sum(int(requests[ids].sum(dtype=np.int64)) for requests, ids in zip(real, cached, strict=True))
    return Split(cached.nodes.size, cached.edges.size, hits)


def best(seen: RowFrequencies, real: RowFrequencies, room: CacheCapacity) -> Split:
    """Return the division of a cache's room with most hits over all batches, the bound of FAST's Figure 8.

    seen: how often pre-sampled batches asked for each row: each table is filled in that order. real: how often all batches do, which hits
    are counted by. Every count of nodes is tried, and of equals the fewest nodes win. Rows of 0 bytes are not cached. O(rows log rows).
    """
    nodes, edges = _hits(seen.nodes, real.nodes, room.node), _hits(seen.edges, real.edges, room.edge)
    counts = np.arange(min(nodes.size - 1, room.total // room.node if room.node else 0) + 1)
    beside = (room.total - counts * room.node) // room.edge if room.edge else np.zeros_like(counts)
    beside = np.minimum(beside, edges.size - 1)
    volumes = nodes[counts] + edges[beside]
    at = int(volumes.argmax())
    return Split(at, int(beside[at]), int(volumes[at]))


def _hits(seen: Int32, real: Int32, size: int) -> Int64:
    """Of the first 0, 1, ... rows by falling frequency."""
    order = np.argsort(-seen, kind="stable") if size else np.empty(0, np.int64)
    return np.concatenate([[0], real[order].cumsum(dtype=np.int64)])


def volumes(point: StudyPoint) -> dict[str, Any]:
    """Count the features copied to the device at each of FAST's optimisation stages, for its Figure 8.

    Returns `sent`: stage -> `nodes` and `edges` (rows), `bytes`, `indices` (bytes of positions beside them), `compressed` (ids looked
    through); `hits`: 'N batches' that a cache is filled by -> rule that divides its room between nodes and events -> its hits over the best
    division's; `part` of the data in words, `batches`, those of an epoch of the `whole` data set, `width`. Settings: `stages`: stage ->
    (strategy, share of the features cached), the last one's share being the room; `presample`: numbers N of batches, by the last of which
    the stages' caches are filled. Raises UserError where real data are not at hand.
    """
    one, stages = epoch_of(point), dict(point.setting("stages"))
    known = {count: _frequencies(one, count or ALL) for count in (*point.setting("presample"), 0)}
    ways = {stage: loading(name, share, one.width) for stage, (name, share) in stages.items()}
    sent = traffic(one, ways, known[point.setting("presample")[-1]])
    room, hits = list(ways.values())[-1].room(*one.sizes), {}
    for count, seen in known.items():
        turned = RowFrequencies(2 * seen.nodes + 1, 2 * seen.edges)  # of rows asked for alike, nodes first
        splits: dict[str, tuple[CachePlacement, RowFrequencies]] = {
            "greedy": (Greedy(), seen),
            "even": (Even(), seen),
            "greedy, ties to nodes": (Greedy(), turned),
        }
        most = best(seen, known[0], room).hits
        hits[f"{count or 'all'} batches"] = {name: chosen(*split, known[0], room).hits / most for name, split in splits.items()}
    volumes = {stage: _plain(of) for stage, of in sent.items()}
    whole = -(-round(one.whole * one.data.protocol.train) // BATCH)
    return {"part": one.part, "batches": one.deal.iterations, "whole": whole, "width": one.width, "sent": volumes, "hits": hits}


def by_share(point: StudyPoint) -> dict[str, Any]:
    """Count the features copied to the device in an epoch, by strategy and cached share of the features, for FAST's Figure 8.

    Returns `sent`: for each strategy and share a record of `strategy`, `ratio` (the share), `nodes` and `edges` (rows), `bytes`, `indices`
    (bytes of positions beside them) and `compressed` (ids looked through); `events` and `batches` of the epoch. Settings: `strategies`;
    `cached`: the shares; `presample`: a list, whose last number says how many batches are sampled to choose the cached rows.
    """
    one, count = epoch_of(point), point.setting("presample")[-1]
    names = [(name, share) for name in point.setting("strategies") for share in point.setting("cached")]
    sent = traffic(one, {f"{name} {share:g}": loading(name, share, one.width) for name, share in names}, _frequencies(one, count))
    volumes = [{"strategy": name, "ratio": share, **_plain(sent[f"{name} {share:g}"])} for name, share in names]
    return {"sent": volumes, "events": len(one.data.whole.stream), "batches": one.deal.iterations}


def host(point: StudyPoint) -> dict[str, float]:
    """Measure how fast this host gathers features and looks for repeated ids, for FAST's Figure 8.

    `gather`: bytes/s of random feature rows copied out of a table larger than the caches. `look`: ids/s, of an epoch's last whole batch.
    Medians.
    """
    one = epoch_of(point)
    ids, table = one.last()[1].nodes, torch.zeros(TABLE // (one.width * FP32), one.width)
    rows, into = torch.from_numpy(np.random.default_rng(0).integers(0, len(table), PICKED)), torch.empty(PICKED, one.width)
    calls = {"gather": lambda: torch.index_select(table, 0, rows, out=into), "look": lambda: unique_ids(ids)}
    spent = {name: medians_in_turn({name: call}, REPEATS, 0)[name] for name, call in calls.items()}
    return {"gather": PICKED * one.width * FP32 / spent["gather"], "look": ids.size / spent["look"]}


def seconds(sent: Mapping[str, float], gather: float, look: float, bus: float = PCIE) -> float:
    """Return the seconds that loading an epoch's features takes, by counted bytes and measured speeds, for FAST's Figure 8.

    Gathering, copying and looking for repeated ids follow one another. sent: `bytes` of features, `indices` (bytes of positions beside
    them), `compressed` (ids looked through). gather: bytes/s that the host copies together; bus: bytes/s over PCIe. look: ids/s that the
    host looks through.
    """
    return sent["bytes"] / gather + (sent["bytes"] + sent["indices"]) / bus + sent["compressed"] / look


def _frequencies(one: Epoch, batches: int) -> RowFrequencies:
    return one.data.row_frequencies(1, BATCH, SAMPLING, 0, batches)


def _plain(sent: Sent) -> dict[str, int]:
    return {name: getattr(sent, name) for name in ("nodes", "edges", "bytes", "indices", "compressed")}
