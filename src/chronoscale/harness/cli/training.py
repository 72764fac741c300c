"""Training, of an experiment that has been read: epochs, and what came of them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from chronoscale.harness.cell import Cell
from chronoscale.harness.cli.output import PARTS, say, stage
from chronoscale.harness.cli.session import begin, end
from chronoscale.harness.execute.training import train as run_training
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.runs import publish
from chronoscale.harness.runs.training_record import FOLDER, control, idle, period


def train(experiment: Experiment, file: Path, root: Path, as_json: bool, seats: bool) -> None:
    """Train, or go on; on as many ranks as find a device here, where it `seats` them."""
    experiment, run = begin("train", experiment, file, root, seats)
    with stage("training", resumes=True), run.watched():
        done = run_training(experiment, run)
    table = done.table()
    table = table.assign(
        epochs=pd.Series([Cell([int(end) for end in text.split("..") if end.isdigit()], text) for text in table["epochs"]], dtype=object)
    )
    title = f"trained {len(done.epochs)} epochs on {done.ranks} rank{'s' * (done.ranks != 1)}"
    said = set(control(run.folder / FOLDER).notes)  # by the control plane, when it made them
    table = table.assign(idle_ranks=sum(idle(run).values()))
    parts = publish.parts(run)
    if as_json:
        table = publish.beside(table, parts)
    else:
        say(parts, PARTS, as_json=False)
    if as_json and done.tested:
        last = [*[None] * (len(table) - 1), done.compared().to_dict("records")]
        table = table.assign(test=pd.Series(last, dtype=object))
    elif done.tested:
        say(done.compared(), f"test period, {period(run.folder / FOLDER)}", as_json=False)
    end(run, table, title, as_json, [note for note in done.notes if note not in said])
