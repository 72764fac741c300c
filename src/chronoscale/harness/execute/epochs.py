"""Epochs: one item trained for as many as the experiment asks, each kept as it ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from chronoscale.errors import MachineError
from chronoscale.harness.execute.jobs import make_job
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.runs.training_record import JOB
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.ranks.launch import start, wait
from chronoscale.real_exec.ranks.supervision import Patience
from chronoscale.real_exec.training.checkpoint import records
from chronoscale.real_exec.training.epoch_loop import ENTRY


def run_epochs(experiment: Experiment, item: Item, folder: Path) -> None:
    """Train `item` on the largest of the rank counts, after the last whole epoch that `folder` keeps.

    Raises MachineError when a rank is lost, and says how many epochs are kept.
    """
    (folder / "epochs").mkdir(parents=True, exist_ok=True)
    job = replace(make_job(experiment, "train", [item], folder), repeats=experiment.epochs, warmup=0)
    job.save(folder / JOB)
    try:
        ranks = start(ENTRY, folder / JOB, max(experiment.ranks), job.settings.threads)
        wait(ranks, job.name, Patience(experiment.hang_after))
    except MachineError as error:
        complete = len(records(folder))
        raise MachineError(f"{error}; {complete} of {experiment.epochs} epochs are kept, the same command goes on after them") from None
