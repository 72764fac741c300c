"""Data of experiments on signals: opened, prepared on disk, and as a workload."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets import catalogue, store
from chronoscale.datasets.generate.generators import build_traffic
from chronoscale.datasets.generate.specs import TrafficSpec
from chronoscale.datasets.signals.calendar import with_calendar
from chronoscale.datasets.signals.graphs.graph_kinds import GRAPHS
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.data.counts import dead_sensors
from chronoscale.harness.data.graphs import with_graph
from chronoscale.harness.data.opening import open_data, stream_refusal
from chronoscale.harness.keys.signals import SignalData, SignalExperiment
from chronoscale.harness.runs.run_folder import Run
from chronoscale.strategies.signals.forecasters import FORECASTERS, forecaster_shape
from chronoscale.strategies.workload import Workload

DEGREE = 10  # edges a sensor where a paper prints none
PRINTED_ITEMSIZE = 8  # PGT-I Table 1: float64
NOTE = "signal.json"  # of a run


@dataclass(frozen=True, slots=True)
class MissingReadings:
    """Record, in a run's folder (`signal.json`), of the sentence that says how many of a signal's readings are missing."""

    note: str


def load_signal(experiment: SignalExperiment) -> Signal:
    """Open the sensor readings of an experiment on a signal, with the changes that the keys of its `dataset` ask for.

    These mark missing readings, say which channels tell the time, or add one that does. Raises UserError where the dataset is no signal.
    """
    data = experiment.dataset
    signal = open_data(data, experiment.seed)
    if isinstance(signal, EventStream):
        raise UserError(stream_refusal(data.label))
    if not isinstance(signal, Signal):
        raise UserError(f"dataset '{data.label}' is not a signal, and model '{experiment.model.name}' trains on signals")
    if data.calendar is not None:
        signal = replace(signal, calendar=data.calendar)
    if data.missing is not None:
        signal = signal.mark_missing(data.missing)
    signal = with_calendar(signal, data.time_of_day, data.day_of_week)
    if data.graph is not None:
        hyper = experiment.hyper
        signal = with_graph(signal, data.graph, Windows(len(signal), hyper.window, hyper.horizon).training_steps)
    return signal


def require_graph(signal: Signal, experiment: SignalExperiment) -> None:
    """Raises UserError where a model is to compute along edges between sensors, there are none, and nothing says that this is meant."""
    model, graph = experiment.model.name, experiment.dataset.graph
    if not FORECASTERS[model].reads_graph or (graph is not None and graph.kind == "none"):
        return
    if not (signal.edge_index[0] != signal.edge_index[1]).any():
        label = experiment.dataset.label
        others = ", ".join(name for name, kind in FORECASTERS.items() if not kind.reads_graph)
        raise UserError(
            f"dataset '{label}' has no edge between sensors, and model '{model}' reads the graph: say how to build one by "
            "dataset: {graph: {kind: distance, path: FILE}}, where FILE has the sensors' coordinates or distances, or by another kind "
            f"({', '.join(kind for kind in GRAPHS if kind not in ('distance', 'none'))}); kind: none says that this is meant; "
            f"models that do without: {others}"
        )


def missing_sentence(signal: Signal, label: str) -> str:
    """Return the warning that a signal's readings are missing, how many and of which sensors; '' where none are.

    label: the dataset's name for people.
    """
    count, dead = signal.missing_count, len(signal.dead_sensors)
    if not count:
        return ""
    share = f"{count:,} of {signal.readings:,} readings are missing ({count / signal.readings:.2%})"
    silent = f", {dead} of {signal.num_nodes} sensors have none ({dead_sensors(signal)})" if dead else ""
    return f"dataset '{label}': {share}{silent}; they are read as the mean, and no loss or error counts them"


def store_signal(experiment: SignalExperiment, run: Run) -> Path:
    """Store the signal that ranks of `chronoscale bench` and `train` read, and return its folder.

    That is the user's own folder where it can stay as it is, else a piece of the run; a generated signal is written in blocks, never all in
    memory. Raises UserError where the dataset is no signal, or too short for one window. Warns of missing readings, once a run.
    """
    data = experiment.dataset

    def make(part: Path) -> None:
        if (spec := _generated(data)) is not None:
            generator = build_traffic(spec, str(data.name), experiment.seed)
            store.save_signal(part / "signal", generator, *generator.graph(), str(data.name), generator.calendar)
        else:
            store.save(part / "signal", load_signal(experiment))

    in_place = bool(data.files) and (Path(data.files[0]) / store.META).exists() and not data.options and not data.changed
    folder = Path(data.files[0]).absolute() if in_place else run.piece("data", make) / "signal"
    signal = map_signal(folder)
    Windows(len(signal), experiment.training.window, experiment.training.horizon)
    require_graph(signal, experiment)
    if not (run.folder / NOTE).exists() and (note := missing_sentence(signal, data.label)):
        warnings.warn(note, ChronoscaleWarning, stacklevel=2)
        run.write(NOTE, asdict(MissingReadings(note)))
    return folder


def map_signal(folder: Path) -> Signal:
    """Map into memory the signal that `store_signal` has stored in a folder. Raises UserError where the folder holds something else."""
    signal = store.load(folder)
    if isinstance(signal, EventStream):
        raise UserError(stream_refusal(signal.name or folder.name))
    if not isinstance(signal, Signal):
        raise UserError(f"{folder}: not a signal, which this experiment's model trains on")
    return signal


def _generated(data: SignalData) -> TrafficSpec | None:
    if data.name is None or data.changed:
        return None
    generator = catalogue.entry(data.name).generator
    return generator if isinstance(generator, TrafficSpec) else None


def statistics_of(signal: Signal) -> SignalStatistics:
    """Return the counts of a signal that planners need: steps, sensors, channels, edges, bytes a value, missing readings."""
    steps, sensors, channels = signal.values.shape
    edges, itemsize = signal.edge_index.shape[1], signal.values.dtype.itemsize
    return SignalStatistics(steps, sensors, channels, edges, itemsize, signal.missing_count, signal.calendar)


def workload(experiment: SignalExperiment) -> Workload:
    """Return the counts, model's shape and hyper-parameters to plan an experiment on a signal with.

    A dataset that is not at hand is counted as a paper prints it, with a warning. Raises UserError as `load_signal`.
    """
    data = experiment.dataset
    if (spec := _generated(data)) is not None and not spec.missing:
        edges = build_traffic(spec, str(data.name), experiment.seed).graph()[0].shape[1]
        stats = SignalStatistics(spec.steps, spec.sensors, spec.channels, edges, calendar=spec.channels - 1)
    elif data.name is not None and catalogue.entry(data.name).origin == "published":
        if data.graph is not None:
            raise UserError(f"dataset.graph: the readings of '{data.name}' are not at hand, so that there is nothing to build a graph of")
        stats = _printed(data.name)
    else:
        signal = load_signal(experiment)
        require_graph(signal, experiment)
        if note := missing_sentence(signal, data.label):
            warnings.warn(note, ChronoscaleWarning, stacklevel=2)
        stats = statistics_of(signal)
    return planned_workload(experiment, stats)


def _printed(name: str) -> SignalStatistics:
    counts = next((counts for counts in catalogue.entry(name).published if counts.steps), None)
    if catalogue.entry(name).family == "streams":
        raise UserError(stream_refusal(name))
    if counts is None or catalogue.entry(name).family != "signals":
        raise UserError(f"dataset '{name}' is not a signal whose counts a paper prints")
    message = f"dataset '{name}': counts as printed, {PRINTED_ITEMSIZE} bytes a value; edges are not printed, {DEGREE} a sensor are assumed"
    warnings.warn(message, ChronoscaleWarning, stacklevel=2)
    channels = counts.node_features or 1
    clock = int(channels > 1)  # PGT-I adds the time of day to what it has read
    return SignalStatistics(counts.steps or 0, counts.nodes, channels, DEGREE * counts.nodes, PRINTED_ITEMSIZE, calendar=clock)


def planned_workload(experiment: SignalExperiment, stats: SignalStatistics) -> Workload:
    """Combine a signal's counts with the experiment's model and hyper-parameters, to plan with. Raises UserError for too few steps."""
    hyper = experiment.hyper
    Windows(stats.steps, hyper.window, hyper.horizon)
    shape = forecaster_shape(
        experiment.model.choice, stats.sensors, stats.channels, hyper.window, hyper.horizon, hyper.variant, stats.calendar
    )
    return Workload(experiment.dataset.label, stats, shape, hyper)


def stored_workload(experiment: SignalExperiment, folder: Path) -> Workload:
    """Return the counts, model's shape and hyper-parameters to plan with, of the signal that `store_signal` has put in `folder`.

    Raises UserError as `map_signal` and `planned_workload`.
    """
    return planned_workload(experiment, statistics_of(map_signal(folder)))
