"""Data of experiments on snapshots: opened, stored on disk, and as a workload."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice
from pathlib import Path

from chronoscale.batching.snapshots.partition import expected_halos
from chronoscale.datasets import catalogue, convert, store
from chronoscale.datasets.arrays import Float64
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.datasets.snapshots.statistics import SnapshotStatistics, statistics_of
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError
from chronoscale.harness.data.opening import open_data, stream_refusal
from chronoscale.harness.keys.snapshots import SnapshotData, SnapshotExperiment
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.workflows.snapshots import counted
from chronoscale.strategies.signals.forecasters import FORECASTERS
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import ModelShape, Workload


def load_snapshots(experiment: SnapshotExperiment) -> SnapshotSequence:
    """Open the snapshots of an experiment: events cut as its key `cut` says, as many as its `groups` need, without self-edges.

    The model's aggregation adds one self-edge a node (A + I). Raises UserError where events come without a cut, snapshots with one, the
    dataset is a signal, or it is too short for one group.
    """
    data = experiment.dataset
    if data.scale > 1:
        raise UserError(f"dataset '{data.label}': scaled counts can be simulated, not executed")
    if data.name is not None and data.cut is None and catalogue.entry(data.name).family == "streams":
        raise UserError(stream_refusal(data.label))
    dataset = open_data(data, experiment.seed)
    if isinstance(dataset, EventStream):
        cut = data.cut
        if cut is None:
            raise UserError(stream_refusal(data.label))
        if cut.width is not None:
            dataset = convert.snapshots_by_width(dataset, cut.width, cumulative=cut.cumulative, sliding=cut.sliding)
        else:
            dataset = convert.snapshots_by_count(dataset, int(cut.count or 0), cumulative=cut.cumulative, sliding=cut.sliding)
    elif data.cut is not None:
        raise UserError(f"dataset '{data.label}' is not a stream of events, so `cut` does not apply")
    if not isinstance(dataset, SnapshotSequence):
        one_of = ", ".join(FORECASTERS)
        raise UserError(f"dataset '{data.label}' is a signal, model '{experiment.model.name}' trains on snapshots: name one of {one_of}")
    if data.window is not None:
        dataset = dataset.window(data.window)
    needed = experiment.training.group_size + experiment.training.horizon
    if len(dataset) < needed:
        raise UserError(
            f"dataset '{data.label}' has {len(dataset)} snapshots; a group of {needed - experiment.training.horizon} needs {needed}"
        )
    _enough(experiment, len(dataset))
    return dataset.head(experiment.length or len(dataset)).without_self_edges()


def is_generated(data: SnapshotData) -> bool:
    """Say whether an experiment's snapshots are generated as they are read, one by one, so that they need not be in memory."""
    return data.name is not None and data.cut is None and data.window is None and catalogue.entry(data.name).origin == "generated"


def iterate_snapshots(experiment: SnapshotExperiment) -> Iterable[Snapshot]:
    """Yield an experiment's snapshots one by one to count them; generated ones are never all in memory. Its `scale` is left aside.

    Raises UserError as `load_snapshots`.
    """
    data = experiment.dataset
    stream: Iterable[Snapshot] = (
        catalogue.iterate_snapshots(str(data.name), experiment.seed) if is_generated(data) else _unscaled(experiment)
    )
    return (snapshot.without_self_edges() for snapshot in islice(stream, experiment.length))


def _unscaled(experiment: SnapshotExperiment) -> SnapshotSequence:
    return load_snapshots(experiment.model_copy(update={"dataset": experiment.dataset.model_copy(update={"scale": 1})}))


def shape_of(experiment: SnapshotExperiment, sequence: SnapshotSequence) -> ModelShape:
    """Return the sizes of an experiment's model on its snapshots, to plan and train with.

    Raises UserError for a task of classes where the dataset has none, and for features of another width than `model.inputs`.
    """
    width = experiment.model.inputs if sequence.features is None or experiment.task.varies else sequence.features.shape[1]
    if width != experiment.model.inputs:
        raise UserError(f"model.inputs: {experiment.model.inputs}, and dataset '{experiment.dataset.label}' has {width} features a node")
    return _shape(experiment, sequence.num_classes)


def _shape(experiment: SnapshotExperiment, classes: int) -> ModelShape:
    model, outputs = experiment.model, experiment.task.outputs(classes, experiment.dataset.label, experiment.model.hidden)
    return model_shape(model.name, model.inputs, model.hidden, model.layers, outputs)


def workload(experiment: SnapshotExperiment) -> Workload:
    """Return the counts of an experiment's snapshots, its model's shape and its hyper-parameters, to plan and simulate with.

    Counts are multiplied by the dataset's `scale`. Raises UserError as `load_snapshots` and `shape_of`.
    """
    classes = _unscaled(experiment).num_classes if experiment.task.classifies else 0
    stats = _counted(experiment).scaled(experiment.dataset.scale)
    _enough(experiment, len(stats.edges))
    return Workload(experiment.dataset.label, stats, _shape(experiment, classes), experiment.hyper)


def _counted(experiment: SnapshotExperiment) -> SnapshotStatistics:
    """Statistics of the snapshots, from this machine's cache where a dataset is generated, or read from files."""
    if is_generated(experiment.dataset) or experiment.dataset.files:
        return counted.statistics(_count_key(experiment), partial(iterate_snapshots, experiment))
    return statistics_of(iterate_snapshots(experiment))


def _enough(experiment: SnapshotExperiment, available: int) -> None:
    """Raises UserError where there are fewer snapshots than `groups` asks for."""
    if experiment.length is not None and experiment.length > available:
        trained = experiment.hyper.held.training_count(available)
        most = max((trained - experiment.training.group_size - experiment.training.horizon) // experiment.training.stride + 1, 0)
        has = f"dataset '{experiment.dataset.label}' has {available}, enough for {most} groups"
        raise UserError(f"groups: {experiment.groups} need {experiment.length} snapshots, {has}; without groups: all are taken")


def stored_workload(experiment: SnapshotExperiment, folder: Path) -> tuple[Workload, SnapshotSequence]:
    """Return what to plan with (counts, model's shape, hyper-parameters) of the snapshots that `store_snapshots` has stored, and the
    snapshots.
    """
    sequence = store.load(folder)
    assert isinstance(sequence, SnapshotSequence)
    return Workload(experiment.dataset.label, statistics_of(sequence), shape_of(experiment, sequence), experiment.hyper), sequence


def store_snapshots(experiment: SnapshotExperiment, run: Run) -> Path:
    """Store the snapshots that ranks of `chronoscale bench` and `train` read, a piece of the run, and return their folder.

    Raises UserError as `load_snapshots`.
    """
    return run.piece("data", lambda part: store.save(part / "snapshots", load_snapshots(experiment))) / "snapshots"


def expected_halos_of(experiment: SnapshotExperiment, parts: list[int]) -> Float64:
    """Estimate the rows of other parts that a part reads of each of an experiment's snapshots if vertices fell into parts at random.

    Returns float64 [T, len(parts)]. parts: numbers of parts.
    """
    if is_generated(experiment.dataset) or experiment.dataset.files:
        return counted.halos(_count_key(experiment), partial(iterate_snapshots, experiment), parts)
    return expected_halos(iterate_snapshots(experiment), parts)


def _count_key(experiment: SnapshotExperiment) -> str:
    return counted.key(experiment.dataset, experiment.seed, experiment.length, experiment.modules)
