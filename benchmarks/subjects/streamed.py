"""An epoch that no memory holds is planned, replayed and added up stretch by stretch: DistDGL on 10,000 snapshots (REAL §7.5, App. G).

On one core; `peak, GB` is of the whole process. Counts of the graph are drawn as `dygraph_10k` has them, times 100; parts hold even
shares, as where METIS cannot cut. Reading a data set and its partition is not in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
from core.case import Case, Passes, Setting, Subject
from setups.process import fresh, memory

from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.simulator import presets
from chronoscale.simulator.long_epochs.replay import replay_stretches
from chronoscale.strategies.baselines.snapshots.distdgl import DistDGL
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, Partition, Workload

SCALE = 100


def replay(snapshots: int, ranks: int, layers: int) -> dict[str, float]:
    """Replay one epoch."""
    graph = EvolvingGraph(nodes=3000, edges=30_000, snapshots=snapshots)
    stats, part = graph.statistics().scaled(SCALE), np.arange(ranks)
    rows = np.broadcast_to((stats.num_nodes + ranks - 1 - part) // ranks, (snapshots, ranks))
    edges = (stats.edges[:, None] + ranks - 1 - part) // ranks
    halo = np.minimum(edges, stats.num_nodes - rows)
    work = Workload(graph.name, stats, model_shape("wd-gcn", 64, 64, layers), Hyper(), Partition(rows, edges, halo, halo))
    cluster = presets.scaled(presets.cluster("h200"), ranks)
    costs, start = DatasheetCosts(cluster.device), time.perf_counter()
    result = replay_stretches(DistDGL().stretches(work, ranks, costs), cluster, costs)
    spent = time.perf_counter() - start
    epoch = {"epoch, s": result.summary.epoch_s, "rows": result.rows, "rows/s": result.rows / spent}
    return {"seconds": spent, **epoch, "peak, GB": memory("VmHWM") / 1e9}


def measure(snapshots: int, ranks: int, layers: int, setting: Setting) -> Passes:
    """Replay in a process of its own."""
    return {"streamed": [fresh(replay, snapshots, ranks, layers) for _ in range(setting.repeats)]}


def cases(quick: bool) -> Iterator[Case]:
    """Yield layers by GPUs."""
    for layers, ranks in ((1, 2),) if quick else product((1, 2), (4, 64, 1024)):
        yield Case({"layers": layers, "gpus": ranks}, partial(measure, 8 if quick else 10_000, ranks, layers))


SUBJECT = Subject(cases, 1)
