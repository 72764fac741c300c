"""Traffic: which links the rows of a schedule cross, and with how many bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from chronoscale.datasets.arrays import Bool, Int32
from chronoscale.simulator.network import collective_times
from chronoscale.simulator.network.collective_times import TimedCollectives
from chronoscale.simulator.network.collectives import LAYOUTS, CollectiveCosts, CollectiveGroup, Collectives
from chronoscale.simulator.network.links import LinkGraph
from chronoscale.simulator.network.patterns import Pattern, PatternKind, Patterns, crossed_links
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints, Op, Schedule
from chronoscale.strategies.trace import Source

PATTERN: dict[Op, PatternKind] = {Op.ALLREDUCE: "ring", Op.ALLGATHER: "gather", Op.ALLTOALL: "exchange"}


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Bytes that t tasks (rows) of a schedule put on the links of a simulated cluster, in no particular order.

    With u uses of a link; entries of row i: `ptr[i]` to `ptr[i + 1]`. row: of a collective, its first one (of a message, the earlier of its
    two). latency_ns: how much of its uncontended time a row uses no link. bytes: what crosses the link, with what a protocol adds to the
    data. A link that a model of the network leaves out (alpha-beta knows no switches between machines) may need longer for its bytes than
    the row lasts.
    """

    row: Ints  # [t]
    latency_ns: Ints  # [t]
    ptr: Ints  # [t + 1]
    link: Int32  # [u]
    bytes: Floats  # [u]

    @classmethod
    def of(cls, schedule: Schedule, cluster: Cluster, timed: TimedCollectives | None = None) -> Traffic:
        """Return the bytes that a schedule's collectives, and its copies between devices and hosts, put on a simulated cluster's links.

        timed: the collectives, where they are known already. There is none on links that were fitted: measurements contain it. Raises
        ValueError when a communication row has no collective id, or another row has one.
        """
        parts = [cls.of_copies(schedule, cluster)]
        if links_are_measured(cluster):
            return parts[0]
        patterns = collective_times.patterns(cluster)
        links, (collectives, costs) = patterns.graph, timed or TimedCollectives.of(schedule, cluster)
        if len(collectives):
            first = collectives.first()
            for group in collectives.groups():
                for chosen, pattern in _laid_out(group, costs, patterns):
                    parts.append(_group_traffic(group, chosen, pattern, first, costs))
            parts.append(_message_traffic(collectives, schedule, first, costs, links))
        return cls._concatenate(parts)

    @classmethod
    def of_copies(cls, schedule: Schedule, cluster: Cluster) -> Traffic:
        """Return the bytes that a schedule's copies between devices and their host put on each link of a simulated cluster."""
        if links_are_measured(cluster):
            return cls._concatenate([])
        links = collective_times.patterns(cluster).graph
        return cls._concatenate([_copy_traffic(schedule, cluster, links, op) for op in (Op.H2D, Op.D2H)])

    @classmethod
    def _concatenate(cls, parts: list[Traffic]) -> Traffic:
        """Return the traffic of several parts together."""
        if not parts:
            none = np.zeros(0, np.int64)
            return cls(none, none, np.zeros(1, np.int64), none.astype(np.int32), np.zeros(0))
        count = np.concatenate([np.diff(part.ptr) for part in parts])
        columns = (np.concatenate([getattr(part, name) for part in parts]) for name in ("row", "latency_ns", "link", "bytes"))
        row, latency_ns, link, moved = columns
        return cls(row, latency_ns, np.concatenate([[0], np.cumsum(count)]), link, moved)


class LinkTraffic(NamedTuple):
    """Links of a simulated cluster, and the bytes that a schedule's tasks move over them."""

    links: LinkGraph
    traffic: Traffic

    @classmethod
    def of(cls, schedule: Schedule, cluster: Cluster, timed: TimedCollectives | None = None) -> LinkTraffic:
        """Return the links of a simulated cluster and the bytes that a schedule moves over them.

        timed: its collectives, where they are known already. Raises ValueError when a communication row has no collective id, or another
        row has one.
        """
        return cls(collective_times.patterns(cluster).graph, Traffic.of(schedule, cluster, timed))


def slowest_links(link_traffic: LinkTraffic) -> tuple[Ints, Ints]:
    """Return, for each task (row) that crosses links, its row and the link that takes longest for its bytes; int64 [t] both."""
    links, traffic = link_traffic
    seconds = traffic.bytes / links.bandwidth[traffic.link]
    place = np.repeat(np.arange(len(traffic.row)), np.diff(traffic.ptr))
    order = np.lexsort((seconds, place))
    last = order[np.cumsum(np.bincount(place, minlength=len(traffic.row)))[np.diff(traffic.ptr) > 0] - 1]
    return traffic.row[np.diff(traffic.ptr) > 0], traffic.link[last].astype(np.int64)


def links_are_measured(cluster: Cluster) -> bool:
    """Return whether times on the links were measured, so that traffic on them is not modelled."""
    return collective_times.origin(cluster) is Source.FITTED or cluster.device.on_host


def _ns(seconds: Floats) -> Ints:
    return np.rint(seconds * 1e9).astype(np.int64)


