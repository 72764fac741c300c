"""One strategy planned and replayed on one number of GPUs."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from typing import NamedTuple

import numpy as np

from chronoscale.errors import UserError
from chronoscale.harness.keys.uncertainty import UncertaintyKeys
from chronoscale.harness.planning.schedules import plan_epoch, plan_preparation
from chronoscale.harness.runs.points import SimulatedPoint
from chronoscale.simulator import presets
from chronoscale.simulator.engine import engine_in_use, replay
from chronoscale.simulator.launches import Launches
from chronoscale.simulator.memory import check, peaks
from chronoscale.simulator.network.traffic import LinkTraffic, busiest_links, link_utilisation
from chronoscale.simulator.uncertainty.draws import Draws, middle_draw
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costing.samples import thinly_sampled
from chronoscale.strategies.costs import CostModel, DatasheetCosts
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Workload


class ReplayedEpoch(NamedTuple):
    """Result of simulating one epoch of a strategy, for `chronoscale simulate` and `advise`. Not fitting in memory is a result, too: see
    `point`.

    machines: the GPUs' part of the cluster. launches: times of kernel launches in the replay, None where none were modelled. crossed: which
    links rows cross, with how many bytes.
    """

    point: SimulatedPoint
    schedule: Schedule
    trace: Trace
    machines: Cluster
    launches: Launches | None
    crossed: LinkTraffic


def plan_and_replay(
    planner: Strategy, work: Workload, gpus: int, cluster: Cluster, costs: CostModel, uncertainty: UncertaintyKeys, seed: int
) -> ReplayedEpoch:
    """Plan an epoch by a strategy and replay it on a cluster, for `chronoscale simulate` and `advise`.

    It takes as many of the cluster's machines as hold `gpus`. Where times are uncertain it is replayed in every draw, and the trace is that
    of the middle one. Raises UserError as `plan_epoch` and `replay`.
    """
    machines, uncertain = presets.scaled(cluster, gpus), uncertainty.stated
    schedule = plan_epoch(planner, work, gpus, costs)
    drawn = Draws.of(schedule, machines, costs, uncertain, seed)
    spans = np.array([drawn.span(k) for k in range(uncertainty.draws)] if uncertain.random else [0])
    trace = drawn.trace(chosen := middle_draw(spans))
    crossed = drawn.uncontended.crossed or LinkTraffic.of(schedule, machines)
    point = SimulatedPoint(
        strategy=planner.name,
        gpus=gpus,
        peak_bytes=int(peaks(schedule, trace).max()),
        host_bytes=schedule.host,
        costs=costs.name,
        cluster=cluster.name,
        preset_gpus=cluster.gpus,
        gap=None if isnan(schedule.gap) else schedule.gap,
        note=schedule.note,
        idle_ranks=schedule.idle,
        few=thinly_sampled(costs, schedule),
        steps=schedule.iterations,
        assumed=cluster.assumed,
        targets=schedule.targets,
        mathematics=schedule.mathematics,
        engine=engine_in_use(),
        links=busiest_links(link_utilisation(crossed, trace.span_ns)),
        draws_s=tuple((spans / 1e9).tolist()) if uncertain.random else (),
    )
    if planner.partitioned and work.partition is not None:
        point = replace(point, partition=work.partition.origin)
    if planner.chunked and work.chunking is not None:
        point = replace(point, partition=work.chunking.origin)
    if planner.prepares:
        specified = DatasheetCosts(cluster.device, engine=cluster.engine)  # of what happens once, which no profile times
        before = replay(plan_preparation(planner, work, gpus, costs), machines, specified)
        point = replace(point, prepare_s=before.span_ns / 1e9)
    try:
        check(schedule, trace, machines)
    except UserError as error:
        point = replace(point, out_of_memory=str(error))
    return ReplayedEpoch(point, schedule, trace, machines, drawn.launches(chosen), crossed)
