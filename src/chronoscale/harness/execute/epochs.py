"""Epochs: one item trained for as many as the experiment asks, each kept as it ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from chronoscale.errors import MachineError
from chronoscale.harness.execute.jobs import job
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.runs.training_record import JOB
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.ranks.launch import start, wait
from chronoscale.real_exec.ranks.supervision import Patience
from chronoscale.real_exec.training.checkpoint import epoch_records
from chronoscale.real_exec.training.epoch_loop import ENTRY


def run_epochs(experiment: Experiment, item: Item, folder: Path) -> None:
    """Train `item` on the largest of the rank counts, after the last whole epoch that `folder` keeps.

    Raises MachineError when a rank is lost, and says how many epochs are kept.
    """
    (folder / "epochs").mkdir(parents=True, exist_ok=True)
    whole = replace(job(experiment, "train", [item], folder), repeats=experiment.epochs, warmup=0)
    whole.save(folder / JOB)
    try:
        ranks = start(ENTRY, folder / JOB, max(experiment.ranks), whole.settings.threads)
        wait(ranks, whole.name, Patience(experiment.hang_after))
    except MachineError as error:
        done = len(epoch_records(folder))
        raise MachineError(f"{error}; {done} of {experiment.epochs} epochs are kept, the same command goes on after them") from None
