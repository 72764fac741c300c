"""Replay of a long epoch, stretch by stretch, of which figures are kept and no trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from chronoscale.simulator.launches import Launches
from chronoscale.simulator.long_epochs.cluster_state import ClusterState, replay_stretch
from chronoscale.simulator.long_epochs.lockstep import Lockstep
from chronoscale.simulator.long_epochs.tally import Tally
from chronoscale.simulator.memory import check_rank
from chronoscale.simulator.network import collective_times
from chronoscale.simulator.network.collective_times import TimedCollectives
from chronoscale.simulator.network.collectives import CollectiveCosts, Collectives
from chronoscale.simulator.network.traffic import LinkTraffic, Traffic, scheduled_link_bytes, utilisation_table
from chronoscale.simulator.sharing.contention import contended_shares
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.evaluation.metrics import Summary
from chronoscale.strategies.planning.stretch import Stretch
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Op, Schedule
from chronoscale.strategies.trace import Source


@dataclass(frozen=True, slots=True, eq=False)
class ReplayResult:
    """Figures of a simulated epoch that is too long for a trace.

    summary, op_seconds: as of its trace; links: bytes and utilisation of each link.
    """

    tally: Tally
    cluster: Cluster
    summary: Summary
    op_seconds: pd.Series[float]
    links: pd.DataFrame

    @property
    def rows(self) -> int:
        """Return how many tasks (rows) the epoch has."""
        return int(self.tally.rows.sum())

    def check(self) -> None:
        """Check that all ranks of the simulated epoch fit in memory.

        Raises UserError for the rank that needs most, with where and by how much.
        """
        rank, place = self.tally.top
        check_rank(self.tally.schedule, self.cluster, rank, int(self.tally.peaks[rank]), place)


@dataclass(frozen=True, slots=True, eq=False)
class _Shape:
    """Structure that several stretches have in common. tasks: rows of each operation that is no collective."""

    schedule: Schedule
    tasks: tuple[Ints, ...]
    collectives: Collectives
    lockstep: Lockstep | None

    @classmethod
    def of(cls, schedule: Schedule, cluster: Cluster) -> _Shape:
        tasks = tuple(schedule.tasks(op) for op in Op if op not in COLLECTIVES)
        return cls(schedule, tuple(rows for rows in tasks if len(rows)), Collectives.of(schedule), Lockstep.of(schedule, cluster.device))

    def fits(self, schedule: Schedule) -> bool:
        return schedule.op is self.schedule.op and schedule.dep is self.schedule.dep

    def timed_collectives(self, schedule: Schedule, cluster: Cluster) -> TimedCollectives:
        """Return the collectives of a stretch, and what they take."""
        collectives = replace(self.collectives, moved=schedule.bytes[self.collectives.row])
        return TimedCollectives(
            collectives,
            collective_times.collective_costs(collectives, schedule, cluster) if len(collectives) else CollectiveCosts.unknown(0),
        )

    def uncontended(
        self, schedule: Schedule, cluster: Cluster, costs: CostModel, collectives: TimedCollectives
    ) -> tuple[Ints, set[Source]]:
        """Return the uncontended duration of each row (ns), and its source."""
        ns, sources = np.zeros(len(schedule), np.int64), set()
        for rows in self.tasks:
            ns[rows], source = costs.predict(schedule, rows)
            sources.add(source)
        if len(collectives.collectives):
            rows, ns[rows] = collectives.times()
            sources.add(collective_times.origin(cluster))
        return ns, sources


def replay_stretches(stretches: Iterable[Stretch], cluster: Cluster, costs: CostModel) -> ReplayResult:
    """Simulate an epoch too long for memory, given as consecutive stretches, at least one, and return its figures.

    Each stretch is replayed from where the one before left the cluster, to the nanosecond as the whole epoch would be: a row of all ranks
    at a time where they are in lockstep and share nothing, else by the engine.

    Raises UserError when the cluster has too few devices, when `costs` does not know a row, and when ranks wait for one another in a cycle;
    ValueError where iterations overlap.
    """
    links, shape = collective_times.patterns(cluster).graph, None
    moved = np.zeros(len(links))
    for stretch in stretches:
        schedule = stretch.schedule
        if shape is None:
            cluster.link(schedule.ranks)  # refuses too few devices
            state, tally = ClusterState.idle(schedule.ranks), Tally(schedule)
        if shape is None or not shape.fits(schedule):
            shape, shares = _Shape.of(schedule, cluster), None
        collectives = shape.timed_collectives(schedule, cluster)
        ns, sources = shape.uncontended(schedule, cluster, costs, collectives)
        if cluster.contention:
            concurrent = collectives if shape.lockstep is None else None  # in lockstep no other row runs while a collective does
            traffic = Traffic.of_copies(schedule, cluster) if concurrent is None else Traffic.of(schedule, cluster, concurrent)
            shares = contended_shares(schedule, cluster, costs, ns, LinkTraffic(links, traffic), concurrent)
        if shape.lockstep is not None and shares is None:
            start, end, state = shape.lockstep.replay(schedule, ns, costs.launch_ns, state)
        else:
            launches = Launches.of(schedule, ns, costs.launch_ns)
            start, end, state = replay_stretch(stretch, cluster.device, ns, launches, state, shares)
        tally.add(stretch, start, end, sources, shape.lockstep is not None)
        moved += scheduled_link_bytes(schedule, cluster, collectives)
    device = f"{cluster.device.name} ({cluster.name}), costs: {costs.name}"
    return ReplayResult(tally, cluster, tally.summary(device), tally.op_seconds, utilisation_table(moved, links, tally.span_ns))
