"""Executed: schedules run on this machine for a study, outside of any run folder."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets import store
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.store import Dataset
from chronoscale.datasets.streams.events import EventStream
from chronoscale.harness.execute.jobs import make_item
from chronoscale.harness.runs.passes import load_passes
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.strategies.costs import UNUSED
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


def passes(
    schedule: Schedule,
    snapshots: SnapshotSequence,
    model: ModelShape,
    hyper: Hyper,
    repeats: int,
    warmup: int = 0,
    learning_rate: float = 0.01,
) -> list[Pass]:
    """Execute one schedule `repeats` times on this machine's CPU, for a study, and return each pass: measured trace, losses and scores.

    A pass is one execution of the whole schedule, which is one epoch; training goes on from pass to pass. Starts as many rank processes as
    the schedule has. warmup: first passes that are executed and not returned. learning_rate: for a step on one group of snapshots, scaled
    as `chronoscale train` does. Raises UserError or MachineError with the failed rank's own line.
    """
    return in_turn({"pass": Planned(schedule, hyper)}, snapshots, model, repeats, warmup, learning_rate)["pass"]


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
        settings = Settings(learning_rate=learning_rate, device="cpu", scale_learning_rate=True)
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
