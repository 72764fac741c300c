"""Jobs: what ranks are given to execute, and what they leave behind, as files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chronoscale.harness.experiment import Experiment
from chronoscale.real_exec.interpreter import Pass
from chronoscale.real_exec.job import Item, Job
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Hyper


def item(folder: Path, label: str, schedule: Schedule, data: Path | str, hyper: Hyper) -> Item:
    """A schedule as an item of a job, its file written to `folder`."""
    path = folder / f"{label}.schedule.parquet"
    schedule.save(path)
    return Item(label, str(path), str(data), hyper)


def job(experiment: Experiment, name: str, items: list[Item], out: Path) -> Job:
    """A job with the experiment's settings."""
    model = experiment.model.choice
    return Job(
        name=name,
        items=tuple(items),
        out=str(out),
        model=model.name,
        hidden=model.hidden,
        layers=model.layers,
        inputs=model.inputs,
        repeats=experiment.repeats,
        warmup=experiment.warmup,
        threads=experiment.threads,
        learning_rate=experiment.training.learning_rate,
        seed=experiment.seed,
        device=experiment.device,
        transfer_thread=experiment.transfer_thread,
        hops=model.hops,
        heads=model.heads,
    )


def load_passes(folder: Path, label: str, repeats: int) -> list[Pass]:
    """What a worker saved of one item."""
    losses, errors = np.load(folder / f"{label}-losses.npy"), np.load(folder / f"{label}-errors.npy")
    return [Pass(Trace.load(folder / f"{label}-r{repeat}.parquet"), losses[repeat], errors[repeat]) for repeat in range(repeats)]


def schedules(folder: Path) -> dict[str, Schedule]:
    """Schedules saved in a piece, by strategy."""
    return {path.name.removesuffix(".schedule.parquet"): Schedule.load(path) for path in sorted(folder.glob("*.schedule.parquet"))}
