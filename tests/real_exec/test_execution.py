"""Execution: strategies that must agree do; what moves is what was planned; ranks agree with one rank."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from dense_trainer import RATE, DenseTrainer, apart, iterations_of, weights
from one_rank import here
from pairwise import pairwise
from torch.utils._python_dispatch import TorchDispatchMode

from chronoscale.datasets import store
from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.real.benefit import compute_benefit
from chronoscale.strategies.real.greedy import place
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.snapshots.forms import Forms, must_track, uniform_forms
from chronoscale.strategies.snapshots.groups import Placement, deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.snapshots.variants import Form
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload


def forms_of(work, kind):
    """Forms to try whatever they cost: every snapshot in one, or each form after each."""
    count = len(work.snapshots.edges)
    if kind in Form.__members__:
        return uniform_forms(count, Form[kind], kind == "MAP" or must_track(work))
    forms = np.random.default_rng(3).integers(0, 3, count).astype(np.int8)
    forms[0] = Form.FULL
    return Forms(forms, True)


COSTS = DatasheetCosts(presets.cluster("h200").device)
SEQUENCES = {
    "evolving": EvolvingGraph(200, 700, snapshots=45, churn=0.05, seed=1).sequence().without_self_edges(),
    "growth": GrowthGraph.rmat(128, 800, 45, 0.15, 2).sequence().without_self_edges(),
}
KINDS = {
    "psg": Reuse(),
    "blad": Reuse(pipeline=True),
    "real-type1": Reuse(snapshots=True),
    "real-reuse": Reuse(snapshots=True, groups=True),
}


def work_of(sequence, model="wd-gcn", layers=1, hyper=None):
    return Workload("w", statistics_of(sequence), model_shape(model, 12, 8, layers), hyper or Hyper())


def train(sequence, work, schedule, threaded=False):
    weighted = work.model.spatial == "gcn"
    material = SnapshotMaterial(sequence, 12, work.hyper.variant, weighted=weighted)
    context = Context()
    program = SnapshotProgram(schedule, material, Learner(SnapshotModel(work.model, 5), context), work.hyper, context)
    program.learner.optimizer = torch.optim.SGD(program.model.parameters(), RATE)  # as the oracle: Adam would hide a gradient counted twice
    return execute(schedule, program, CpuLanes(threaded), "cpu"), program


RUNS = [  # how a placement is run; each of REAL's on either placement, in turn
    ("blad", None),
    ("real-type1", "DELTA"),
    ("real-reuse", "MAP"),
    ("real-reuse", "mixed"),
    ("real-reuse", "DELTA"),
    ("real-type1", "mixed"),
]
QUICK = (("wd-gcn", 1), ("mpnn-lstm", 1))


@pytest.mark.parametrize(
    ("number", "model", "layers", "side"),
    [
        pytest.param(i, *of, side, id="-".join(map(str, (*of, side))), marks=() if of in QUICK else pytest.mark.slow)
        for i, of in enumerate(product(MODELS, (1, 2, 3)))
        for side in ("dealt", "placed")
    ],
)
def test_equal_losses_over_20_steps(number, model, layers, side):
    """Every way to run a placement against dense matrices and plain autograd: 1e-5 relative over at least 20 optimiser steps.

    Every model in every depth; graphs and pairs of (placement, way to run it) come in turn, so that each model meets all of them. The
    oracle is exact in each case by itself: what a case has is not compared with another's.
    """
    graphs = list(SEQUENCES.values())[number % 2]
    work = work_of(graphs, model, layers, Hyper(group_size=3))
    placement = deal(work.groups, 1, 2) if side == "dealt" else place(compute_benefit(work, COSTS), 1)
    schedule = lower("psg", work, placement, KINDS["psg"], COSTS)
    base, program = train(graphs, work, schedule)
    oracle = DenseTrainer(graphs, program.material.features(0), SnapshotModel(work.model, 5), work.hyper)
    expected = oracle.losses(iterations_of(schedule))
    assert len(base.losses) >= 20
    np.testing.assert_allclose(base.losses, expected, rtol=1e-5)
    assert all(np.abs(p.detach().numpy()).sum() > 0 for p in program.model.parameters())
    for name, kind in RUNS[(number + (side == "placed")) % 2 :: 2]:
        forms = kind and forms_of(work, kind)
        schedule = lower(name, work, placement, KINDS[name], COSTS, forms)
        assert kind != "DELTA" or len(schedule.tasks(Op.INCREMENT)) > 20
        assert kind != "MAP" or len(schedule.tasks(Op.RECONSTRUCT)) > 20
        other, program = train(graphs, work, schedule, threaded=True)
        np.testing.assert_allclose(other.losses, expected, rtol=1e-5, err_msg=f"{name} {kind}")
        assert apart(weights(program.model), weights(oracle.model), SnapshotModel(work.model, 5)) < 1e-2, f"{name} {kind}"


class Sorts(TorchDispatchMode):
    """Counts sorts."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.overloadpacket.__name__ == "sort"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("model", "layers", "needed"), [("wd-gcn", 1, False), ("wd-gcn", 2, True), ("gat-lstm", 1, True)])
