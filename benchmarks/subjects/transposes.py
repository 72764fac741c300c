"""One transpose a snapshot, shared by its copies, takes less time than one at every arrival, on a CPU.

Epochs of psg in one process, 32 wide; `backward, ms`: of the rows that need transposes. Rival: a transpose anew at every arrival; losses
are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from core.case import Case, Passes, Setting, Subject
from core.turns import in_turns

from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Workload


def measure(size: tuple[int, int, int], model: str, layers: int, width: int, setting: Setting) -> Passes:
    """Execute epochs with and without shared transposes in turn."""
    graphs = GrowthGraph.rmat(*size, 0.1, 2).sequence().without_self_edges()
    shape = model_shape(model, width, width, layers)
    work = Workload("transposes", statistics_of(graphs), shape)
    schedule, context = strategy("psg").plan(work, 1, UNUSED), Context()
    material = SnapshotMaterial(graphs, width, weighted=shape.spatial == "gcn")
    program = SnapshotProgram(schedule, material, Learner(SnapshotModel(shape), context), work.hyper, context)

    def epoch(shares: bool) -> dict[str, float]:
        program.shares = shares
        trace = execute(schedule, program, CpuLanes(False), "cpu").trace
        return {"seconds": trace.span_ns / 1e9, "backward, ms": trace.duration_ns[trace.op == Op.BACKWARD].sum() / 1e6}

    ways = {"shared": partial(epoch, True), "anew": partial(epoch, False)}
    in_turns(ways, 1)
    return in_turns(ways, setting.repeats)


def cases(quick: bool) -> Iterator[Case]:
    """Yield graphs by models and layers."""
    sizes = ((60, 300, 5),) if quick else ((2_000, 12_000, 10), (20_000, 400_000, 8))
    for nodes, edges, snapshots in sizes:
        for model, layers in (("wd-gcn", 2), ("t-gcn", 2), ("gat-lstm", 1), ("gat-lstm", 2)):
            parameters = {"nodes": nodes, "edges": edges, "model": model, "layers": layers}
            yield Case(parameters, partial(measure, (nodes, edges, snapshots), model, layers, 4 if quick else 32))


SUBJECT = Subject(cases, 10)
