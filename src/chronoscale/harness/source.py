"""Source: the snapshots and the workload that an experiment names."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from chronoscale.datasets import catalogue, convert, store
from chronoscale.datasets.events import EventStream
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.datasets.snapshots import Snapshot, SnapshotSequence
from chronoscale.datasets.statistics import statistics_of
from chronoscale.datasets.store import Dataset
from chronoscale.errors import UserError
from chronoscale.harness.experiment import Data, Experiment
from chronoscale.strategies.models import model_shape
from chronoscale.strategies.workload import Workload


def dataset(data: Data, seed: int) -> Dataset:
    """The dataset as it comes, by name or path. Raises UserError when it is unknown, absent or malformed."""
    if data.name is not None:
        return catalogue.load(data.name, seed)
    path = Path(str(data.path))
    if not path.exists():
        raise UserError(f"{path}: no such file or folder")
    return store.load(path) if (path / "meta.json").exists() else open_dataset(path, data.format, **data.options)


def snapshots(experiment: Experiment) -> SnapshotSequence:
    """Snapshots without self-edges (A + I has one of each already), events cut as asked; as many as `groups` needs.

    Raises UserError where events come without a cut, snapshots with one, the dataset is a signal, or it is too short for one group.
    """
    data = experiment.dataset
    if data.scale > 1:
        raise UserError(f"dataset '{data.label}': scaled counts can be simulated, not executed")
    found = dataset(data, experiment.seed)
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
        raise UserError(f"dataset '{data.label}' is a signal; the strategies of this version train on snapshots")
    if data.window is not None:
        found = found.window(data.window)
    needed = experiment.training.group_size + experiment.training.horizon
    if len(found) < needed:
        raise UserError(
            f"dataset '{data.label}' has {len(found)} snapshots; a group of {needed - experiment.training.horizon} needs {needed}"
        )
    if experiment.length is not None and experiment.length > len(found):
        raise UserError(f"groups: {experiment.groups} need {experiment.length} snapshots, dataset '{data.label}' has {len(found)}")
    return found.head(experiment.length or len(found)).without_self_edges()


def generated(data: Data) -> bool:
    """Whether snapshots are generated as they are read, one by one."""
    return data.name is not None and data.cut is None and data.window is None and catalogue.entry(data.name).origin == "generated"


def workload(experiment: Experiment) -> Workload:
    """Statistics, model shape and hyper-parameters; generated snapshots are streamed, never held together."""
    data, model = experiment.dataset, experiment.model
    plain = experiment.model_copy(update={"dataset": data.model_copy(update={"scale": 1})})
    stream: Iterable[Snapshot] = catalogue.stream(str(data.name), experiment.seed) if generated(data) else snapshots(plain)
    stats = statistics_of(snapshot.without_self_edges() for snapshot in islice(stream, experiment.length))
    return Workload(
        data.label, stats.scaled(data.scale), model_shape(model.name, model.inputs, model.hidden, model.layers), experiment.hyper
    )