def test_a_snapshot_is_transposed_once(model, layers, needed):
    """Whatever number of groups and epochs it comes to the device in; and only where something goes back through it."""
    work = work_of(SEQUENCES["growth"], model, layers)
    schedule = strategy("psg").plan(work, 1, COSTS).head(6)
    context, material = Context(), SnapshotMaterial(SEQUENCES["growth"], 12, weighted=work.model.spatial == "gcn")
    program = SnapshotProgram(schedule, material, Learner(SnapshotModel(work.model), context), work.hyper, context)
    own = {program._form((task.unit, task.step)).snapshot for task in program.tasks if task.op is Op.H2D}
    assert len(own) < len(schedule.tasks(Op.H2D))
    for expected in (len(own) * needed, 0):
        with Sorts() as sorts:
            execute(schedule, program, CpuLanes(False), "cpu")
        assert sorts.count == expected


@pytest.mark.slow
def test_training_learns():
    graphs = SEQUENCES["evolving"]
    work = work_of(graphs)
    schedule = strategy("psg").plan(work, 1, COSTS)
    first, program = train(graphs, work, schedule)
    program.learner.optimizer = torch.optim.Adam(program.model.parameters(), 0.01)
    for _ in range(4):
        last = execute(schedule, program, CpuLanes(False), "cpu")
    assert last.losses.mean() < 0.8 * first.losses.mean()


@pytest.mark.slow
def test_strides_and_groups_that_do_not_overlap():
    graphs = SEQUENCES["evolving"]
    for stride in (2, 3, 4, 5):
        work = work_of(graphs, hyper=Hyper(stride=stride, groups_per_rank=2))
        base, _ = train(graphs, work, strategy("psg").plan(work, 1, COSTS))
        other, _ = train(graphs, work, strategy("real-reuse").plan(work, 1, COSTS))
        np.testing.assert_allclose(other.losses, base.losses, rtol=1e-5)


@pytest.mark.slow
def test_far_pairs_in_reverse_order():
    """real-g may pair any two groups, later ones first; sharing needs the earlier first, and near ones only."""
    graphs = SEQUENCES["evolving"]
    work = work_of(graphs)
    n = work.groups // 2 * 2
    slot = np.arange(n) % 2
    far = np.random.default_rng(0).permutation(n)
    near = np.arange(n)[::-1]
    for order in (far, near):
        iteration = np.empty(n, np.int64)
        iteration[order] = np.arange(n) // 2
        at = np.empty(n, np.int64)
        at[order] = slot
        placement = Placement(1, np.zeros(n, np.int64), iteration, at)
        base, _ = train(graphs, work, lower("psg", work, placement, KINDS["psg"], COSTS))
        other, _ = train(graphs, work, lower("reuse", work, placement, KINDS["real-reuse"], COSTS))
        np.testing.assert_allclose(other.losses, base.losses, rtol=1e-5)


def test_the_published_form_differs_and_the_error_is_seen():
    graphs = SEQUENCES["evolving"]
    losses = {}
    for variant in ("exact", "as-published"):
        work = work_of(graphs, hyper=Hyper(variant=variant, groups_per_rank=2))
        schedule = lower("x", work, deal(work.groups, 1, 2), KINDS["real-reuse"], COSTS, forms_of(work, "DELTA"))
        losses[variant] = train(graphs, work, schedule)[0].losses
    gap = np.abs(losses["as-published"] / losses["exact"] - 1).max()
    assert 1e-6 < gap < 0.2


