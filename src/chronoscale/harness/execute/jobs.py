"""Jobs: what ranks are given to execute, as files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.planning.schedules import plan_preparation
from chronoscale.harness.runs.passes import PREPARATION, SCHEDULE
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Hyper, Workload


def make_item(folder: Path, label: str, schedule: Schedule, data: Path | str, hyper: Hyper) -> Item:
    """Write a schedule to `folder` and return it as an item of a job, which ranks execute.

    label: names the item's results. data: folder of the stored dataset, '' for none.
    """
    path = folder / f"{label}{SCHEDULE}"
    schedule.save(path)
    return Item(label, str(path), str(data), hyper)


def add_data(item: Item, folder: Path, planner: Strategy, work: Workload, ranks: int, partition: str) -> Item:
    """Return an item of a strategy with what its ranks read beside its schedule: the partition of the vertices, and, written to `folder`
    where the strategy has one, the schedule that prepares its data.

    work: what the strategy was asked to plan for that many ranks. partition: file, '' for none.
    """
    item = replace(item, parts=partition)
    if not planner.prepares:
        return item
    prepare = folder / f"{item.label}{PREPARATION}"
    plan_preparation(planner, work, ranks, UNUSED).save(prepare)
    return replace(item, prepare=str(prepare))


def make_job(experiment: Experiment, name: str, items: list[Item], out: Path) -> Job:
    """Make the job that ranks of `chronoscale bench`, `profile` or `train` execute: items, with the experiment's settings.

    name: of the job, for messages. out: folder that ranks write what they measure to.
    """
    settings = Settings(
        threads=experiment.threads,
        learning_rate=experiment.training.learning_rate,
        seed=experiment.seed,
        device=experiment.device,
        transfer_thread=experiment.transfer_thread,
        scale_learning_rate=experiment.scales_rate,
        bus=float(experiment.bus or 0),
        network=float(experiment.network or 0),
        network_latency=experiment.network_latency,
        topology=experiment.topology or "",
        hang_after=experiment.hang_after,
        share_gpu=experiment.share_gpu,
        launch=experiment.launch,
        weight_decay=experiment.training.weight_decay,
        clip=experiment.training.clip,
        milestones=tuple(epoch for epoch in experiment.training.milestones if epoch < experiment.epochs),
        factor=experiment.training.milestone_factor,
        patience=experiment.training.patience,
    )
    return Job(name, tuple(items), str(out), experiment.model.choice, experiment.repeats, experiment.warming, settings, experiment.modules)


def make_training(experiment: Experiment, item: Item, folder: Path) -> Job:
    """Make the job of `chronoscale train`: one item for all epochs of the experiment.

    item: the schedule and the data that ranks execute. folder: where they write.
    """
    job = make_job(experiment, "train", [item], folder)
    virtual = max(experiment.ranks) if experiment.virtual else 0
    return replace(job, repeats=experiment.epochs, warmup=0, settings=replace(job.settings, virtual=virtual))
