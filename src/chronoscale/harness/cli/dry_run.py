"""Dry run: what a command would run, planned with a datasheet's costs."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from chronoscale.harness.cli.output import print_table
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.planning.estimate import Estimate, available, estimates
from chronoscale.harness.planning.schedules import plan_epoch
from chronoscale.harness.runs.idle import warn_of_idle_ranks
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts

NAN = float("nan")


def _estimated(estimate: Estimate) -> dict[str, object]:
    return {"estimated_tasks": estimate.rows, "estimated_GB": estimate.gigabytes}


def print_dry_run(
    command: str, experiment: Experiment, as_json: bool, *, executed: bool = False, ranks: Sequence[int] | None = None
) -> None:
    """Print what a command would do with an experiment, for `--dry-run`: a row a strategy and number of ranks, planned with a datasheet's
    costs.

    executed: the command trains here, on the experiment's `ranks`; else it simulates, on its `gpus`. ranks: take these numbers instead.
    """
    strategies, family = planners(experiment, executed), workflow_of(experiment.family)
    work, counts = family.workload(experiment), list(ranks or (experiment.ranks if executed else experiment.gpus))
    have = available()
    reckoned = {(one.strategy, one.ranks): one for one in estimates(strategies, work, counts)}
    if refused := [one for one in reckoned.values() if one.gigabytes > have and not one.streams]:
        rows_estimated = [{"strategy": one.strategy, "ranks": one.ranks, **_estimated(one)} for one in reckoned.values()]
        print_table(pd.DataFrame(rows_estimated), f"{command}: {work.name}, estimated, nothing planned", as_json)
        refused[0].check(have)
    works = family.partition_for_simulation(experiment, work, counts, None)
    costs = DatasheetCosts(presets.cluster(experiment.cluster).device, launch=experiment.launch)
    rows = []
    for name, planner in strategies.items():
        for count in counts:
            one = reckoned[name, count]
            if one.streamed(have):
                rows.append({"strategy": name, "ranks": count, **_estimated(one), "idle_ranks": 0, "note": "streamed, nothing planned"})
                continue
            plan = plan_epoch(planner, works[count], count, costs)
            row = {"strategy": name, "ranks": count, "tasks": len(plan), "iterations": plan.iterations, **family.columns(work, plan)}
            row |= {**_estimated(one), "idle_ranks": plan.idle}
            epoch = {"planned_s": plan.planned_ns / 1e9 or NAN, "bound_s": plan.bound_ns / 1e9 or NAN, "gap": plan.gap}
            rows.append(row | epoch | {"note": plan.note})
    warn_of_idle_ranks({(str(row["strategy"]), int(str(row["ranks"]))): int(str(row["idle_ranks"])) for row in rows})
    print_table(pd.DataFrame(rows), f"{command}: {work.name}, {family.size(work)} (planned with datasheet costs)", as_json)
