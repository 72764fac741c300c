"""Data: the snapshots that an experiment names, and the workload that they make."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice
from pathlib import Path

from chronoscale.datasets import catalogue, convert, store
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.datasets.snapshots.statistics import SnapshotStatistics, statistics_of
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError
from chronoscale.harness.open import opened
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.snapshots import counted
from chronoscale.harness.snapshots.experiment import SnapshotData, SnapshotExperiment
from chronoscale.harness.streams.refusal import refused
from chronoscale.strategies.signals.forecasters import FORECASTERS
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import ModelShape, Workload


def snapshots(experiment: SnapshotExperiment) -> SnapshotSequence:
    """Snapshots without self-edges (A + I has one of each already), events cut as asked; as many as `groups` needs.

    Raises UserError where events come without a cut, snapshots with one, the dataset is a signal, or it is too short for one group.
    """
    data = experiment.dataset
    if data.scale > 1:
        raise UserError(f"dataset '{data.label}': scaled counts can be simulated, not executed")
    if data.name is not None and data.cut is None and catalogue.entry(data.name).family == "streams":
        raise UserError(refused(data.label))
    found = opened(data, experiment.seed)
    if isinstance(found, EventStream):
        cut = data.cut
        if cut is None:
            raise UserError(refused(data.label))
        if cut.width is not None:
            found = convert.snapshots_by_width(found, cut.width, cumulative=cut.cumulative, sliding=cut.sliding)
        else:
            found = convert.snapshots_by_count(found, int(cut.count or 0), cumulative=cut.cumulative, sliding=cut.sliding)
    elif data.cut is not None:
        raise UserError(f"dataset '{data.label}' is not a stream of events, so `cut` does not apply")
    if not isinstance(found, SnapshotSequence):
        one_of = ", ".join(FORECASTERS)
        raise UserError(f"dataset '{data.label}' is a signal, model '{experiment.model.name}' trains on snapshots: name one of {one_of}")
    if data.window is not None:
        found = found.window(data.window)
    needed = experiment.training.group_size + experiment.training.horizon
    if len(found) < needed:
        raise UserError(
            f"dataset '{data.label}' has {len(found)} snapshots; a group of {needed - experiment.training.horizon} needs {needed}"
        )
    _enough(experiment, len(found))
    return found.head(experiment.length or len(found)).without_self_edges()


def generated(data: SnapshotData) -> bool:
    """Whether snapshots are generated as they are read, one by one."""
    return data.name is not None and data.cut is None and data.window is None and catalogue.entry(data.name).origin == "generated"


def streamed(experiment: SnapshotExperiment) -> Iterable[Snapshot]:
    """The snapshots one by one, `scale` left aside; generated ones are never held together. Raises UserError as `snapshots`."""
    data = experiment.dataset
    stream: Iterable[Snapshot] = catalogue.iterate_snapshots(str(data.name), experiment.seed) if generated(data) else _unscaled(experiment)
    return (snapshot.without_self_edges() for snapshot in islice(stream, experiment.length))


def _unscaled(experiment: SnapshotExperiment) -> SnapshotSequence:
    return snapshots(experiment.model_copy(update={"dataset": experiment.dataset.model_copy(update={"scale": 1})}))


def shape(experiment: SnapshotExperiment, found: SnapshotSequence) -> ModelShape:
    """Of the experiment's model on these snapshots. Raises UserError for a task that they have no classes for, and for features of another
    width than the model reads."""
    width = experiment.model.inputs if found.features is None or experiment.task.varies else found.features.shape[1]
    if width != experiment.model.inputs:
        raise UserError(f"model.inputs: {experiment.model.inputs}, and dataset '{experiment.dataset.label}' has {width} features a node")
    return _shape(experiment, found.num_classes)


def _shape(experiment: SnapshotExperiment, classes: int) -> ModelShape:
    model, outputs = experiment.model, experiment.task.outputs(classes, experiment.dataset.label)
    return model_shape(model.name, model.inputs, model.hidden, model.layers, outputs)


def workload(experiment: SnapshotExperiment) -> Workload:
    """Statistics, model shape and hyper-parameters. Raises UserError as `snapshots` and `shape`."""
    classes = _unscaled(experiment).num_classes if experiment.task.classifies else 0
    stats = _counted(experiment).scaled(experiment.dataset.scale)
    _enough(experiment, len(stats.edges))
    return Workload(experiment.dataset.label, stats, _shape(experiment, classes), experiment.hyper)


def _counted(experiment: SnapshotExperiment) -> SnapshotStatistics:
    """Those of a dataset by name that is read anew each time lie where the name finds them."""
    if generated(experiment.dataset) or experiment.dataset.files:
        return counted.statistics(experiment, partial(streamed, experiment))
    return statistics_of(streamed(experiment))


def _enough(experiment: SnapshotExperiment, found: int) -> None:
    """Raises UserError where there are fewer snapshots than `groups` asks for."""
    if experiment.length is not None and experiment.length > found:
        trained = experiment.hyper.held.training_count(found)
        most = max((trained - experiment.training.group_size - experiment.training.horizon) // experiment.training.stride + 1, 0)
        has = f"dataset '{experiment.dataset.label}' has {found}, enough for {most} groups"
        raise UserError(f"groups: {experiment.groups} need {experiment.length} snapshots, {has}; without groups: all are taken")


def stored(experiment: SnapshotExperiment, folder: Path) -> tuple[Workload, SnapshotSequence]:
    """Of snapshots on disk."""
    sequence = store.load(folder)
    assert isinstance(sequence, SnapshotSequence)
    return Workload(experiment.dataset.label, statistics_of(sequence), shape(experiment, sequence), experiment.hyper), sequence


def kept(experiment: SnapshotExperiment, run: Run) -> Path:
    """The folder of the snapshots to execute on, a piece of the run. Raises UserError as `snapshots`."""
    return run.piece("data", lambda part: store.save(part / "snapshots", snapshots(experiment))) / "snapshots"