BYTES = list(product(["wd-gcn", "gat-lstm", "mpnn-lstm"], [1, 2], ["DELTA", "MAP", "mixed"]))


@pytest.mark.sample(1)
@pytest.mark.parametrize(  # each model in each form once a variant, on one layer or two
    ("model", "layers", "kind", "variant"), pairwise((*of, ("exact", "as-published")[i % 2]) for i, of in enumerate(BYTES))
)
def test_planned_bytes_are_moved_bytes(model, layers, kind, variant):
    graphs = SEQUENCES["growth"]
    work = work_of(graphs, model, layers, Hyper(variant=variant))
    schedule = lower("x", work, deal(work.groups, 1, 2), KINDS["real-reuse"], COSTS, forms_of(work, kind))
    _, program = train(graphs, work, schedule)
    owned = {(int(schedule.unit[task]), int(schedule.step[task])): int(schedule.bytes[task]) for task in schedule.tasks(Op.H2D)}
    assert program.plan.features == {seat for seat in owned if seat[1] == 0}
    for seat, planned in owned.items():
        assert planned == program._source(seat).nbytes + (seat[1] == 0) * program.material.features(seat[0]).nbytes
    assert not program.device_state.snapshots, "snapshots are left on the device at the end of an epoch"


def test_a_failing_task_ends_both_threads():
    graphs = SEQUENCES["evolving"]
    work = work_of(graphs)
    schedule = strategy("real-type1").plan(work, 1, COSTS).head(3)
    context = Context()
    program = SnapshotProgram(schedule, SnapshotMaterial(graphs, 12), Learner(SnapshotModel(work.model), context), work.hyper, context)

    def broken(task):
        if task.op is Op.H2D and task.iteration == 1:
            raise RuntimeError("bus error")
        program.run(task)

    with pytest.raises(RuntimeError, match="bus error"):
        CpuLanes(threaded=True).run(program.tasks, broken)


def run_ranks(folder: Path, sequence, work: Workload, schedule: Schedule, ranks: int) -> np.ndarray:
    folder.mkdir()
    store.save(folder / "data", sequence)
    schedule.save(folder / "schedule.parquet")
    item = Item("x", str(folder / "schedule.parquet"), str(folder / "data"), work.hyper)
    model = ModelChoice(work.model.name, work.model.hidden, work.model.layers, work.model.inputs)
    here(Job("job", (item,), str(folder), model, 1, settings=Settings(seed=5, device="cpu")), ranks, folder)
    return np.load(folder / "x-losses.npy")[0]


def test_two_ranks_equal_one(tmp_path):
    """The same groups a step on one rank and, dealt out, on two under torchrun: equal losses."""
    graphs = SEQUENCES["evolving"]
    work = work_of(graphs)
    paired = deal(work.groups, 1, 2)
    dealt = Placement(2, paired.slot, paired.iteration, np.zeros_like(paired.slot))
    first = run_ranks(tmp_path / "one", graphs, work, lower("a", work, paired, KINDS["real-reuse"], COSTS), 1)
    two = run_ranks(tmp_path / "two", graphs, work, lower("b", work, dealt, KINDS["real-type1"], COSTS), 2)
    np.testing.assert_allclose(two, first, rtol=1e-5)


def test_a_worker_says_what_is_wrong(tmp_path):
    graphs = SEQUENCES["evolving"]
    work = work_of(graphs)
    schedule = strategy("psg").plan(work, 2, COSTS)
    with pytest.raises(Exception, match="is for 2 ranks, 1 are running"):
        run_ranks(tmp_path / "x", graphs, work, schedule, 1)
    broken = replace(work, model=model_shape("wd-gcn", 12, 8))
    store.save(tmp_path / "data", graphs)
    (tmp_path / "data" / "src.npy").write_bytes(b"")
    schedule.save(tmp_path / "schedule.parquet")
    item = Item("x", str(tmp_path / "schedule.parquet"), str(tmp_path / "data"), broken.hyper)
    with pytest.raises(Exception, match=r"src\.npy"):
        launch(Job("job", (item,), str(tmp_path), ModelChoice("wd-gcn", 8, 1, 12), 1, settings=Settings(seed=5, device="cpu")), 2, tmp_path)
