"""Cases: small jobs of every family, one a model, with an item for each strategy that executes and, on snapshots, for each form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chronoscale.batching.snapshots.chunks import Chunks, ExactChunking
from chronoscale.batching.snapshots.held_out import HeldOut
from chronoscale.batching.snapshots.partition import VertexPartition
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.errors import UserError
from chronoscale.harness.planning.schedules import plan_epoch
from chronoscale.real_exec.job import Item, Job
from chronoscale.simulator import presets
from chronoscale.strategies import registry
from chronoscale.strategies.costs import UNUSED, CostModel, DatasheetCosts
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.signals.forecasters import FORECASTERS, forecaster_shape
from chronoscale.strategies.snapshots.forms import must_track, uniform_forms
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.snapshots.variants import Form
from chronoscale.strategies.streams.models import STREAM_MODELS, shape_for
from chronoscale.strategies.workload import EventHyper, Hyper, ModelChoice, Partition, Recency, Workload

SEED = 3
SNAPSHOTS = Hyper(group_size=3, stride=2, seed=SEED, recency=Recency(Decay(2, 2, 0.5), 8))
SIGNALS = Hyper(batch_size=8, window=12, horizon=12, batches=4, seed=SEED)

Only = Callable[[str, str], bool]  # of a model and a strategy


def every_pair(model: str, strategy: str) -> bool:
    return True


class Sizes(NamedTuple):
    """Of the generated data: snapshots, their nodes and static edges; sensors; events, the nodes between which they are, and how many are a
    batch; hidden width and layers of models on snapshots."""

    snapshots: int = 12
    nodes: int = 2_000
    edges: int = 24_000
    sensors: int = 60
    events: int = 4_000
    between: int = 300
    batch: int = 300
    hidden: int = 32
    layers: int = 2


REHEARSED = Sizes(snapshots=7, nodes=60, edges=700, sensors=8, events=60, between=9, batch=7, hidden=8)


def jobs(folder: Path, sizes: Sizes, ranks: int = 1, held: HeldOut = SNAPSHOTS.held, only: Only = every_pair) -> Iterator[Job]:
    """Write the data and the schedules for so many ranks to an empty folder, and return the jobs, a family after another.

    held: snapshots that are not trained on. only: whether a model is trained by a strategy; all are."""
    yield from _on_snapshots(folder, sizes, ranks, replace(SNAPSHOTS, held=held), only)
    yield from _on_signals(folder, sizes, ranks, only)
    yield from _on_streams(folder, sizes, ranks, only)


def _on_snapshots(folder: Path, sizes: Sizes, ranks: int, hyper: Hyper, only: Only) -> Iterator[Job]:
    costs = DatasheetCosts(presets.cluster("h200").device)
    graph = GrowthGraph.rmat(sizes.nodes, sizes.edges, sizes.snapshots, 0.1, SEED).sequence().without_self_edges()
    store.save(folder / "snapshots", graph)
    stats, cut = statistics_of(graph), VertexPartition((np.arange(graph.num_nodes) % ranks).astype(np.int32), ranks)
    np.save(folder / "parts.npy", cut.assignment)
    chunks = Chunks((np.arange(graph.num_nodes) % hyper.recency.chunks).astype(np.int32), hyper.recency.chunks)
    np.save(folder / "chunks.npy", chunks.assignment)
    for name in MODELS:
        shape = model_shape(name, sizes.hidden, sizes.hidden, sizes.layers)
        work = Workload("cases", stats, shape, hyper, Partition(*cut.count(graph)), ExactChunking(graph, chunks))
        out = folder / name
        out.mkdir()
        plans = _planned(work, ranks, costs, only)
        plans |= {label: _forced(work, ranks, form) for form in Form if only(name, label := f"all {form.name.lower()}")}
        plans |= {label: _sharing(work, ranks) for label in ("all rows",) if only(name, label)}
        divided = {"parts": str(folder / "parts.npy"), **dict.fromkeys(("blocks", "hybrid"), str(folder / "chunks.npy"))}
        items = [_item(out, key, plan, folder / "snapshots", hyper, divided.get(plan.kind, "")) for key, plan in plans.items()]
        yield Job(name, tuple(items), str(out), ModelChoice(name, sizes.hidden, sizes.layers, sizes.hidden), 1)


def _planned(work: Workload, ranks: int, costs: CostModel, only: Only) -> dict[str, Schedule]:
    """Plan with all strategies that execute and take the model: windows take graph convolutions alone, shared memory models with memory."""
    plans = {}
    for key, one in registry.of(work.family).items():
        if one.executes and only(work.model.name, key):
            with suppress(UserError):
                plans[key] = plan_epoch(one, work, ranks, costs)
    return plans


def _forced(work: Workload, ranks: int, form: Form) -> Schedule:
    """Every snapshot in one form."""
    forms = uniform_forms(len(work.snapshots.edges), form, form is Form.MAP or must_track(work))
    costs = DatasheetCosts(presets.cluster("h200").device)
    return lower(f"all-{form.name.lower()}", work, deal(work.groups, ranks), Reuse(snapshots=form is not Form.FULL), costs, forms)


def _sharing(work: Workload, ranks: int) -> Schedule:
    """Pairs of groups, which share rows where the model's can be shared."""
    costs = DatasheetCosts(presets.cluster("h200").device)
    return lower("all-rows", work, deal(work.groups, ranks, 2), Reuse(snapshots=True, groups=True, rows=True), costs)


