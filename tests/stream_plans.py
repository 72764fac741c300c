"""Plans of a small stream, for tests of them."""

from __future__ import annotations

from functools import cache

from stream_case import choice, stream

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.workload import Hyper, Workload

POLARIS = presets.scaled(presets.cluster("polaris"), 1024)
COSTS = DatasheetCosts(POLARIS.device)


@cache
def data(events: int = 60, nodes: int = 9, **protocol: object) -> PreparedStream:
    return PreparedStream.of(stream(events=events, nodes=nodes, labels=True), Protocol(**protocol))  # type: ignore[arg-type]


def work(model: str, given: Hyper, of: PreparedStream | None = None, **other: object) -> Workload:
    stats = stream_statistics(of or data())
    return Workload("small", stats, shape_for(choice(model, **other), stats, given), given)


def plan(name: str, workload: Workload, ranks: int = 1) -> Schedule:
    return strategy(name).plan(workload, ranks, COSTS)
