"""Streaming: a point of an epoch that memory does not hold, of which its figures are kept and no trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.planners import stretches
from chronoscale.harness.simulate.point import Point
from chronoscale.simulator import presets
from chronoscale.simulator.long_epochs.replay import replay_stretches
from chronoscale.simulator.network.traffic import busiest_links
from chronoscale.simulator.uncertainty.spec import CERTAIN
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload


def point(experiment: Experiment, planner: Strategy, work: Workload, gpus: int, cluster: Cluster, costs: CostModel, part: Path) -> Point:
    """The point, and its bytes by link in the folder `part`: of one replay, whatever is uncertain. Raises UserError as `Strategy.plan` and
    `engine.replay`."""
    machines = replace(presets.scaled(cluster, gpus), contention=experiment.contention)
    said = [
        name for name, stated in (("uncertainty", experiment.uncertainty.stated != CERTAIN), ("failures", experiment.failures)) if stated
    ]
    left = f"{' and '.join(said)} left aside" if said else ""
    found = replay_stretches(stretches(planner, work, gpus, costs), machines, costs)
    found.links.to_csv(part / "links.csv", index=False)
    try:
        found.check()
        out_of_memory = ""
    except UserError as error:  # as in `simulation`: a result
        out_of_memory = str(error)
    return Point(
        strategy=planner.name,
        gpus=gpus,
        peak_bytes=int(found.tally.peaks.max()),
        host_bytes=found.tally.schedule.host,
        costs=costs.name,
        cluster=machines.name,
        preset_gpus=cluster.gpus,
        note=f"{found.rows:,} rows were streamed, iteration by iteration: figures are kept, no trace{'; ' * bool(left)}{left}",
        idle_ranks=found.tally.idle,
        links=busiest_links(found.links),
        partition="" if work.partition is None or not planner.partitioned else work.partition.origin,
        out_of_memory=out_of_memory,
        summary=found.summary,
        op_seconds={str(op): float(seconds) for op, seconds in found.op_seconds.items()},
    )
