"""Source: the data and the workload that an experiment names."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from chronoscale.datasets import catalogue, convert, store
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError
from chronoscale.harness.experiment import Data, Experiment
from chronoscale.harness.open import opened
from chronoscale.harness.runs import Run
from chronoscale.harness.signals import data as signals
from chronoscale.strategies.signals.forecasters import FORECASTERS
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Family, Workload


def snapshots(experiment: Experiment) -> SnapshotSequence:
    """Snapshots without self-edges (A + I has one of each already), events cut as asked; as many as `groups` needs.

    Raises UserError where events come without a cut, snapshots with one, the dataset is a signal, or it is too short for one group.
    """
    data = experiment.dataset
    if data.scale > 1:
        raise UserError(f"dataset '{data.label}': scaled counts can be simulated, not executed")
    found = opened(data, experiment.seed)
    if isinstance(found, EventStream):
        cut = data.cut
        if cut is None:
            raise UserError(
                f"dataset '{data.label}' is a stream of events: say how to cut it, as in `cut: {{width: 604800}}` or `cut: {{count: 1000}}`"
            )
        if cut.width is not None:
            found = convert.by_width(found, cut.width, cumulative=cut.cumulative, sliding=cut.sliding)
        else:
            found = convert.by_count(found, int(cut.count or 0), cumulative=cut.cumulative, sliding=cut.sliding)
    elif data.cut is not None:
        raise UserError(f"dataset '{data.label}' is not a stream of events, so `cut` does not apply")
    if not isinstance(found, SnapshotSequence):
        one_of = ", ".join(FORECASTERS)
        raise UserError(f"dataset '{data.label}' is a signal, model '{experiment.model.name}' trains on snapshots: name one of {one_of}")
    if data.window is not None:
        found = found.window(data.window)
    needed = experiment.training.group_size + experiment.horizon
    if len(found) < needed:
        raise UserError(f"dataset '{data.label}' has {len(found)} snapshots; a group of {needed - experiment.horizon} needs {needed}")
    if experiment.length is not None and experiment.length > len(found):
        raise UserError(f"groups: {experiment.groups} need {experiment.length} snapshots, dataset '{data.label}' has {len(found)}")
    return found.head(experiment.length or len(found)).without_self_edges()


def generated(data: Data) -> bool:
    """Whether snapshots are generated as they are read, one by one."""
    return data.name is not None and data.cut is None and data.window is None and catalogue.entry(data.name).origin == "generated"


def workload(experiment: Experiment) -> Workload:
    """Statistics, model shape and hyper-parameters; generated snapshots are streamed, never held together. Of signals, as
    `signals.workload`."""
    if experiment.family is Family.ST:
        return signals.workload(experiment)
    data, model = experiment.dataset, experiment.model
    plain = experiment.model_copy(update={"dataset": data.model_copy(update={"scale": 1})})
    stream: Iterable[Snapshot] = catalogue.stream(str(data.name), experiment.seed) if generated(data) else snapshots(plain)
    stats = statistics_of(snapshot.without_self_edges() for snapshot in islice(stream, experiment.length))
    return Workload(
        data.label, stats.scaled(data.scale), model_shape(model.name, model.inputs, model.hidden, model.layers), experiment.hyper
    )


def kept(experiment: Experiment, run: Run) -> Path:
    """The folder of the data to execute on, prepared once a run. Raises UserError as `snapshots` and `signals.stored`."""
    if experiment.family is Family.ST:
        return signals.stored(experiment, run)
    return run.piece("data", lambda part: store.save(part / "snapshots", snapshots(experiment))) / "snapshots"
