"""Data: readings as an experiment names them, on disk and as a workload."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets import catalogue, store
from chronoscale.datasets.generate.generators import build_traffic
from chronoscale.datasets.generate.specs import TrafficSpec
from chronoscale.datasets.signals.calendar import with_time_of_day
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.open import opened
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.signals.experiment import SignalData, SignalExperiment
from chronoscale.harness.signals.silenced import silenced
from chronoscale.harness.streams.refusal import refused
from chronoscale.strategies.signals.forecasters import forecaster_shape
from chronoscale.strategies.workload import Workload

DEGREE = 10  # edges a sensor where a paper prints none
PRINTED_ITEMSIZE = 8  # PGT-I Table 1: float64
NOTE = "signal.json"  # of a run


@dataclass(frozen=True, slots=True)
class Said:
    """NOTE: what of the readings is missing."""

    note: str


def signal(experiment: SignalExperiment) -> Signal:
    """The readings, absent ones marked. Raises UserError where the dataset is no signal."""
    data = experiment.dataset
    found = opened(data, experiment.seed)
    if isinstance(found, EventStream):
        raise UserError(refused(data.label))
    if not isinstance(found, Signal):
        raise UserError(f"dataset '{data.label}' is not a signal, and model '{experiment.model.name}' trains on signals")
    if data.calendar is not None:
        found = replace(found, calendar=data.calendar)
    if data.missing is not None:
        found = found.mark_missing(data.missing)
    if data.time_of_day is not None:
        found = with_time_of_day(found, data.time_of_day)
    return found


def missing(found: Signal, label: str) -> str:
    """What is not there, in words; '' where nothing is missing."""
    count, dead = found.missing_count, len(found.dead_sensors)
    if not count:
        return ""
    share = f"{count:,} of {found.values.size:,} readings are missing ({count / found.values.size:.2%})"
    silent = f", {dead} of {found.num_nodes} sensors have none ({silenced(found)})" if dead else ""
    return f"dataset '{label}': {share}{silent}; they are read as the mean, and no loss or error counts them"


def stored(experiment: SignalExperiment, run: Run) -> Path:
    """The folder that ranks map: the user's own where it can stay as it is, else a piece of the run; generated in blocks.

    Raises UserError where the dataset is no signal, or too short. Warns once a run of readings that are missing; the run keeps the
    warning.
    """
    data = experiment.dataset

    def make(part: Path) -> None:
        if (spec := _generated(data)) is not None:
            made = build_traffic(spec, str(data.name), experiment.seed)
            store.save_signal(part / "signal", made, *made.graph(), str(data.name), made.calendar)
        else:
            store.save(part / "signal", signal(experiment))

    own = bool(data.files) and (Path(data.files[0]) / store.META).exists() and not data.options and not data.changed
    folder = Path(data.files[0]).absolute() if own else run.piece("data", make) / "signal"
    found = mapped(folder)
    Windows(len(found), experiment.training.window, experiment.training.horizon)
    if not (run.folder / NOTE).exists() and (said := missing(found, data.label)):
        warnings.warn(said, ChronoscaleWarning, stacklevel=2)
        run.write(NOTE, asdict(Said(said)))
    return folder


def mapped(folder: Path) -> Signal:
    """A stored signal. Raises UserError where the folder holds something else."""
    found = store.load(folder)
    if isinstance(found, EventStream):
        raise UserError(refused(found.name or folder.name))
    if not isinstance(found, Signal):
        raise UserError(f"{folder}: not a signal, which this experiment's model trains on")
    return found


def _generated(data: SignalData) -> TrafficSpec | None:
    if data.name is None or data.changed:
        return None
    generator = catalogue.entry(data.name).generator
    return generator if isinstance(generator, TrafficSpec) else None


def statistics(found: Signal) -> SignalStatistics:
    """What planning needs of a signal."""
    steps, sensors, channels = found.values.shape
    edges, itemsize = found.edge_index.shape[1], found.values.dtype.itemsize
    return SignalStatistics(steps, sensors, channels, edges, itemsize, found.missing_count, found.calendar)


def workload(experiment: SignalExperiment) -> Workload:
    """Of readings at hand; of counts alone where a paper prints them and the readings are not at hand."""
    data = experiment.dataset
    if (spec := _generated(data)) is not None and not spec.missing:
        edges = build_traffic(spec, str(data.name), experiment.seed).graph()[0].shape[1]
        stats = SignalStatistics(spec.steps, spec.sensors, spec.channels, edges, calendar=spec.channels - 1)
    elif data.name is not None and catalogue.entry(data.name).origin == "published":
        stats = _printed(data.name)
    else:
        found = signal(experiment)
        if said := missing(found, data.label):
            warnings.warn(said, ChronoscaleWarning, stacklevel=2)
        stats = statistics(found)
    return planned(experiment, stats)


def _printed(name: str) -> SignalStatistics:
    counts = next((counts for counts in catalogue.entry(name).published if counts.steps), None)
    if catalogue.entry(name).family == "streams":
        raise UserError(refused(name))
    if counts is None or catalogue.entry(name).family != "signals":
        raise UserError(f"dataset '{name}' is not a signal whose counts a paper prints")
    message = f"dataset '{name}': counts as printed, {PRINTED_ITEMSIZE} bytes a value; edges are not printed, {DEGREE} a sensor are assumed"
    warnings.warn(message, ChronoscaleWarning, stacklevel=2)
    channels = counts.node_features or 1
    clock = int(channels > 1)  # PGT-I adds the time of day to what it has read
    return SignalStatistics(counts.steps or 0, counts.nodes, channels, DEGREE * counts.nodes, PRINTED_ITEMSIZE, calendar=clock)


def planned(experiment: SignalExperiment, stats: SignalStatistics) -> Workload:
    """Statistics with the experiment's model and hyper-parameters. Raises UserError for a series that is too short."""
    hyper = experiment.hyper
    Windows(stats.steps, hyper.window, hyper.horizon)
    shape = forecaster_shape(
        experiment.model.choice, stats.sensors, stats.channels, hyper.window, hyper.horizon, hyper.variant, stats.calendar
    )
    return Workload(experiment.dataset.label, stats, shape, hyper)


def loaded(experiment: SignalExperiment, folder: Path) -> Workload:
    """Of a stored signal. Raises UserError as `mapped` and `planned`."""
    return planned(experiment, statistics(mapped(folder)))