def _on_signals(folder: Path, sizes: Sizes, ranks: int, only: Only) -> Iterator[Job]:
    costs, sensors, steps = DatasheetCosts(presets.cluster("polaris").device), sizes.sensors, 120
    ring, draw = np.arange(sensors), np.random.default_rng(SEED)
    edges = np.concatenate([np.stack([ring, (ring + hop) % sensors]) for hop in (1, 2)], axis=1).astype(np.int32)
    day = np.broadcast_to((np.arange(steps) % 24 / 24)[:, None], (steps, sensors))
    values = np.stack([draw.uniform(10, 70, (steps, sensors)), day], axis=2).astype(np.float32)
    signal = Signal(values, edges, np.ones(edges.shape[1], np.float32), calendar=1)
    store.save(folder / "signal", signal)
    for name in FORECASTERS:
        choice = ModelChoice(name, sizes.hidden, FORECASTERS[name].least_layers(SIGNALS.window), hops=2, heads=2)
        shape = forecaster_shape(choice, sensors, 2, SIGNALS.window, SIGNALS.horizon, calendar=1)
        stats = SignalStatistics(steps, sensors, 2, edges.shape[1], calendar=1)
        work, out = Workload("cases", stats, shape, SIGNALS), folder / name
        out.mkdir()
        items = []
        for key, one in registry.of("signals").items():
            if not only(name, key):
                continue
            before = out / f"{key}.prepare.parquet"
            one.prepare(work, ranks, costs).save(before)
            items.append(_item(out, key, plan_epoch(one, work, ranks, costs), folder / "signal", SIGNALS, prepare=str(before)))
        yield Job(name, tuple(items), str(out), choice, 1)


def _on_streams(folder: Path, sizes: Sizes, ranks: int, only: Only) -> Iterator[Job]:
    """With ties, self-loops, repeated edges, and a node without events."""
    draw = np.random.default_rng(SEED)
    src, dst = draw.integers(0, sizes.between - 1, (2, sizes.events)).astype(np.int32)
    t = np.sort(draw.integers(0, sizes.events // 2, sizes.events)).astype(np.int64)
    edges, nodes = (draw.standard_normal((count, width)).astype(np.float32) for count, width in ((sizes.events, 2), (sizes.between, 3)))
    store.save(folder / "stream", EventStream(sizes.between, src, dst, t, edges, None, name="cases", node_features=nodes))
    PreparedStream.make(folder / "prepared", folder / "stream", Protocol(ranked=3))
    stats = stream_statistics(PreparedStream.load(folder / "prepared"))
    for name, model in STREAM_MODELS.items():
        choice = ModelChoice(name, sizes.hidden, heads=2, inputs=4, time=4, mails=3)
        events = EventHyper(windows=3, duration=sizes.events / 10) if model.windowed else EventHyper()
        hyper, out = Hyper(batch_size=sizes.batch, fanout=(3,), events=events, seed=SEED), folder / name
        work = Workload("cases", stats, shape_for(choice, stats, hyper), hyper)
        out.mkdir()
        items = [_item(out, key, plan, folder / "prepared", hyper) for key, plan in _planned(work, ranks, UNUSED, only).items()]
        yield Job(name, tuple(items), str(out), choice, 1)


def _item(out: Path, label: str, plan: Schedule, data: Path, hyper: Hyper, parts: str = "", prepare: str = "") -> Item:
    file = out / f"{label.replace(' ', '-')}.parquet"
    plan.save(file)
    return Item(label, str(file), str(data), hyper, parts, prepare)
