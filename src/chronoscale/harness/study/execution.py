"""Executed: schedules run on this machine for a study, outside of any run folder."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets import store
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.store import Dataset
from chronoscale.datasets.streams.events import EventStream
from chronoscale.harness.execute.jobs import make_item
from chronoscale.harness.execute.training import run_training
from chronoscale.harness.keys.experiment_files import as_yaml, check
from chronoscale.harness.runs.passes import load_passes
from chronoscale.harness.runs.start import start
from chronoscale.harness.runs.training_record import FOLDER, ended, scores
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.real_exec.training.epoch_record import EpochRecord, epoch_records
from chronoscale.strategies.costs import UNUSED, Floats
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.workload import Hyper, ModelChoice, ModelShape, Workload


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """Schedule of an epoch that a study executes on this machine, with the hyperparameters it was planned with.

    prepare: schedule of what comes before the first epoch, None for data of snapshots.
    """

    schedule: Schedule
    hyper: Hyper
    prepare: Schedule | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """Training of one strategy that a study has executed on this machine, epoch after epoch.

    schedule: what every epoch executed. epochs: their records. best: number of the epoch whose model is tested. tested: its score on the
    test. rivals: scores there of predictions that train no network, by name.
    """

    schedule: Schedule
    epochs: tuple[EpochRecord, ...]
    best: int
    tested: float
    rivals: Mapping[str, float]

    def curve(self, score: str) -> list[float]:
        """Return the validation score after each epoch. score: its key, such as 'mse'."""
        return [float(epoch.scores[score]) for epoch in self.epochs]

    def losses(self, weights: Floats) -> list[float]:
        """Return the mean training loss of each epoch. weights: of its optimiser steps, float64 [steps]."""
        return [float(np.average(epoch.losses, weights=weights)) for epoch in self.epochs]

    @property
    def settled(self) -> int:
        """The number of epochs up to the best one."""
        return self.best + 1


def train(keys: Mapping[str, Any], paper: str, score: str) -> Training:
    """Train the one strategy of an experiment for a study, as `chronoscale train` does, and test the model of its best epoch.

    keys: those of an experiment file on snapshots, a signal or a stream, by one plan, with a validation and a test. paper: named in
    messages. score: its key, such as 'accuracy'. Raises UserError as the command does.
    """
    experiment = check(keys, paper)
    with tempfile.TemporaryDirectory() as name:
        run, _ = start(Path(name), "train", experiment, as_yaml(experiment), {})
        run_training(experiment, run)
        folder = run.folder / FOLDER
        done, end = tuple(epoch_records(folder)), ended(folder)
        (_, tested), *others = [(label, float(one[score])) for label, one in scores(folder).items()]
        (plan,) = folder.rglob("schedule.parquet")
        assert end is not None
        assert end.best is not None
        return Training(Schedule.load(plan), done, end.best, tested, dict(others))


def passes(
    schedule: Schedule,
    snapshots: SnapshotSequence,
    model: ModelShape,
    hyper: Hyper,
    repeats: int,
    warmup: int = 0,
) -> list[Pass]:
    """Execute one schedule `repeats` times on this machine's CPU, for a study, and return each pass: measured trace, losses and scores.

    A pass is one execution of the whole schedule, which is one epoch; training goes on from pass to pass. Starts as many rank processes as
    the schedule has. warmup: first passes that are executed and not returned. Raises UserError or MachineError with the failed rank's own
    line.
    """
    return in_turn({"pass": Planned(schedule, hyper)}, snapshots, model, repeats, warmup)["pass"]


def in_turn(
    planned: Mapping[str, Planned], data: Dataset, model: ModelShape, repeats: int, warmup: int = 0, learning_rate: float = 0.01
) -> dict[str, list[Pass]]:
    """Execute several schedules on this machine in turn, an epoch of each and then again, for studies that compare times.

    So a machine that becomes slower slows all of them alike. planned: label -> schedule, all for equally many ranks. data: what they train
    on. repeats: epochs of each; warmup: further ones, first, that are not returned. Returns passes (an executed epoch each, with its trace)
    by label. Raises UserError or MachineError with the failed rank's own line.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store.save(folder / "data", data)
        items = []
        for label, one in planned.items():
            file, before = folder / f"{label}.schedule.parquet", folder / f"{label}.prepare.parquet"
            one.schedule.save(file)
            if one.prepare is not None:
                one.prepare.save(before)
            items.append(Item(label, str(file), str(folder / "data"), one.hyper, prepare=str(before) if one.prepare else ""))
        choice = ModelChoice(model.name, model.hidden, model.layers, model.inputs, model.hops or 2, model.heads)
        settings = Settings(learning_rate=learning_rate, device="cpu")
        job = Job("study", tuple(items), str(folder), choice, repeats, warmup, settings)
        launch(job, next(iter(planned.values())).schedule.ranks, folder)
        return {label: load_passes(folder, label) for label in planned}


def streams_in_turn(
    cases: Mapping[str, tuple[str, Hyper]],
    events: EventStream,
    choice: ModelChoice,
    ranks: int,
    epochs: int,
    warmup: int,
    settings: Settings,
) -> dict[str, list[Pass]]:
    """Plan strategies on an event stream and execute an epoch of each in turn on this machine, for studies of FAST and MemShare.

    cases: label -> (name of a strategy, hyperparameters); the first one's protocol splits the stream by time. choice: model and widths.
    epochs: of each case; warmup: further ones, first, that are not returned. Returns passes (an executed epoch each, with its trace and
    scores) by label. Raises UserError or MachineError with the failed rank's own line.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store.save(folder / "stream", events)
        protocol = next(iter(cases.values()))[1].events.evaluation
        data, items = PreparedStream.make(folder / "prepared", Path("..") / "stream", protocol), []
        for number, (planner, hyper) in enumerate(cases.values()):
            stats = stream_statistics(data)
            schedule = strategy(planner).plan(Workload(events.name, stats, shape_for(choice, stats, hyper), hyper), ranks, UNUSED)
            items.append(make_item(folder, f"{number}-{planner}", schedule, folder / "prepared", hyper))
        launch(Job("study", tuple(items), str(folder), choice, epochs, warmup, settings), ranks, folder)
        return {case: load_passes(folder, made.label) for case, made in zip(cases, items, strict=True)}
