"""Planned: items of jobs on signals, and medians with their spread, as the benchmarks of signals print them."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from chronoscale.cuda_ext.native.loader import versions
from chronoscale.datasets import store
from chronoscale.datasets.catalogue import load
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.strategies.cluster import Device, Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.signals.forecasters import forecaster_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload

COSTS = DatasheetCosts(Device("none", 1, 1, 1, Link(1, 0), 0))  # schedules of signals do not ask for costs


def stored(name: str, folder: Path) -> Path:
    """A signal of the catalogue, in a folder of its own."""
    path = folder / name
    if not path.exists():
        store.save(path, load(name))
    return path


def mapped(path: Path) -> Signal:
    """A stored signal, its arrays on disk."""
    signal = store.load(path)
    assert isinstance(signal, Signal)
    return signal


def item(label: str, name: str, path: Path, ranks: int, hyper: Hyper, model: tuple[str, int], out: Path) -> Item:
    """A strategy's epoch on a stored signal and its preparation, planned and saved; `model`: name and hidden width."""
    signal = mapped(path)
    shape = forecaster_shape(
        ModelChoice(*model), signal.num_nodes, signal.num_channels, hyper.window, hyper.horizon, calendar=signal.calendar
    )
    sizes = (len(signal), signal.num_nodes, signal.num_channels, signal.edge_index.shape[1], signal.values.dtype.itemsize)
    work, found = Workload(path.name, SignalStatistics(*sizes), shape, hyper), strategy(name)
    files = [out / f"{label}.{kind}.parquet" for kind in ("epoch", "prepare")]
    for file, schedule in zip(files, (found.plan(work, ranks, COSTS), found.prepare(work, ranks, COSTS)), strict=True):
        schedule.save(file)
    return Item(label, str(files[0]), str(path), hyper, prepare=str(files[1]))


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Median, and half the range between the quartiles."""
    if len(values) < 2:
        return f"{values[0]:.{digits}f}"
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{statistics.median(values):.{digits}f} (±{(high - low) / 2:.{digits}f})"


def machine(threads: int) -> str:
    """What a figure was measured on."""
    name = device_name(torch.device("cpu"))
    kernels = f"native kernels {versions()['cpu']}, torch {torch.__version__}, NumPy {np.__version__}, Python {platform.python_version()}"
    return f"{name}, {os.cpu_count()} cores, {threads} thread(s) a rank, {kernels}"
