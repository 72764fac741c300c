"""Losses: the same steps on the CPU and on the device, on one rank: every model with every strategy and every form of a snapshot."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.datasets.snapshots.chunks import Chunks, Counted
from chronoscale.datasets.snapshots.partition import Cut
from chronoscale.datasets.snapshots.retention import Decay
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.worker import run_job
from chronoscale.simulator import presets
from chronoscale.strategies import registry
from chronoscale.strategies.costs import CostModel, DatasheetCosts
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.signals.forecasters import FORECASTERS, forecaster_shape
from chronoscale.strategies.snapshots.forms import must_track, plain
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.snapshots.rows import Form
from chronoscale.strategies.workload import Hyper, ModelChoice, Partition, Recency, Workload
from gpu.device import present
from gpu.place import Place
from gpu.record import Record, Wrong

CLOSE = 1e-4  # relative difference of a loss
STEPS = 3  # iterations of the first pass that must be as close; later ones are shown
SEED = 3
SNAPSHOTS = Hyper(group_size=3, stride=2, seed=SEED, recency=Recency(Decay(2, 2, 0.5), 8))
SIGNALS = Hyper(batch_size=8, window=12, horizon=12, batches=4, seed=SEED)


class Sizes(NamedTuple):
    """Of the generated data: snapshots, their nodes and static edges; sensors; hidden width and layers of models on snapshots."""

    snapshots: int = 12
    nodes: int = 2_000
    edges: int = 24_000
    sensors: int = 60
    hidden: int = 32
    layers: int = 2


REHEARSED = Sizes(snapshots=7, nodes=60, edges=240, sensors=8, hidden=8)


def run(place: Place, record: Record) -> None:
    """Raises Failed where a loss differs by more than CLOSE, or is not finite, and where a schedule could not be executed."""
    present(place)
    folder = place.work / "losses"
    shutil.rmtree(folder, ignore_errors=True)
    wrong = Wrong()
    for job in jobs(folder, REHEARSED if place.rehearsal else Sizes()):
        for item in job.items:  # each a job of its own: what one raises would end all of a job
            name = {"model": job.model.name, "strategy": item.label}

            def fails(why: str, name: dict[str, str] = name) -> None:
                record.add("losses", {**name, "error": why})

            with wrong.kept(f"{job.model.name} {item.label}", fails):
                there, here = (_losses(replace(job, items=(item,)), device) for device in (place.device, "cpu"))
                row = {**name, **_compared(here, there)}
                record.add("losses", row)
                if not row["difference"] <= CLOSE:
                    wrong.append(f"{job.model.name} {item.label}: {row['difference']:.1e}")
        print(f"{job.model.name}: {len(job.items)} schedules", flush=True)
    wrong.raise_any(f"failed or differ by more than {CLOSE:g}", 8)


def _losses(job: Job, device: str) -> np.ndarray:
    """Of the first pass of its only item: float64 [iterations]."""
    placed = replace(job, settings=Settings(seed=SEED, device=device))
    return run_job(placed)[job.items[0].label][0].losses


def _compared(here: np.ndarray, there: np.ndarray) -> dict[str, float]:
    relative = np.abs(there - here) / np.maximum(np.abs(here), 1e-12)
    found = {"cpu": float(here[0]), "device": float(there[0]), "iterations": len(here)}
    return {**found, "difference": float(relative[:STEPS].max()), "last": float(relative[-1])}


def jobs(folder: Path, sizes: Sizes) -> Iterator[Job]:
    """A job a model, an item a strategy that executes."""
    costs = DatasheetCosts(presets.cluster("h200").device)
    graph = GrowthGraph.rmat(sizes.nodes, sizes.edges, sizes.snapshots, 0.1, SEED).sequence().without_self_edges()
    store.save(folder / "snapshots", graph)
    stats, cut = statistics_of(graph), Cut(np.zeros(graph.num_nodes, np.int32), 1)
    np.save(folder / "parts.npy", cut.assignment)
    chunks = Chunks((np.arange(graph.num_nodes) % SNAPSHOTS.recency.chunks).astype(np.int32), SNAPSHOTS.recency.chunks)
    np.save(folder / "chunks.npy", chunks.assignment)
    for name in MODELS:
        shape = model_shape(name, sizes.hidden, sizes.hidden, sizes.layers)
        work = Workload("losses", stats, shape, SNAPSHOTS, Partition(*cut.count(graph)), Counted(graph, chunks))
        out = folder / name
        out.mkdir()
        plans = _planned(work, costs)
        plans |= {f"all {form.name.lower()}": _forced(work, form) for form in Form}
        divided = {"parts": str(folder / "parts.npy"), **dict.fromkeys(("blocks", "hybrid"), str(folder / "chunks.npy"))}
        items = [_item(out, key, plan, folder / "snapshots", SNAPSHOTS, divided.get(plan.kind, "")) for key, plan in plans.items()]
        yield Job(name, tuple(items), str(out), ModelChoice(name, sizes.hidden, sizes.layers, sizes.hidden), 1)
    yield from _on_signals(folder, sizes)


def _planned(work: Workload, costs: CostModel) -> dict[str, Schedule]:
    """Of all strategies that execute and take the model: windows take graph convolutions alone."""
    found = {}
    for key, one in registry.of("snapshots").items():
        if one.executes:
            with suppress(UserError):
                found[key] = one.plan(work, 1, costs)
    return found


def _forced(work: Workload, form: Form) -> Schedule:
    """Every snapshot in one form."""
    forms = plain(len(work.snapshots.edges), form, form is Form.MAP or must_track(work))
    costs = DatasheetCosts(presets.cluster("h200").device)
    return lower(f"all-{form.name.lower()}", work, deal(work.groups, 1), Reuse(snapshots=form is not Form.FULL), costs, forms)


def _on_signals(folder: Path, sizes: Sizes) -> Iterator[Job]:
    costs, sensors, steps = DatasheetCosts(presets.cluster("polaris").device), sizes.sensors, 120
    ring, draw = np.arange(sensors), np.random.default_rng(SEED)
    edges = np.concatenate([np.stack([ring, (ring + hop) % sensors]) for hop in (1, 2)], axis=1).astype(np.int32)
    day = np.broadcast_to((np.arange(steps) % 24 / 24)[:, None], (steps, sensors))
    values = np.stack([draw.uniform(10, 70, (steps, sensors)), day], axis=2).astype(np.float32)
    signal = Signal(values, edges, np.ones(edges.shape[1], np.float32), calendar=1)
    store.save(folder / "signal", signal)
    for name in FORECASTERS:
        choice = ModelChoice(name, sizes.hidden, hops=2, heads=2)
        shape = forecaster_shape(choice, sensors, 2, SIGNALS.window, SIGNALS.horizon, calendar=1)
        stats = SignalStatistics(steps, sensors, 2, edges.shape[1], calendar=1)
        work, out = Workload("losses", stats, shape, SIGNALS), folder / name
        out.mkdir()
        items = []
        for key, one in registry.of("signals").items():
            before = out / f"{key}.prepare.parquet"
            one.prepare(work, 1, costs).save(before)
            items.append(_item(out, key, one.plan(work, 1, costs), folder / "signal", SIGNALS, prepare=str(before)))
        yield Job(name, tuple(items), str(out), choice, 1)


def _item(out: Path, label: str, plan: Schedule, data: Path, hyper: Hyper, parts: str = "", prepare: str = "") -> Item:
    file = out / f"{label.replace(' ', '-')}.parquet"
    plan.save(file)
    return Item(label, str(file), str(data), hyper, parts, prepare)
