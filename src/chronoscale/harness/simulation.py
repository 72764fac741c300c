"""Simulation: strategies replayed on 1 to 1024 GPUs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import isnan
from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.harness.experiment import Experiment
from chronoscale.harness.families import family_of
from chronoscale.harness.planners import planned, planners, preparation
from chronoscale.harness.profiles import simulated_costs
from chronoscale.harness.runs import Run
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import check, peaks
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.workload import Workload


def simulate(experiment: Experiment, run: Run, told: Callable[[str], None] = lambda _: None) -> None:
    """A piece `sim-<gpus>-<strategy>` for every point: schedule, trace, and memory: peak bytes, or why it does not fit."""
    cluster = presets.cluster(experiment.cluster)
    specified = DatasheetCosts(cluster.device, engine=cluster.engine)  # of what happens once, which no profile times
    costs, asked = simulated_costs(experiment, cluster), planners(experiment)
    works = partitioned(experiment, family_of(experiment).workload(experiment), run)

    def make(gpus: int, name: str, part: Path) -> None:
        planner, machines = asked[name], presets.scaled(cluster, gpus)
        schedule = planned(planner, works[gpus], gpus, costs)
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
        if planner.partitioned and (partition := works[gpus].partition) is not None:
            memory["partition"] = partition.origin
        if planner.prepares:
            memory["prepare_s"] = replay(preparation(planner, works[gpus], gpus, costs), machines, specified).span_ns / 1e9
        try:
            check(schedule, trace, machines)
        except UserError as error:  # a strategy that does not fit is a result, and the others go on
            memory["out_of_memory"] = str(error)
        schedule.save(part / "schedule.parquet")
        trace.save(part / "trace.parquet")
        (part / "point.json").write_text(json.dumps({"strategy": name, "gpus": gpus, **memory}))

    for gpus in experiment.gpus:
        for name in asked:
            told(f"{name} on {gpus} GPUs")
            run.piece(f"sim-{gpus:05d}-{name}", partial(make, gpus, name))


def partitioned(experiment: Experiment, work: Workload, run: Run | None = None) -> Mapping[int, Workload]:
    """The workload for every simulated number of GPUs, cut where a strategy asks for parts. Raises UserError as `Trained.partitions`."""
    counts = experiment.gpus
    if not any(planner.partitioned for planner in planners(experiment).values()):
        return dict.fromkeys(counts, work)
    found = family_of(experiment).partitions(experiment, work, counts, run)
    return {count: replace(work, partition=found[count]) for count in counts}


def refused(run: Run) -> list[str]:
    """What does not fit, in words, one a point."""
    points = [json.loads((folder / "point.json").read_text()) for folder in run.pieces("sim-") if (folder / "point.json").exists()]
    return [f"{p['strategy']} on {p['gpus']} GPUs does not fit: {p['out_of_memory']}" for p in points if "out_of_memory" in p]
