"""Points: an epoch of a strategy on a stand-in, planned on some of its batches and replayed on one A100; each once a process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, partial

import numpy as np

from chronoscale.batching.streams.caching.loading import Loading
from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.batching.streams.sampling.redundancy import BATCH, FANOUT
from chronoscale.batching.streams.statistics import BatchStatistics, count_batches
from chronoscale.datasets.streams import draws
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.harness.study.hooks.fast import MOST, QUICK, stand_in
from chronoscale.harness.study.hooks.fast_costs import Rates, ServerCosts
from chronoscale.reports.published import published
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.evaluation.metrics import time_by_op
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.streams.feeding import StreamFeeding
from chronoscale.strategies.streams.models import FP32, shape_for
from chronoscale.strategies.streams.strategy import StreamStrategy
from chronoscale.strategies.workload import EventHyper, Hyper, ModelChoice, Workload

LAYERS, HIDDEN, HEADS, TIME = 2, 100, 2, 100  # §6.1 prints layers alone; the rest is of TGL's configurations
WINDOWS = 3  # of DySAT, TGL's configuration
BATCHES, QUICK_BATCHES = 32, 6  # of an epoch that are planned
PRESAMPLE, QUICK_PRESAMPLE = 400, 20
WINDOW_EVENTS = 20 * BATCH  # events that a window of DySAT is as long as, on average
SIMPLE_RATIO = 0.1  # §6.1
TGL = "sequential"  # as released: nothing overlaps


@dataclass(frozen=True, slots=True)
class Point:
    """ratio: share of the features that a cache has. ahead: batches that are fetched ahead in place of the strategy's own; -1: its own.
    once: rows cross the bus once a batch, also where the strategy sends one a slot. presample: batches; 0: as many as `PRESAMPLE`."""

    dataset: str
    model: str
    strategy: str
    quick: bool = False
    ratio: float = 0.0
    ahead: int = -1
    once: bool = False
    presample: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of an epoch of the paper's length: seconds; those that operations take, by name (lanes overlap); bytes of a device at most."""

    epoch_s: float
    seconds: Mapping[str, float]
    device_bytes: float


@cache
def prepared(dataset: str, quick: bool) -> PreparedStream:
    """A stand-in's events, without features, split by time; no more of them than `MOST`."""
    whole, most = stand_in(dataset), QUICK if quick else MOST
    short = len(whole) > most and not (quick and whole.items)
    return PreparedStream.of((whole.shortened(most) if short else whole).stream(), Protocol())


def iterations(dataset: str) -> int:
    """Batches of the published events that train."""
    return -(-round(widths_of(dataset)["edges"] * Protocol().train) // BATCH)


def widths_of(dataset: str) -> dict[str, int]:
    """Table 3: nodes, edges, node_width, edge_width."""
    line = next(line for line in published("fast").tables[3].rows if line["dataset"] == dataset)
    return {what: int(float(line[what])) for what in ("nodes", "edges", "node_width", "edge_width")}


def planned(point: Point) -> Workload:
    """A workload of Table 3's widths, whose batches are counted on the stand-in, evenly over its training events."""
    data = prepared(point.dataset, point.quick)
    batches, of = (QUICK_BATCHES if point.quick else BATCHES), -(-data.training_events // BATCH)
    presample = 1 if point.ratio == 1 else point.presample or (QUICK_PRESAMPLE if point.quick else PRESAMPLE)
    windows = WINDOWS if point.model == "dysat" else 1
    span = float(np.asarray(data.whole.stream.t[data.training_events - 1]) - np.asarray(data.whole.stream.t[0]))
    events = EventHyper(
        Protocol(), every=max(of // batches, 1), cache_ratio=point.ratio, presample=presample,
        windows=windows, duration=span * WINDOW_EVENTS / data.training_events if windows > 1 else 0.0,
    )  # fmt: skip
    hyper = Hyper(batch_size=BATCH, fanout=(FANOUT,) * LAYERS, validate=False, events=events)
    widths = widths_of(point.dataset)
    stats = replace(
        stream_statistics(data), node_width=widths["node_width"], edge_width=widths["edge_width"], work=partial(_work, data, batches)
    )
    choice = ModelChoice(point.model, HIDDEN, LAYERS, HIDDEN, heads=HEADS, time=TIME)
    return Workload(point.dataset, stats, shape_for(choice, stats, hyper), hyper)


def _work(
    data: PreparedStream, batches: int, validates: bool, ranks: int, size: int, sampling: Sampling, limit: int, every: int, loading: Loading
) -> BatchStatistics:
    """As `PreparedStream.work`; where what is cached changes from batch to batch, of consecutive batches from the middle of the training
    events: three times as many as are planned, of which the first third fills the cache and the last gives it something to keep."""
    if loading.placement is None or not loading.placement.dynamic:
        return data.work(validates, ranks, size, sampling, limit, every, loading)
    key = f"middle {batches} {sampling} {loading}"
    if key not in data.cache.values:
        first = max(data.training_events // 2 - 3 * batches * size // 2, 0)
        deal = BatchAssignment(range(first, min(first + 3 * batches * size, data.training_events)), ranks, size)
        others, seed = data.negatives_of(False, 0, data.protocol.seed), draws.derive_key(data.protocol.seed, 0)
        found = count_batches(data.training, deal, sampling, others, seed, data.residents(ranks, size, sampling, limit, loading))
        third = slice(len(found) // 3, len(found) // 3 + batches)
        data.cache.values[key] = BatchStatistics(**{field.name: getattr(found, field.name)[third] for field in fields(found)})
    one = data.cache.values[key]
    assert isinstance(one, BatchStatistics)
    return one


@cache
def schedule_of(point: Point) -> Schedule:
    """Of the batches that are planned."""
    planner = strategy(point.strategy)
    assert isinstance(planner, StreamStrategy)
    feeding = replace(planner.feeding, compressed=planner.feeding.compressed or point.once)
    ahead = planner.ahead if point.ahead < 0 else point.ahead
    return replace(planner, feeding=feeding, ahead=ahead).plan(planned(point), 1, UNUSED)


@cache
def simulate(point: Point, rates: Rates) -> Outcome:
    """An epoch of the paper's length: that of the planned batches, as many times as long as it has batches."""
    schedule = schedule_of(point)
    costs = ServerCosts(rates, StreamFeeding.of(schedule).operators == "edges" or point.strategy == "fast")
    trace = replay(schedule, rates.cluster, costs)
    factor = iterations(point.dataset) / schedule.iterations
    spent = {str(op): factor * float(s) for op, s in time_by_op(trace).items()}
    return Outcome(factor * trace.span_ns / 1e9, spent, float(peaks(schedule, trace).max()))


def ratio(dataset: str, model: str, quick: bool) -> float:
    """Share of the features that FAST's cache has: all, or what a device of 40 GB has beside an epoch without a cache (§5, Table 6)."""
    widths = widths_of(dataset)
    rates = Rates(1e9, 1e9)  # what is held does not depend on them
    beside = simulate(Point(dataset, model, "fast-compressed", quick), rates).device_bytes
    whole = FP32 * sum(widths[f"{what}s"] * widths[f"{what}_width"] for what in ("node", "edge"))
    return float(min(1.0, np.floor(100 * (rates.cluster.device.memory - beside) / whole) / 100))
