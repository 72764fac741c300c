"""Cluster state: when each rank's device and host are free between two stretches of an epoch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chronoscale.simulator.engine import Engine, replay_times
from chronoscale.simulator.launches import Launches
from chronoscale.simulator.sharing.shares import Shares
from chronoscale.strategies.cluster import Device
from chronoscale.strategies.planning.stretch import Stretch
from chronoscale.strategies.schedule import Ints, Op


@dataclass(frozen=True, slots=True, eq=False)
class ClusterState:
    """When the ranks of a simulated cluster are free between two stretches (parts of a long epoch); int64 [ranks] both.

    ended_ns: end of each rank's last optimiser step, from when on all its streams are free; launched_ns: from when on its host may launch
    what comes next. Streams need no more: no row of a rank starts before that step. Hosts run ahead of the device: one has launched all
    that came, and waits for the step of the iteration before the last; the next iteration but one waits for the step that the stretch opens
    with.
    """

    ended_ns: Ints
    launched_ns: Ints

    @classmethod
    def idle(cls, ranks: int) -> ClusterState:
        """Return the state of a simulated cluster before an epoch: everything is free at 0."""
        return cls(np.zeros(ranks, np.int64), np.zeros(ranks, np.int64))


def replay_stretch(
    stretch: Stretch,
    device: Device,
    ns: Ints,
    launches: Launches | None,
    state: ClusterState,
    shares: Shares | None = None,
    engine: Engine | None = None,
) -> tuple[Ints, Ints, ClusterState]:
    """Simulate one stretch (a part of an epoch too long for memory) from where the one before left the cluster.

    Return the rows' start and end (ns on the epoch's clock, int64 [n] each) and the state that the stretch leaves behind. Its first rows,
    the opening steps, stand for the last optimiser step of each rank: they start at 0 and end when that step did, whatever `ns`, `launches`
    and `shares` say of them, and must share no resource. `ns`: uncontended durations, int64 [n].

    Times equal those of the whole epoch where all ranks meet in a collective before their last steps, and no step takes a resource of
    another rank. Raises UserError when ranks wait for one another in a cycle, and ValueError where iterations overlap or where hosts that
    launch kernels have work of their own.
    """
    schedule, ranks = stretch.schedule, stretch.schedule.ranks
    if launches is not None and schedule.hosted.any():
        raise ValueError(
            f"strategy '{schedule.name}': what its hosts do themselves holds launches of later iterations, which is not carried on"
        )
    ns = np.concatenate([state.ended_ns, ns[ranks:]])
    if launches is not None:
        length = launches.length_ns.copy()
        length[np.searchsorted(launches.rank, np.arange(ranks))] = state.launched_ns  # the opening step's turn is a host's first
        launches = replace(launches, length_ns=length)
    start, end = replay_times(schedule, device, ns, launches, shares, engine)
    steps = schedule.tasks(Op.OPTIMIZE)
    step, rank = schedule.iteration[steps], schedule.rank[steps]
    ended, step_before = (np.full(ranks, -1, np.int64) for _ in range(2))
    np.maximum.at(ended, rank, end[steps])
    np.maximum.at(step_before, rank[step < schedule.iterations - 1], end[steps[step < schedule.iterations - 1]])
    if (start[ranks:] < state.ended_ns[schedule.rank[ranks:]]).any() or (end > ended[schedule.rank]).any():
        raise ValueError(f"strategy '{schedule.name}': an iteration begins on a rank before the one before is over, or has no step there")
    hosts = state.launched_ns if launches is None else np.maximum(_idle(launches, ranks, end), step_before)
    return start, end, ClusterState(ended, hosts)


def _idle(launches: Launches, ranks: int, end: Ints) -> Ints:
    """Return when each rank's host has launched everything, int64 [ranks]."""
    free, number = np.zeros(ranks, np.int64), np.bincount(launches.rank, minlength=ranks)
    first = np.cumsum(number) - number
    gate = np.where(launches.gate >= 0, end[launches.gate], 0)
    for turn in range(int(number.max())):
        at = first[number > turn] + turn
        rank = launches.rank[at]
        free[rank] = np.maximum(free[rank], gate[at]) + launches.length_ns[at]
    return free
