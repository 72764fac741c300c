"""Golden spans: how long an epoch of every strategy takes on a small workload of its family, on two machines of four GPUs (Polaris).

    python tests/golden_spans.py

writes `simulator/golden.json` anew, after a change that is meant to move what it holds: ns where the host launches kernel by kernel, which
is most of what so small ones take, and where it launches CUDA graphs. Preparations stand as `NAME, preparation`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from stream_case import choice, stream

from chronoscale.batching.snapshots.chunks import Chunks, ExactChunking
from chronoscale.batching.snapshots.partition import VertexPartition
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.simulator import presets
from chronoscale.simulator.engine import Engine, replay
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import STRATEGIES, strategy
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.signals.forecasters import forecaster_shape
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.workload import EventHyper, Hyper, ModelChoice, Partition, Recency, SharingHyper, Workload

FILE = Path(__file__).parent / "simulator" / "golden.json"
RANKS, PREPARED = 8, ", preparation"
CLUSTER = presets.scaled(presets.cluster("polaris"), RANKS)
COSTS = DatasheetCosts(CLUSTER.device, engine=CLUSTER.engine)
CASES = sorted([*STRATEGIES, *(f"{name}{PREPARED}" for name, one in STRATEGIES.items() if one.prepares)])


def snapshots() -> Workload:
    nodes, chunks = 200, 64
    graphs = GrowthGraph.rmat(nodes, 2000, 40, 0.1, 1).sequence().without_self_edges()
    cut = VertexPartition((np.arange(nodes) % RANKS).astype(np.int32), RANKS)
    hyper = Hyper(fanout=(3,), seed=7, recency=Recency(Decay(2, 3, 0.25), chunks))
    counted = ExactChunking(graphs, Chunks((np.arange(nodes) * chunks // nodes).astype(np.int32), chunks))
    shape = model_shape("t-gcn", 2, 8, 2, 2)
    return Workload("snapshots", statistics_of(graphs), shape, hyper, Partition(*cut.count(graphs), origin="by number"), counted)


def signals() -> Workload:
    hyper = Hyper(window=3, horizon=2, batch_size=3)
    shape = forecaster_shape(ModelChoice("dcrnn", 4), 5, 2, hyper.window, hyper.horizon)
    return Workload("signals", SignalStatistics(200, 5, 2, 7, 4), shape, hyper)


def streams() -> Workload:
    data = stream_statistics(PreparedStream.of(stream(events=400, nodes=40, labels=True), Protocol(ranked=3)))
    hyper = Hyper(batch_size=7, fanout=(3,), events=EventHyper(sharing=SharingHyper(shared=0.25, theta=0.5)))
    return Workload("streams", data, shape_for(choice("tgn", clock="linear"), data, hyper), hyper)


@cache
def workload(family: str) -> Workload:
    return {"snapshots": snapshots, "signals": signals, "streams": streams}[family]()


@cache
def planned(case: str) -> Schedule:
    planner = strategy(case.removesuffix(PREPARED))
    plan = planner.prepare if case.endswith(PREPARED) else planner.plan
    return plan(workload(planner.family), RANKS, COSTS)


def spans_ns(case: str, engine: Engine = "native") -> list[int]:
    """Launched one by one, and as graphs."""
    return [int(replay(planned(case), CLUSTER, costs, engine).span_ns) for costs in (COSTS, replace(COSTS, launch="graph"))]


def main() -> None:
    FILE.write_text("{\n" + ",\n".join(f' "{case}": {spans_ns(case)}' for case in CASES) + "\n}\n")


if __name__ == "__main__":
    main()
