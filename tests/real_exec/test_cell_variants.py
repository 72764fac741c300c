"""Variants of rows on cells say which implementation runs: what an execution finds before and after each row of sliding windows."""

import numpy as np
import pytest

from chronoscale.batching.snapshots.chunks import Chunks, ExactChunking
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.snapshots import probe
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import learner_of
from chronoscale.real_exec.snapshots.windows.program import WindowProgram
from chronoscale.strategies.costing.request import descriptor_ranges
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Lane, Op
from chronoscale.strategies.snapshots.cell_variants import CellAggregate, CellBackward, CellNumbering, CellTemporal, CellTransfer
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Recency, Workload

GRAPHS = GrowthGraph.rmat(48, 200, 11, 0.2, 2).sequence().without_self_edges()
CHUNKS = Chunks((np.arange(GRAPHS.num_nodes) % 16).astype(np.int32), 16)
CASES = [*((name, "t-gcn") for name in ("full-history", "flaredtdg", "flaredtdg-remap", "recent-only")), ("flaredtdg", "evolvegcn-o")]


def temporal_before(grid, task):
    """The state that the snapshot before has come to."""
    last = grid.cells.get((task.unit, task.step - 1, task.layer))
    return None if last is None or last.after is None else last.after[0]


def expected_temporal(grid, task, last, evolves):
    before = grid.at(task).before
    if before is None:
        return CellTemporal.ON if evolves else CellTemporal.FIRST
    if not grid.windows.shrinks and not evolves:
        return CellTemporal.SCATTERED
    if last is None:
        return CellTemporal.INHERITED
    return CellTemporal.ON if before[0].data_ptr() == last.data_ptr() else CellTemporal.JOINED


def expected_backward(grid, task, losses, scatters):
    cell, after = grid.at(task), grid.cells.get((task.unit, task.step + 1, task.layer))
    evolving = cell.before is None and grid.shape.evolves_weights  # trained weights
    parts = {
        CellBackward.LOSS: losses,
        CellBackward.AFTER: after is not None and after.before is not None,
        CellBackward.STATE: cell.before is not None or evolving,
        CellBackward.BEFORE: evolving or (cell.before is not None and cell.before[0].requires_grad),
        CellBackward.SCATTERED: scatters and cell.before is not None,
        CellBackward.UPPER: task.layer > 0,
    }
    return sum((part for part, there in parts.items() if there), CellBackward.CELL)


@pytest.mark.parametrize(("name", "model"), CASES)
def test_windows_run_what_their_variants_say(name, model):
    hyper = Hyper(recency=Recency(Decay(2, 3, 0.2), CHUNKS.count), task="degrees")
    shape, context, evolves = model_shape(model, 2, 8, 2, 2), Context(), model == "evolvegcn-o"
    work = Workload("w", statistics_of(GRAPHS), shape, hyper, chunking=ExactChunking(GRAPHS, CHUNKS))
    schedule = strategy(name).plan(work, 1, UNUSED)
    material = SnapshotMaterial(GRAPHS, 2, task="degrees")
    program = WindowProgram(schedule, material, CHUNKS, learner_of(ModelChoice(model, 8, 2, 2), context, 2), hyper, context)
    grid, run, found = program.grid, program.run, []

    def checked(task):
        key, variant = (task.unit, task.step), int(schedule.variant[task.task])
        if task.op is Op.BACKWARD:
            losses = task.layer == 1 and grid.predicts(task.step)
            expected = expected_backward(grid, task, losses, name == "flaredtdg-remap")  # a pass leaves no trace of what it read
            run(task)
        elif task.op is Op.TEMPORAL:
            last = temporal_before(grid, task)
            run(task)
            expected = expected_temporal(grid, task, last, evolves)
        elif task.op is Op.AGGREGATE and task.layer == 0:
            level = grid._there.get((task.unit - 1, task.step + 1), (None, None))[1]
            run(task)
            cut = level is not None and key not in grid._built and grid._there[key][1] != level
            expected = CellAggregate.CUT if cut else CellAggregate.DATA
        elif task.op is Op.AGGREGATE:
            graph = grid.on_device(key)[0].graph
            copied = graph._copied_from
            turned = (graph if copied is None else copied[0])._transpose_cache is not None
            run(task)
            expected = CellAggregate.TRACKED if turned else CellAggregate.TURNED
        elif task.op is Op.REMAP and task.lane is Lane.HOST:
            expected = CellNumbering.AGAIN if grid.snapshot(key) in grid.host_blocks._halos else CellNumbering.COUNTED
            run(task)
        elif task.op is Op.REMAP:
            expected = CellNumbering.REBUILT
            run(task)
        elif task.op is Op.H2D:
            ready = (grid.snapshot(key), grid._level_there(key)) in grid.host_blocks._rows
            expected = CellTransfer.COPIED if ready else CellTransfer.NUMBERED
            run(task)
        else:
            return run(task)
        found.append((task, variant, int(expected)))

    program.run = checked
    execute(schedule, program, CpuLanes(False), "cpu")
    wrong = [
        (task.op.name, task.unit, task.step, task.layer, variant, expected) for task, variant, expected in found if variant != expected
    ]
    assert wrong == []
    assert len({(task.op, variant) for task, variant, _ in found}) >= 8


@pytest.mark.parametrize("window", (1, 2, 4))
@pytest.mark.parametrize("name", ("dynagraph", "dynahb"))
def test_probes_have_every_curve_of_samples_and_hybrid_batches(name, window):
    planner, shape = strategy(name), model_shape("t-gcn", 8, 8, 2)
    hyper = Hyper(recency=Recency(Decay(window, 0, 1.0), CHUNKS.count))
    work = Workload("w", statistics_of(GRAPHS), shape, hyper, chunking=ExactChunking(GRAPHS, CHUNKS))
    planned = descriptor_ranges(planner.plan(work, 1, UNUSED)).keys()
    probed = set().union(*(descriptor_ranges(each.schedule) for each in probe.probes(GRAPHS, shape, hyper, 1, [planner.kind])))
    assert planned <= probed
