"""Streamed: an epoch replayed stretch by stretch, of which its figures are kept and no trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from chronoscale.simulator.launches import Launches
from chronoscale.simulator.long_epochs.cluster_state import Carried, resumed
from chronoscale.simulator.long_epochs.lockstep import Lockstep
from chronoscale.simulator.long_epochs.tally import Tally
from chronoscale.simulator.memory import admit
from chronoscale.simulator.network import collective_times
from chronoscale.simulator.network.collective_times import Joined
from chronoscale.simulator.network.collectives import Collectives, Costs
from chronoscale.simulator.network.traffic import Crossed, Traffic, crossing, utilised
from chronoscale.simulator.sharing.contention import contention
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.evaluation.metrics import Summary
from chronoscale.strategies.planning.stretch import Stretch
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Op, Schedule
from chronoscale.strategies.trace import Source


@dataclass(frozen=True, slots=True, eq=False)
class Streamed:
    """rows: of the epoch. links: as `traffic.volumes`. summary, op_seconds: as of its trace."""

    tally: Tally
    cluster: Cluster
    summary: Summary
    op_seconds: pd.Series[float]
    links: pd.DataFrame

    @property
    def rows(self) -> int:
        return int(self.tally.rows.sum())

    def check(self) -> None:
        """Raises UserError as `memory.check`."""
        rank, place = self.tally.top
        admit(self.tally.schedule, self.cluster, rank, int(self.tally.peaks[rank]), place)


@dataclass(frozen=True, slots=True, eq=False)
class _Shape:
    """What stretches of one structure have in common. tasks: rows of each operation that is no collective."""

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

    def joined(self, schedule: Schedule, cluster: Cluster) -> Joined:
        """What its collectives take."""
        found = replace(self.collectives, moved=schedule.bytes[self.collectives.row])
        return Joined(found, collective_times.costs(found, schedule, cluster) if len(found) else Costs.unknown(0))

    def alone(self, schedule: Schedule, cluster: Cluster, costs: CostModel, joined: Joined) -> tuple[Ints, set[Source]]:
        """What each row takes, ns, and where that is from; as `engine.replay` has it."""
        ns, sources = np.zeros(len(schedule), np.int64), set()
        for rows in self.tasks:
            ns[rows], source = costs.predict(schedule, rows)
            sources.add(source)
        if len(joined.found):
            rows, ns[rows] = joined.times()
            sources.add(collective_times.origin(cluster))
        return ns, sources


def stream(stretches: Iterable[Stretch], cluster: Cluster, costs: CostModel) -> Streamed:
    """An epoch of at least one stretch on the first devices of `cluster`. Each is replayed from where the one before left the cluster, to
    the nanosecond as the whole epoch would be: by rows of all ranks where they are in lockstep and none is in
    another's way, else by `engine.times`.

    Raises UserError as `engine.replay`, ValueError where iterations overlap.
    """
    links, shape = collective_times.patterns(cluster).graph, None
    moved = np.zeros(len(links))
    for stretch in stretches:
        schedule = stretch.schedule
        if shape is None:
            cluster.link(schedule.ranks)  # refuses too few devices
            carried, tally = Carried.nothing(schedule.ranks), Tally(schedule)
        if shape is None or not shape.fits(schedule):
            shape, shares = _Shape.of(schedule, cluster), None
        joined = shape.joined(schedule, cluster)
        ns, sources = shape.alone(schedule, cluster, costs, joined)
        if cluster.contention:
            traffic = Traffic.of(schedule, cluster, joined) if shape.lockstep is None else Traffic.copied(schedule, cluster)
            found = contention(schedule, cluster, costs, ns, Crossed(links, traffic))  # in lockstep nothing runs beside a collective
            shares = None if found is None else found.beside(shares)
        if shape.lockstep is not None and shares is None:
            begin, end, carried = shape.lockstep.replay(schedule, ns, costs.launch_ns, carried)
        else:
            launches = Launches.of(schedule, ns, costs.launch_ns)
            begin, end, carried = resumed(stretch, cluster.device, ns, launches, carried, shares)
        tally.add(stretch, begin, end, sources, shape.lockstep is not None)
        moved += crossing(schedule, cluster, joined)
    device = f"{cluster.device.name} ({cluster.name}), costs: {costs.name}"
    return Streamed(tally, cluster, tally.summary(device), tally.op_seconds, utilised(moved, links, tally.span_ns))
