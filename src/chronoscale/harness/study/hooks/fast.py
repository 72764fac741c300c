"""FAST: the generated streams that stand for its data sets, and the redundancy of what is sampled for their batches."""

from __future__ import annotations

from typing import Any

from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.redundancy import BATCH, measure_redundancy
from chronoscale.datasets import catalogue
from chronoscale.datasets.generate.sessions import SessionStream
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.harness.study.point import StudyPoint
from chronoscale.strategies.streams.models import FP32

NAMES = ("lastfm", "wikitalk", "bitcoin", "gdelt")
MOST, BATCHES = 8_000_000, 200  # events that are generated; batches that are sampled, and as many after them
QUICK, QUICK_BATCHES = 400_000, 40


def stand_in(dataset: str) -> SessionStream:
    """The generator of what stands for a data set."""
    made = catalogue.load_generator(f"{dataset}_like")
    assert isinstance(made, SessionStream)
    return made


def counts(dataset: str) -> dict[str, int]:
    """Return the nodes and events of a stand-in."""
    made = stand_in(dataset)
    return {"nodes": made.nodes, "events": made.events}


def gib(rows: float, width: float) -> float:
    """Return the GiB of float32 features."""
    return rows * width * FP32 / 2.0**30


def sampled(point: StudyPoint) -> dict[str, Any]:
    """Generate, index and sample a stand-in, and return its rates, in per cent, and shares of degrees; `events` of `whole`, at a pace.

    Setting `short`: shortened, but for LastFM's, whose nodes come and go over all of it.
    """
    whole, short = stand_in(point.dataset), point.setting("short")
    most = QUICK if short and not whole.items else MOST
    made = whole.shortened(most) if len(whole) > most else whole
    events = made.stream()
    deal = BatchAssignment(range(len(events)), 1, BATCH, every=max(len(events) // BATCH // (QUICK_BATCHES if short else BATCHES), 1))
    found = measure_redundancy(IndexedStream(events, TCSR.of(events)), deal)
    names = [f"{what}, {of}" for what in ("match", "repeat") for of in ("node", "edge")]
    rates = dict(zip([*names, "unbalance"], (*found.match, *found.repeat, found.unbalance), strict=True))
    return {
        "rates": {name: float(rate) * 100 for name, rate in rates.items()},
        "degree": found.degree,
        "degree_of_found": found.degree_of_found,
        "distribution": [float(share) for share in found.distribution],
        "shares": [float(share) for share in (found.distribution[0], found.distribution[1:-1].sum(), found.distribution[-1])],
        "events": len(made),
        "whole": len(whole),
        "nodes": made.nodes,
        "batches": deal.iterations,
        "part": "" if len(made) == len(whole) else f"{len(made):,} of {len(whole):,} events",
    }
