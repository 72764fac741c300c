"""Simulation: strategies replayed on 1 to 1024 GPUs."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from math import isnan
from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.harness.experiment import Experiment
from chronoscale.harness.prepare import simulated_costs
from chronoscale.harness.runs import Run
from chronoscale.harness.snapshots.data import workload
from chronoscale.harness.snapshots.partitions import simulated
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import check, peaks
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.strategy import Prepares


def simulate(experiment: Experiment, run: Run, told: Callable[[str], None] = lambda _: None) -> None:
    """A piece `sim-<gpus>-<strategy>` for every point: schedule, trace, and memory: peak bytes, or why it does not fit."""
    cluster = presets.cluster(experiment.cluster)
    specified = DatasheetCosts(cluster.device, engine=cluster.engine)  # of what happens once, which no profile times
    costs, works = simulated_costs(experiment, cluster), simulated(experiment, workload(experiment), run)

    def make(gpus: int, name: str, part: Path) -> None:
        planner, machines = strategy(name), presets.scaled(cluster, gpus)
        schedule = planner.plan(works[gpus], gpus, costs)
        trace = replay(schedule, machines, costs)
        memory: dict[str, object] = {
            "peak_bytes": int(peaks(schedule, trace).max()),
            "host_bytes": schedule.host,
            "costs": costs.name,
            "cluster": cluster.name,
            "preset_gpus": cluster.gpus,
            "gap": None if isnan(schedule.gap) else schedule.gap,
            "note": schedule.note,
        }
        if schedule.kind == "parts" and (partition := works[gpus].partition) is not None:
            memory["partition"] = partition.origin
        if isinstance(planner, Prepares):
            memory["prepare_s"] = replay(planner.prepare(works[gpus], gpus, costs), machines, specified).span_ns / 1e9
        try:
            check(schedule, trace, machines)
        except UserError as error:  # a strategy that does not fit is a result, and the others go on
            memory["out_of_memory"] = str(error)
        schedule.save(part / "schedule.parquet")
        trace.save(part / "trace.parquet")
        (part / "point.json").write_text(json.dumps({"strategy": name, "gpus": gpus, **memory}))

    for gpus in experiment.gpus:
        for name in experiment.strategies:
            told(f"{name} on {gpus} GPUs")
            run.piece(f"sim-{gpus:05d}-{name}", partial(make, gpus, name))


def refused(run: Run) -> list[str]:
    """What does not fit, in words, one a point."""
    points = [json.loads((folder / "point.json").read_text()) for folder in run.pieces("sim-")]
    return [f"{p['strategy']} on {p['gpus']} GPUs does not fit: {p['out_of_memory']}" for p in points if "out_of_memory" in p]