def _copy_traffic(schedule: Schedule, cluster: Cluster, links: LinkGraph, op: Op) -> Traffic:
    """Return the traffic of copies from or to the host, `op`."""
    row = schedule.tasks(op)
    ranks, place = np.unique(schedule.rank[row], return_inverse=True)
    ways = (links.to_device if op is Op.H2D else links.to_host)(ranks.astype(np.int64))[place]
    used = ways >= 0
    latency = np.full(len(row), round(cluster.device.h2d.latency_s * 1e9), np.int64)
    count = used.sum(axis=1)
    moved = np.repeat(schedule.bytes[row].astype(np.float64), count)
    return Traffic(row, latency, np.concatenate([[0], np.cumsum(count)]), ways[used].astype(np.int32), moved)


def _laid_out(group: CollectiveGroup, costs: CollectiveCosts, patterns: Patterns) -> Iterator[tuple[Bool, Pattern]]:
    """Yield which collectives of a group are laid out alike, bool [c], and over which links."""
    for number, layout in enumerate(LAYOUTS):
        if (chosen := costs.pattern[group.index] == number).any():
            yield chosen, patterns.of(PATTERN[group.op] if layout == "usual" else layout, group.ranks)


def _group_traffic(group: CollectiveGroup, chosen: Bool, pattern: Pattern, first: Ints, costs: CollectiveCosts) -> Traffic:
    """Return the traffic of those collectives of a group that are `chosen`, bool [c].

    first: the first row of every collective.
    """
    index = group.index[chosen]
    moved = pattern.bytes(group.moved[:, chosen]) / costs.wire[index]
    ptr = np.arange(len(index) + 1) * len(pattern.link)
    return Traffic(first[index], _ns(costs.latency_s[index]), ptr, np.tile(pattern.link.astype(np.int32), len(index)), moved.T.ravel())


def _message_traffic(collectives: Collectives, schedule: Schedule, first: Ints, costs: CollectiveCosts, links: LinkGraph) -> Traffic:
    """Return the traffic of messages (a SEND and its RECV). first: the first row of every collective."""
    index, source, target = collectives.messages(schedule)
    parts = [(np.zeros(0, np.int64), np.zeros(0, np.int64)), *crossed_links(links, source, target)]
    pair, link = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    uses, times = np.unique(pair * len(links) + link, return_counts=True)
    pair, link = np.divmod(uses, len(links))
    moved = np.maximum(collectives.moved[collectives.begin[index]], collectives.moved[collectives.begin[index] + 1]) / costs.wire[index]
    ptr = np.concatenate([[0], np.cumsum(np.bincount(pair, minlength=len(index)))])
    return Traffic(first[index], _ns(costs.latency_s[index]), ptr, link.astype(np.int32), moved[pair] * times)


@dataclass(frozen=True, slots=True)
class LinkUse:
    """Use of one link of a simulated cluster in an epoch: its name, the bytes that crossed it, its mean utilisation (of 1)."""

    link: str
    bytes: float
    utilisation: float


def link_utilisation(link_traffic: LinkTraffic, span_ns: int) -> pd.DataFrame:
    """Return how busy each link of a simulated cluster is in an epoch of `span_ns`, the busiest first.

    Columns link, bytes, utilisation (mean, of 1); links that are not used are left out.
    """
    links, traffic = link_traffic
    return utilisation_table(link_bytes(traffic, links), links, span_ns)


def link_bytes(traffic: Traffic, links: LinkGraph) -> Floats:
    """Return the bytes that cross each link of a simulated cluster, float64 [links]."""
    return np.asarray(np.bincount(traffic.link, weights=traffic.bytes, minlength=len(links)), np.float64)


def scheduled_link_bytes(schedule: Schedule, cluster: Cluster, timed: TimedCollectives) -> Floats:
    """Return the bytes that a schedule moves over each link of a simulated cluster, float64 [links].

    timed: its collectives. Its traffic is not made row by row, for epochs too long for memory.
    """
    patterns = collective_times.patterns(cluster)
    links, (collectives, costs) = patterns.graph, timed
    moved = np.zeros(len(links))
    if links_are_measured(cluster):
        return moved
    for group in collectives.groups():
        for chosen, pattern in _laid_out(group, costs, patterns):
            moved[pattern.link] += pattern.total(group.moved[:, chosen], costs.wire[group.index[chosen]])
    for op, way in ((Op.H2D, links.to_device), (Op.D2H, links.to_host)):
        row, ways = schedule.tasks(op), way(np.arange(schedule.ranks))
        each = np.bincount(schedule.rank[row], weights=schedule.bytes[row], minlength=schedule.ranks)
        np.add.at(moved, ways[ways >= 0], np.repeat(each, (ways >= 0).sum(axis=1)))
    return (
        moved + link_bytes(_message_traffic(collectives, schedule, collectives.first(), costs, links), links) if len(collectives) else moved
    )


def utilisation_table(moved: Floats, links: LinkGraph, span_ns: int) -> pd.DataFrame:
    """Return a table of how busy the links of a simulated cluster are: link, bytes, utilisation (mean, of 1), the busiest first.

    moved: bytes on each link, float64 [links]; links without any are left out. span_ns: of the epoch.
    """
    used = np.flatnonzero(moved)
    share = moved[used] / links.bandwidth[used] / max(span_ns, 1) * 1e9
    order = np.argsort(-share, kind="stable")
    columns = {"link": [links.names[link] for link in used[order]], "bytes": moved[used][order], "utilisation": share[order]}
    return pd.DataFrame(columns)


def busiest_links(utilisation: pd.DataFrame, most: int = 5) -> tuple[LinkUse, ...]:
    """Return the `most` busiest links of a simulated epoch. utilisation: table of links, the busiest first."""
    return tuple(LinkUse(link, moved, used) for link, moved, used in utilisation.head(most).itertuples(index=False))
