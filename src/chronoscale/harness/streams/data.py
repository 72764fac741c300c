"""Data: events as an experiment names them, prepared on disk, and as a workload."""

from __future__ import annotations

from pathlib import Path

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets import catalogue, store
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError
from chronoscale.harness.open import opened
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.streams.experiment import StreamExperiment
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.workload import Workload


def events(experiment: StreamExperiment) -> EventStream:
    """Raises UserError where the dataset is no stream."""
    data, model = experiment.dataset, experiment.model.name
    if data.name is not None and catalogue.entry(data.name).origin == "published":
        raise UserError(
            f"dataset '{data.name}': a paper prints its counts, and its events are not at hand; `chronoscale data make` draws a stream "
            "with given counts"
        )
    found = opened(data, experiment.seed)
    if not isinstance(found, EventStream):
        raise UserError(f"dataset '{data.label}' is not a stream of events, and model '{model}' trains on streams")
    return found


def stored(experiment: StreamExperiment, run: Run) -> Path:
    """The folder that ranks map: events, T-CSR, negatives of the evaluation, and the work of batches that has been counted; the events stay
    where they are if they are stored already. Raises UserError as `events`, and as `PreparedStream.make`."""
    data = experiment.dataset
    own = len(data.files) == 1 and (Path(data.files[0]) / store.META).exists() and not data.options

    def make(part: Path) -> None:
        stream = Path(data.files[0]).absolute() if own else Path("..") / "stream"
        if not own:
            store.save(part / "stream", events(experiment))
        PreparedStream.make(part / "prepared", stream, experiment.protocol)

    return run.piece("data", make) / "prepared"


def workload(experiment: StreamExperiment) -> Workload:
    """Of events at hand. Raises UserError as `events`, and where they cannot be split."""
    return planned(experiment, PreparedStream.of(events(experiment), experiment.protocol))


def loaded(experiment: StreamExperiment, folder: Path) -> Workload:
    """Of a prepared stream."""
    return planned(experiment, PreparedStream.load(folder))


def planned(experiment: StreamExperiment, data: PreparedStream) -> Workload:
    """With the experiment's model and hyper-parameters. Raises UserError as `shape_for`."""
    hyper, stats = experiment.hyper, stream_statistics(data)
    return Workload(experiment.dataset.label, stats, shape_for(experiment.model.choice, stats, hyper), hyper)
