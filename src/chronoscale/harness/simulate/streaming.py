"""Streaming: an epoch that memory does not hold, replayed stretch by stretch; its figures are kept, and no trace."""

from __future__ import annotations

from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.harness.planning.schedules import plan_stretches
from chronoscale.harness.runs.points import SimulatedPoint
from chronoscale.simulator import presets
from chronoscale.simulator.engine import engine_in_use
from chronoscale.simulator.long_epochs.replay import replay_stretches
from chronoscale.simulator.network.traffic import busiest_links
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload


def stream_point(
    planner: Strategy, work: Workload, gpus: int, cluster: Cluster, costs: CostModel, ignored: str, part: Path
) -> SimulatedPoint:
    """Simulate an epoch whose schedule memory does not hold, some iterations at a time, for `chronoscale simulate`; return its record.

    Its bytes by link are written to the folder `part`; there is no trace. ignored: keys of the experiment that this does not follow, such
    as uncertainty, in words for the record; '' for none. Raises UserError as `Strategy.plan` and `engine.replay`.
    """
    machines = presets.scaled(cluster, gpus)
    left = f"; {ignored} left aside" if ignored else ""
    result = replay_stretches(plan_stretches(planner, work, gpus, costs), machines, costs)
    result.links.to_csv(part / "links.csv", index=False)
    try:
        result.check()
        out_of_memory = ""
    except UserError as error:  # a result like any other
        out_of_memory = str(error)
    return SimulatedPoint(
        strategy=planner.name,
        gpus=gpus,
        peak_bytes=int(result.tally.peaks.max()),
        host_bytes=result.tally.schedule.host,
        costs=costs.name,
        cluster=machines.name,
        preset_gpus=cluster.gpus,
        assumed=cluster.assumed,
        note=f"{result.rows:,} rows were streamed, iteration by iteration: figures are kept, no trace{left}",
        idle_ranks=result.tally.idle,
        mathematics=planner.name,  # what all of it trains on was never held at once: it is compared with no other
        links=busiest_links(result.links),
        partition="" if work.partition is None or not planner.partitioned else work.partition.origin,
        out_of_memory=out_of_memory,
        summary=result.summary,
        engine=engine_in_use(),
        op_seconds={str(op): float(seconds) for op, seconds in result.op_seconds.items()},
    )
