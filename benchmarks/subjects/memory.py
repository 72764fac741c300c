"""Planned peaks of epochs on snapshots are near what torch allocates on a CPU. `taken / planned` is exact but for the allocator."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product

from core.case import Case, Passes, Setting, Subject
from setups.profiled import bytes_held

from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import INLINE, CpuLanes
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.workload import Workload

STRATEGIES = ("psg", "blad", "real-type1", "real-reuse")


def taken(name: str, graph: GrowthGraph, model: str, layers: int, hidden: int) -> dict[str, float]:
    """Return bytes that torch held at most in an epoch, over the schedule's planned peak."""
    start = time.perf_counter()
    graphs, machine = graph.sequence().without_self_edges(), presets.local_cpu(1, 1e12, Link(1e9, 0))
    machine = replace(machine, device=replace(machine.device, streams=INLINE))
    costs, shape = DatasheetCosts(machine.device), model_shape(model, hidden, hidden, layers)
    work = Workload("memory", statistics_of(graphs), shape)
    schedule = strategy(name).plan(work, 1, costs)
    planned = float(peaks(schedule, replay(schedule, machine, costs))[0])
    context = Context()
    learner = Learner(SnapshotModel(shape), context)
    program = SnapshotProgram(schedule, SnapshotMaterial(graphs, hidden, weighted=shape.spatial == "gcn"), learner, work.hyper, context)
    execute(schedule, program, CpuLanes(False), "cpu")  # the optimiser's moments are there from now on
    peak = bytes_held(partial(execute, schedule, program, CpuLanes(False), "cpu"))
    ratio = (peak + schedule.resident) / planned  # parameters, gradients and moments were taken before
    return {"seconds": time.perf_counter() - start, "planned, MB": planned / 1e6, "taken / planned": ratio}


def measure(graph: GrowthGraph, model: str, layers: int, hidden: int, setting: Setting) -> Passes:
    """Compare every strategy once."""
    return {name: [taken(name, graph, model, layers, hidden)] for name in STRATEGIES}


def cases(quick: bool) -> Iterator[Case]:
    """Yield models by layers and widths."""
    graph = GrowthGraph.rmat(60, 300, 6, 0.1, 2) if quick else GrowthGraph.rmat(2000, 12000, 10, 0.1, 2)
    for model, layers, hidden in product(("t-gcn",), (1,), (8,)) if quick else product(MODELS, (1, 2), (8, 32)):
        yield Case({"model": model, "layers": layers, "hidden": hidden}, partial(measure, graph, model, layers, hidden))


SUBJECT = Subject(cases, 1)
