"""Programs of one rank on snapshots and on windows, for tests that watch their rows; other ranks say nothing."""

from __future__ import annotations

import numpy as np
import torch

from chronoscale.batching.snapshots.chunks import Chunks, ExactChunking
from chronoscale.batching.snapshots.partition import VertexPartition
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.measurement.kernels import AbsentPeers
from chronoscale.real_exec.snapshots.cells.program import CellProgram
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.region import PartRegion, WholeRegion
from chronoscale.real_exec.snapshots.windows.program import WindowProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.snapshots.forms import Forms
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, Partition, Recency, Workload

CPU = torch.device("cpu")
NODES = 40
GRAPHS = GrowthGraph.rmat(NODES, 260, 16, 0.15, 3).sequence().without_self_edges()
HYPER = Hyper(group_size=4, groups_per_rank=2)


def groups(model: str, way: str, layers: int = 2, ranks: int = 1, device: torch.device = CPU) -> SnapshotProgram:
    """Groups on one of `ranks`, in a way to run them; `every`: all forms of snapshots, one after another."""
    work = Workload("w", statistics_of(GRAPHS), model_shape(model, 6, 5, layers), HYPER)
    forms = None
    if way == "every":
        kinds = np.resize(np.array([0, 1, 2], np.int8), len(GRAPHS))
        forms = Forms(kinds, True)
    reuse = {"psg": Reuse(), "blad": Reuse(pipeline=True)}.get(way, Reuse(snapshots=True, groups=True))
    schedule = lower(way, work, deal(work.groups, ranks, 2), reuse, UNUSED, forms).head(2)
    context = Context(device=device, collective=AbsentPeers(ranks))
    material = SnapshotMaterial(GRAPHS, 6, pin=device != CPU, weighted=work.model.spatial == "gcn")
    return SnapshotProgram(schedule, material, Learner(SnapshotModel(work.model), context), HYPER, context)


def cells(model: str, name: str, ranks: int, device: torch.device = CPU) -> CellProgram:
    """A rank's share of groups that are spread over `ranks`."""
    planner, shape = strategy(name), model_shape(model, 6, 5, 2)
    cut = VertexPartition((np.arange(NODES) % ranks).astype(np.int32), ranks)
    work = Workload("w", statistics_of(GRAPHS), shape, HYPER, Partition(*cut.count(GRAPHS)))
    schedule, others = planner.plan(work, ranks, UNUSED).head(2), AbsentPeers(ranks)
    context = Context(device=device, collective=others, exchange=others)
    material = SnapshotMaterial(GRAPHS, 6, pin=device != CPU, weighted=shape.spatial == "gcn")
    region = PartRegion(material, cut, 0, context.device) if planner.partitioned else WholeRegion(material)
    return CellProgram(schedule, region, Learner(SnapshotModel(shape), context), HYPER, context)


def blocks(model: str, name: str, ranks: int, device: torch.device = CPU) -> WindowProgram:
    """A rank's share of sliding windows."""
    hyper, chunks = Hyper(recency=Recency(Decay(2, 3, 0.4), 8)), Chunks((np.arange(NODES) % 8).astype(np.int32), 8)
    shape, others = model_shape(model, 6, 5, 2), AbsentPeers(ranks)
    work = Workload("w", statistics_of(GRAPHS), shape, hyper, chunking=ExactChunking(GRAPHS, chunks))
    context = Context(device=device, collective=others, exchange=others)
    schedule = strategy(name).plan(work, ranks, UNUSED)
    material = SnapshotMaterial(GRAPHS, 6, pin=device != CPU)
    return WindowProgram(schedule, material, chunks, Learner(SnapshotModel(shape), context), hyper, context)
