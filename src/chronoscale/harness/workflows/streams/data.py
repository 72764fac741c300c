"""Data of experiments on event streams: opened, prepared on disk, and as a workload."""

from __future__ import annotations

import warnings
from pathlib import Path

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets import catalogue, store
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.data.opening import open_data
from chronoscale.harness.keys.streams import StreamExperiment
from chronoscale.harness.runs.run_folder import Run
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.workload import Workload


def load_events(experiment: StreamExperiment) -> EventStream:
    """Open the event stream of an experiment. Raises UserError where the dataset is none, or only its counts are known."""
    data, model = experiment.dataset, experiment.model.name
    if data.name is not None and catalogue.entry(data.name).origin == "published":
        raise UserError(
            f"dataset '{data.name}': a paper prints its counts, and its events are not at hand; `chronoscale data make` draws a stream "
            "with given counts"
        )
    stream = open_data(data, experiment.seed)
    if not isinstance(stream, EventStream):
        raise UserError(f"dataset '{data.label}' is not a stream of events, and model '{model}' trains on streams")
    return stream


def store_events(experiment: StreamExperiment, run: Run) -> Path:
    """Store what ranks of `chronoscale bench` and `train` read of an event stream, once a run, and return its folder.

    That is the events (where they are stored already, they stay there), the T-CSR (every node's events in order of time), the evaluation's
    negatives, and batches' work that has been counted. Raises UserError as `load_events`, and as `PreparedStream.make`.
    """
    data = experiment.dataset
    in_place = len(data.files) == 1 and (Path(data.files[0]) / store.META).exists() and not data.options

    def make(part: Path) -> None:
        stream = Path(data.files[0]).absolute() if in_place else Path("..") / "stream"
        if not in_place:
            store.save(part / "stream", load_events(experiment))
        PreparedStream.make(part / "prepared", stream, experiment.protocol)

    return run.piece("data", make) / "prepared"


def workload(experiment: StreamExperiment) -> Workload:
    """Return the counts of an experiment's events, its model's shape and its hyper-parameters, to plan and simulate with.

    Raises UserError as `load_events`, and where they cannot be split into training, validation and test.
    """
    return _workload(experiment, PreparedStream.of(load_events(experiment), experiment.protocol))


def stored_workload(experiment: StreamExperiment, folder: Path) -> Workload:
    """Return the counts, model's shape and hyper-parameters to plan with, of the events that `store_events` has put in `folder`."""
    return _workload(experiment, PreparedStream.load(folder))


def _workload(experiment: StreamExperiment, data: PreparedStream) -> Workload:
    """Combine events with the experiment's model and hyper-parameters. Warns of a split in the file that the experiment's is not. Raises
    UserError as `shape_for`."""
    hyper, stats = experiment.hyper, stream_statistics(data)
    train, validation = experiment.training.split
    split = str(data.whole.stream.account.get("split", ""))
    if split and f"training.split: [{train:.6g}, {validation:.6g}]" not in split:
        used = f"events are split by time, [{train:g}, {validation:g}]"
        text = f"dataset '{experiment.dataset.label}': {used}, and not by the file's ext_roll: {split}"
        warnings.warn(text, ChronoscaleWarning, stacklevel=2)
    return Workload(experiment.dataset.label, stats, shape_for(experiment.model.choice, stats, hyper), hyper)
