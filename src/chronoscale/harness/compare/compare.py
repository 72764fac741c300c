"""Comparison of strategies by time to one target, as a run: all timed in turns in one job, or simulated on numbers of GPUs; each
mathematics trained from several seeds.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from chronoscale.errors import ChronoscaleWarning, UserError, unknown
from chronoscale.harness.compare.scale import scales_of
from chronoscale.harness.compare.simulated import refused_sentences, simulate_scales
from chronoscale.harness.compare.target import NAIVE
from chronoscale.harness.compare.trainings import OnProgress, Trainings, rates_of
from chronoscale.harness.execute.execution import execute
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.experiment_files import parse
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.planning.cost_models import datasheet_costs
from chronoscale.harness.planning.schedules import plan_epoch
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.strategies import registry
from chronoscale.strategies.strategy import Strategy


def compared(experiment: Experiment) -> Experiment:
    """Return the experiment that `chronoscale compare` runs: on the largest of its rank counts, or, if ranks are virtual, on all of its
    GPUs; where it names no strategies, with all of its family that execute and can plan for it, but ablations of others.

    Warns of strategies that are left out as they cannot plan. Raises UserError where nothing validates, for virtual ranks without numbers
    of GPUs, for keys that do not serve, and for a target that names a strategy which is not compared.
    """
    if not experiment.validates:
        raise UserError("compare: nothing validates, so that no training has a score; set training.validation, such as 0.2")
    if experiment.failures is not None:
        raise UserError("compare: failures: trainings that nothing interrupts are compared; leave the key out, and `simulate` with it")
    if experiment.virtual and "gpus" not in experiment.model_fields_set:
        raise UserError("compare: virtual: true learns as GPUs do; say on how many: gpus in the file, or --gpus 1,8,64")
    if experiment.virtual and experiment.model_dump()["training"].get("batches"):
        raise UserError("compare: training.batches: so many steps are other events on each number of GPUs; leave it out")
    changes: dict[str, Any] = {"ranks": [scales_of(experiment)[0]]}
    if "strategies" not in experiment.model_fields_set:
        named = [name for name, planner in registry.of(experiment.family).items() if _by_default(planner, experiment)]
        changes["strategies"] = named if experiment.virtual else _that_plan(experiment, named)
    chosen = parse(experiment.model_dump(mode="json", exclude_unset=True) | changes, "compare")
    target, names = chosen.compare.target, list(planners(chosen, executed=True))
    if isinstance(target, str) and target not in (NAIVE, *names):
        raise UserError(f"compare.target: {unknown('strategy', target, [*names, NAIVE])}")
    return chosen


def _by_default(planner: Strategy, experiment: Experiment) -> bool:
    """Whether a strategy is compared where the experiment names none: it executes, and is no ablation and no solver."""
    return planner.executes and not planner.ablates and not planner.solves and not planner.refuses(experiment.hyper)


def _that_plan(experiment: Experiment, candidates: Sequence[str]) -> list[str]:
    """Those of the strategies that can plan for the model and the data."""
    ranks, workflow = scales_of(experiment)[0], workflow_of(experiment.family)
    work, names = workflow.workload(experiment), []
    costs = datasheet_costs(experiment.cluster)
    for name in candidates:
        planner = registry.of(experiment.family)[name]
        alone = parse(experiment.model_dump(mode="json", exclude_unset=True) | {"strategies": [name]}, "compare")
        try:
            with warnings.catch_warnings(action="ignore", category=ChronoscaleWarning):  # of a partition that is only estimated here
                plan_epoch(planner, workflow.partition_for_simulation(alone, work, (ranks,), None)[ranks], ranks, costs)
            names.append(name)
        except UserError as error:
            warnings.warn(f"left out: {error}", ChronoscaleWarning, stacklevel=2)
    return names


def compare(experiment: Experiment, run: Run, on_progress: OnProgress, dask: str | None = None) -> Trainings:
    """Time and train everything for `chronoscale compare`, or go on where an interrupted run of it stopped.

    experiment: as `compared` returns it. on_progress: called with a line of text for each thing that is done. Epochs are timed at the
    lowest learning rate, which is the last to diverge; of virtual ranks they are simulated on each number of GPUs. dask: address of a
    scheduler whose workers simulate these. Raises as `execute` or `simulate_scales`, UserError where no scale has a strategy, and
    MachineError for a lost rank: what was trained is kept.
    """
    if experiment.virtual:
        simulate_scales(experiment, run, on_progress, dask)
    else:
        on_progress("timing epochs, all strategies in turns")
        slow = experiment.training.model_copy(update={"learning_rate": rates_of(experiment)[0]})
        execute(experiment.model_copy(update={"training": slow}), run, on_progress=on_progress)
    trainings, target = Trainings(experiment, run), experiment.compare.target
    left = {contender.strategy for contender in trainings.schedules}
    if not left:
        raise UserError("; ".join(refused_sentences(experiment, run)))
    if isinstance(target, str) and target not in (NAIVE, *left):
        reasons = [sentence for sentence in refused_sentences(experiment, run) if sentence.startswith(f"{target} on ")]
        raise UserError(f"compare.target: {'; '.join(reasons)}")
    trainings.train(on_progress)
    return trainings
