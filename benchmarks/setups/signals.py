"""Signals of sensors: stored ones, generated ones, and epochs of strategies on them as items of jobs."""

from __future__ import annotations

from pathlib import Path

from chronoscale.datasets import store
from chronoscale.datasets.catalogue import load
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.real_exec.job import Item
from chronoscale.strategies.cluster import Device, Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.signals.forecasters import forecaster_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload

COSTS = DatasheetCosts(Device("none", 1, 1, 1, Link(1, 0), 0))  # schedules of signals do not ask for costs
SENSORS = 11_160  # PeMS's


def stored(name: str, folder: Path) -> Path:
    """Return the folder of a signal of the catalogue, or of the generated `traffic-SENSORS-STEPS`; stored where it is not there yet."""
    path = folder / name
    if not path.exists():
        if name.startswith("traffic-"):
            traffic = TrafficSignal(*map(int, name.split("-")[1:]))
            store.save_signal(path, traffic, *traffic.graph(), path.name)
        else:
            store.save(path, load(name))
    return path


def steps_of(gigabytes: float, sensors: int = SENSORS) -> int:
    """Return steps of a float32 signal of that size."""
    return int(gigabytes * 1e9) // (4 * sensors)


def mapped(path: Path) -> Signal:
    """Return a stored signal, its arrays on disk."""
    signal = store.load(path)
    assert isinstance(signal, Signal)
    return signal


def item(label: str, name: str, path: Path, ranks: int, hyper: Hyper, model: tuple[str, int], out: Path) -> Item:
    """Return a strategy's epoch on a stored signal and its preparation, planned and saved; `model`: name and hidden width."""
    signal = mapped(path)
    sizes = (len(signal), signal.num_nodes, signal.num_channels, signal.edge_index.shape[1], signal.values.dtype.itemsize)
    shape = forecaster_shape(ModelChoice(*model), *sizes[1:3], hyper.window, hyper.horizon, calendar=signal.calendar)
    work, found = Workload(path.name, SignalStatistics(*sizes), shape, hyper), strategy(name)
    files = [out / f"{label}.{kind}.parquet" for kind in ("epoch", "prepare")]
    for file, schedule in zip(files, (found.plan(work, ranks, COSTS), found.prepare(work, ranks, COSTS)), strict=True):
        schedule.save(file)
    return Item(label, str(files[0]), str(path), hyper, prepare=str(files[1]))
