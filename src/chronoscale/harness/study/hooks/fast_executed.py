"""FAST, executed: epochs on parts of stand-ins on this machine, strategies in turn; and what an epoch's time goes to."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.sampling.presampling import sample_batches
from chronoscale.batching.streams.sampling.redundancy import BATCH, FANOUT
from chronoscale.datasets import store
from chronoscale.datasets.streams import draws
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.harness.study.execution import streams_in_turn
from chronoscale.harness.study.hooks.fast import bed
from chronoscale.harness.study.point import StudyPoint
from chronoscale.harness.study.testbeds.host_streams import stand_in
from chronoscale.real_exec.job import Settings
from chronoscale.strategies.evaluation.metrics import time_by_op
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.streams.strategy import StreamStrategy
from chronoscale.strategies.workload import EventHyper, Hyper

PARTS: Mapping[str, tuple[Op, ...]] = {
    "sampling": (Op.SAMPLE,),
    "memory I/O": (Op.GATHER, Op.H2D, Op.D2H, Op.MEMORY_READ, Op.MEMORY_WRITE, Op.COPY),
    "computing": (Op.MEMORY_UPDATE, Op.AGGREGATE, Op.FORWARD, Op.BACKWARD, Op.OPTIMIZE),
}


def by_part(spent: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of sampling, memory I/O and computing, for FAST's Figure 1. spent: seconds by name of operation."""
    return {part: sum(spent.get(op.name, 0.0) for op in ops) for part, ops in PARTS.items()}


def shares(spent: Mapping[str, float]) -> dict[str, float]:
    """Return the shares of sampling, memory I/O and computing in an epoch where nothing overlaps; they add up to 1 (FAST's Figure 1).

    spent: seconds by operation name.
    """
    seconds_by_part = by_part(spent)
    return {part: share / sum(seconds_by_part.values()) for part, share in seconds_by_part.items()}


def stream(dataset: str, events: int) -> EventStream:
    """Return the first `events` of a data set's generated stand-in, with random features of published widths, for FAST's executed studies.

    It is as dense as the whole one: fewer events have fewer nodes.
    """
    of, whole = bed().counts(dataset), stand_in(dataset)
    cut = whole.shortened(events) if events < len(whole) else whole
    return replace(cut, features=of["edge_width"], node_features=of["node_width"]).stream()


def hyper_of(point: StudyPoint) -> Hyper:
    """Return the hyperparameters of an epoch that a study of FAST executes on this machine.

    Settings: `batches`, spread evenly over the training part of `events`; `cached`: share of the features that caches hold.
    """
    wanted = point.setting("batches")
    every = max(-(-round(point.setting("events") * Protocol().train) // BATCH) // wanted, 1)
    events = EventHyper(Protocol(), every=every, cache_ratio=point.setting("cached", 1.0), presample=min(100, wanted * every))
    return Hyper(batch_size=BATCH, fanout=(FANOUT,) * bed().layers, validate=False, events=events)


def executed(point: StudyPoint) -> dict[str, Any]:
    """Execute strategies in turn on this machine and return their epochs' seconds, for FAST's Figures 1 and 11 and Table 6.

    Settings: `strategies`, `epochs` of each after a warm-up; `events`, `batches` and `cached` as in `hyper_of`; `hidden` width; `bus`:
    bytes/s that host-to-device transfers are held to, 0: as they come. By strategy: seconds of `epochs`, their `median`, `seconds` by
    operation of the middle one. Raises UserError or MachineError with the failed rank's own line.
    """
    of, hyper = dict(point.settings), hyper_of(point)
    names, choice = point.setting("strategies"), bed().choice(point.model, of["hidden"])
    settings = Settings(4, 1e-4, device="cpu", bus=of.get("bus", 0.0))
    events = stream(point.dataset, of["events"])
    executed = streams_in_turn({name: (name, hyper) for name in names}, events, choice, 1, of["epochs"], 1, settings)
    result = {}
    for name, passes in executed.items():
        spans = [one.trace.span_ns for one in passes]
        middle = passes[int(np.argsort(spans, kind="stable")[(len(spans) - 1) // 2])]
        seconds = {str(op): float(s) for op, s in time_by_op(middle.trace).items()}
        result[name] = {"epochs": [span / 1e9 for span in spans], "median": float(np.median(spans)) / 1e9, "seconds": seconds}
    return result


def before(point: StudyPoint) -> dict[str, float]:
    """Measure how long a strategy prepares before training, in this process, for FAST's Figure 11 and Table 6.

    Seconds of filling the cache (`residents`), of sampling `hyper_of`'s batches (`sample`) and of compressing them (`compress`: finding
    rows that a batch needs repeatedly); `presampled`: batches sampled to fill the cache.
    """
    data, hyper, planner = (
        PreparedStream.of(stream(point.dataset, point.setting("events")), Protocol()),
        hyper_of(point),
        strategy(point.strategy),
    )
    assert isinstance(planner, StreamStrategy)
    shape = shape_for(bed().choice(point.model, point.setting("hidden")), stream_statistics(data), hyper)
    sampling, loading = planner.feeding.sampling(hyper, shape), planner.feeding.loading(hyper, shape)
    begun = time.perf_counter()
    residents = data.residents(1, BATCH, sampling, 0, loading)
    filled = time.perf_counter() - begun
    deal = data.assignment(False, 1, BATCH, 0, hyper.events.every)
    others, seed, compress = data.negatives_of(False, 0, 0), draws.derive_key(0, 0), 0.0
    begun = time.perf_counter()
    for _, batch in sample_batches(data.training, deal, sampling, others, seed):
        at = time.perf_counter()
        residents.load(batch, data.training)
        compress += time.perf_counter() - at
    sample = time.perf_counter() - begun - compress
    return {"residents": filled, "sample": sample, "compress": compress, "presampled": hyper.events.presample}


def stored(point: StudyPoint) -> dict[str, float]:
    """Measure the bytes on disk of a stream prepared for training, without features, for FAST's Table 6.

    Returns {'an_event': bytes an event}, measured on a part of the generated stream of `events` (a setting).
    """
    events = point.setting("events")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store.save(folder / "stream", stand_in(point.dataset).shortened(events).stream())
        PreparedStream.make(folder / "prepared", Path("..") / "stream", Protocol())
        return {"an_event": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / events}
