"""Executed: epochs on a part of a stand-in on this machine, strategies in turn; each once a process."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.sampling.presampling import sample_batches
from chronoscale.batching.streams.sampling.redundancy import BATCH, FANOUT
from chronoscale.datasets import store
from chronoscale.datasets.streams import draws
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.harness.execute.jobs import make_item
from chronoscale.harness.runs.passes import load_passes
from chronoscale.harness.study.hooks.fast import stand_in
from chronoscale.harness.study.hooks.fast_points import HEADS, HIDDEN, LAYERS, TIME, widths_of
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.streams.models import shape_for, shape_of
from chronoscale.strategies.streams.strategy import StreamStrategy
from chronoscale.strategies.workload import EventHyper, Hyper, ModelChoice, Workload


@dataclass(frozen=True, slots=True)
class Executed:
    """`batches` of the training events, evenly over those of a stand-in cut to `events`, as an epoch; `epochs` after one to warm up.

    bus: bytes a second that transfers are held to, 0: none. ratio: share of the features that caches have.
    """

    dataset: str
    model: str
    strategies: tuple[str, ...]
    events: int
    batches: int
    epochs: int
    bus: float = 0.0
    threads: int = 4
    ratio: float = 1.0
    hidden: int = HIDDEN


@cache
def stream(dataset: str, events: int) -> EventStream:
    """The first so many events of a stand-in at its own pace, with features of the published widths."""
    widths, whole = widths_of(dataset), stand_in(dataset)
    cut = whole.shortened(events) if events < len(whole) else whole
    return replace(cut, features=widths["edge_width"], node_features=widths["node_width"]).stream()


def workload(one: Executed, data: PreparedStream) -> Workload:
    """As in `points`, at the part's own widths."""
    every = max(-(-data.training_events // BATCH) // one.batches, 1)
    events = EventHyper(Protocol(), every=every, cache_ratio=one.ratio, presample=min(100, one.batches * every))
    hyper = Hyper(batch_size=BATCH, fanout=(FANOUT,) * LAYERS, validate=False, events=events)
    return Workload(one.dataset, stream_statistics(data), shape_for(choice(one), stream_statistics(data), hyper), hyper)


def choice(one: Executed) -> ModelChoice:
    """The model."""
    return ModelChoice(one.model, one.hidden, LAYERS, one.hidden, heads=HEADS, time=TIME)


@cache
def passes(one: Executed) -> dict[str, list[Pass]]:
    """By strategy, an epoch a pass, in one job on one rank. Raises UserError or MachineError with the worker's own line when it fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store.save(folder / "stream", stream(one.dataset, one.events))
        data = PreparedStream.make(folder / "prepared", Path("..") / "stream", Protocol())
        work = workload(one, data)
        items = [
            make_item(folder, label, strategy(label).plan(work, 1, UNUSED), folder / "prepared", work.hyper) for label in one.strategies
        ]
        settings = Settings(one.threads, 1e-4, device="cpu", bus=one.bus)
        launch(Job("study", tuple(items), str(folder), choice(one), one.epochs, 1, settings), 1, folder)
        return {label: load_passes(folder, label) for label in one.strategies}


def seconds(found: list[Pass]) -> float:
    """Of the median epoch."""
    return float(np.median([one.trace.span_ns for one in found])) / 1e9


@dataclass(frozen=True, slots=True)
class Sampled:
    """Seconds of what happens before an epoch and on its host: to choose what is cached (`residents`), to sample its batches, and to
    compress them (`Residents.load`)."""

    residents: float
    sample: float
    compress: float


@cache
def timed(one: Executed, name: str) -> Sampled:
    """Of one strategy's batches, in this process."""
    data = PreparedStream.of(stream(one.dataset, one.events), Protocol())
    work, planner = workload(one, data), strategy(name)
    assert isinstance(planner, StreamStrategy)
    sampling, loading = planner.feeding.sampling(work.hyper, shape_of(work)), planner.feeding.loading(work.hyper, shape_of(work))
    begun = time.perf_counter()
    residents = data.residents(1, BATCH, sampling, 0, loading)
    filled = time.perf_counter() - begun
    deal = data.assignment(False, 1, BATCH, 0, work.hyper.events.every)
    others, seed, compress = data.negatives_of(False, 0, 0), draws.derive_key(0, 0), 0.0
    begun = time.perf_counter()
    for _, found in sample_batches(data.training, deal, sampling, others, seed):
        at = time.perf_counter()
        residents.load(found, data.training)
        compress += time.perf_counter() - at
    return Sampled(filled, time.perf_counter() - begun - compress, compress)
