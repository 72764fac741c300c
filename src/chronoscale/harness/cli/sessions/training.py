"""Training, for an experiment that has been read: epochs, and what came of them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import typer

from chronoscale.harness.cli.output import PARTS, print_table, stage
from chronoscale.harness.cli.sessions.execution_session import begin_execution
from chronoscale.harness.cli.sessions.session import end
from chronoscale.harness.display.cell import Cell
from chronoscale.harness.execute.training import run_training
from chronoscale.harness.keys.elastic import Elastic
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.publish import tables
from chronoscale.harness.publish.collect import collect
from chronoscale.harness.runs.training_record import FOLDER, control, idle_ranks, period
from chronoscale.reports.horizon import horizon_table


def train(experiment: Experiment, file: Path, root: Path, as_json: bool, seats: bool, elastic: Elastic | None = None) -> None:
    """Do what `chronoscale train` does, with an experiment that has been read: train, or go on with a training, and print its epochs.

    file: the experiment's. root: folder of runs. seats: train on as many ranks as this machine has devices for, in place of refusing.
    elastic: between which numbers of ranks it may go on with as many as there are processes, None: with the same number alone.
    """
    if experiment.virtual:
        experiment = experiment.model_copy(update={"device": "cpu"})
    experiment, run = begin_execution("train", experiment, file, root, seats, elastic)
    with stage("training", resumes=True), run.recording_not_finite():
        training = run_training(experiment, run)
    table = training.table()
    ranges = [Cell([int(end) for end in text.split("..") if end.isdigit()], text) for text in table["epochs"]]
    table = table.assign(epochs=pd.Series(ranges, dtype=object), idle_ranks=sum(idle_ranks(run).values()))
    parts = tables.breakdown_table(collect([run]))
    if as_json:
        table = tables.with_breakdowns(table, parts)
    else:
        for sentence in training.verdict:
            typer.echo(sentence)
        if len(parts):
            print_table(parts, PARTS, as_json=False)
    if as_json and training.tested:
        blank = [None] * (len(table) - 1)
        tested, verdict = ([*blank, value] for value in (training.compared().to_dict("records"), list(training.verdict)))
        table = table.assign(test=pd.Series(tested, dtype=object), verdict=pd.Series(verdict, dtype=object))
    elif training.tested:
        print_table(training.compared(), f"test period, {period(run.folder / FOLDER)}", as_json=False)
    steps = horizon_table(training.horizon, training.rivals)
    if as_json and len(steps):
        table = table.assign(horizon=pd.Series([*[None] * (len(table) - 1), steps.to_dict("records")], dtype=object))
    elif len(steps):
        unit = f", MAE and RMSE in {experiment.unit}" * bool(experiment.unit)
        print_table(steps, f"errors at each step ahead, {period(run.folder / FOLDER)}{unit}", as_json=False)
    ranks = f"{training.ranks} {'virtual ' * experiment.virtual}rank{'s' * (training.ranks != 1)}"
    title = f"trained {len(training.epochs)} epochs on {ranks}"
    warned = set(control(run.folder / FOLDER).notes)  # by the control plane, when it wrote them
    end(run, table, title, as_json, [note for note in training.notes if note not in {*warned, *training.verdict}])
