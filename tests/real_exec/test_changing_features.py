"""Reuse under `training.task: degrees`: features differ from snapshot to snapshot, adjacencies and pairs of groups are reused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from dense_trainer import RATE, DenseTrainer, apart, iterations_of, weights
from one_rank import here
from pairwise import pairwise

from chronoscale.datasets import store
from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.cluster import Device, Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import of, strategy
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.snapshots.forms import uniform_forms
from chronoscale.strategies.snapshots.groups import Placement, deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.snapshots.variants import Form
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload

GRAPHS = EvolvingGraph(200, 700, snapshots=21, churn=0.05, seed=1).sequence().without_self_edges()
REAL = [name for name, planner in of("snapshots").items() if name.startswith("real") and not planner.solves]
SLOW_BUS = DatasheetCosts(Device("slow bus", 1, 1e15, 1e15, Link(1e6, 0.0), 0.0))  # what is sent decides
SLOW_MEMORY = DatasheetCosts(Device("slow memory", 1, 1e15, 1e6, Link(1e15, 0.0), 0.0))  # what is computed does
BOTH, FIRST = Reuse(snapshots=True, groups=True), Reuse(snapshots=True)


def work_of(model: str = "wd-gcn", layers: int = 1, folds: bool = False, **hyper: object) -> Workload:
    """`folds`: nodes without edges are one row (test_folds.py)."""
    shape = replace(model_shape(model, 2, 8, layers), outputs=2)
    stats = statistics_of(GRAPHS)
    return Workload("w", stats if folds else replace(stats, lasting=None), shape, Hyper(group_size=3, task="degrees", **hyper))


def train(work: Workload, schedule, watch=lambda program, task: None):
    material = SnapshotMaterial(GRAPHS, 2, work.hyper.variant, weighted=work.model.spatial == "gcn", task="degrees")
    context = Context()
    program = SnapshotProgram(schedule, material, Learner(SnapshotModel(work.model, 5), context), work.hyper, context)
    program.learner.optimizer = torch.optim.SGD(program.model.parameters(), RATE)
    run = program.run
    program.run = lambda task: (run(task), watch(program, task))[0]
    return execute(schedule, program, CpuLanes(False), "cpu").losses, program


@pytest.mark.sample(12)
@pytest.mark.parametrize(
    ("model", "layers", "name", "form"),
    pairwise((model, layers, name, form) for model in MODELS for layers in (1, 2) for name in REAL for form in (None, Form.FULL, Form.MAP)),
)
def test_equal_to_dense_matrices(model, layers, name, form):
    """Losses of every step, and the weights after the last; whatever form is the cheapest, and in one form throughout."""
    work = work_of(model, layers)
    planner = strategy(name)
    placed = planner.place(work, 1, SLOW_BUS)
    schedule = lower(name, work, placed, planner.reuse, SLOW_BUS, form and uniform_forms(21, form, True))
    losses, program = train(work, schedule)
    oracle = DenseTrainer(GRAPHS, None, SnapshotModel(work.model, 5), work.hyper)
    np.testing.assert_allclose(losses, oracle.losses(iterations_of(schedule)), rtol=2e-5)  # float32 after 18 steps
    assert apart(weights(program.model), weights(oracle.model), SnapshotModel(work.model, 5)) < 1e-2
    assert not program.device_state.snapshots and not program.device_state.features


def run_ranks(folder: Path, work: Workload, placement: Placement, reuse: Reuse) -> np.ndarray:
    """Losses of an epoch's steps."""
    schedule = lower("x", work, placement, reuse, SLOW_BUS)
    folder.mkdir()
    store.save(folder / "data", GRAPHS)
    schedule.save(folder / "schedule.parquet")
    item = Item("x", str(folder / "schedule.parquet"), str(folder / "data"), work.hyper)
    model = ModelChoice(work.model.name, work.model.hidden, work.model.layers, 2)
    here(Job("job", (item,), str(folder), model, 1, settings=Settings(seed=5, device="cpu")), schedule.ranks, folder)
    return np.load(folder / "x-losses.npy")[0]


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_ranks_equal_one(tmp_path, ranks):
    """The same groups a step: on half as many ranks, two each, without reuse and with a row for every node, and else dealt out."""
    work, folded = work_of(), work_of(folds=True)
    paired = deal(work.groups, ranks // 2, 2)
    dealt = Placement(ranks, paired.rank + ranks // 2 * paired.slot, paired.iteration, np.zeros_like(paired.slot))
    expected = run_ranks(tmp_path / "few", work, paired, Reuse())
    np.testing.assert_allclose(run_ranks(tmp_path / "pairs", folded, paired, BOTH), expected, rtol=1e-5)
    np.testing.assert_allclose(run_ranks(tmp_path / "many", folded, dealt, FIRST), expected, rtol=1e-5)


@pytest.mark.parametrize("variant", ["exact", "as-published"])
@pytest.mark.parametrize("model", ["wd-gcn", "gat-lstm"])
def test_adjacencies_are_sent_as_changes_and_nothing_is_incremented(model, variant):
    work = work_of(model, variant=variant)
    schedule = lower("x", work, deal(work.groups, 1, 2), BOTH, SLOW_BUS)
    sent = schedule.tasks(Op.H2D)
    assert (schedule.variant[sent] == Form.MAP).sum() == len(schedule.tasks(Op.RECONSTRUCT)) > 5
    assert not len(schedule.tasks(Op.INCREMENT)) and len(schedule.tasks(Op.AGGREGATE)) == len(sent)
    static = replace(work, hyper=replace(work.hyper, task="in-degree"))
    increments = [len(lower("x", one, deal(work.groups, 1, 2), BOTH, SLOW_MEMORY).tasks(Op.INCREMENT)) for one in (work, static)]
    assert increments[0] == 0 and (increments[1] > 0) == (model == "wd-gcn")  # attention's save nothing here


def test_a_pair_sends_and_aggregates_each_snapshot_once_with_its_features():
    """Two groups of three, one apart: four snapshots, not six."""
    work = work_of()
    schedule = lower("x", work, deal(work.groups, 1, 2), BOTH, SLOW_BUS)
    _, program = train(work, schedule)
    features = 200 * 2 * 4
    for iteration, units in enumerate(iterations_of(schedule)):
        own = schedule.tasks(Op.H2D)
        own = own[schedule.iteration[own] == iteration]
        assert sorted((schedule.unit[own] + schedule.step[own]).tolist()) == list(range(units[0], units[-1] + 3))
        assert all(
            schedule.bytes[task] == program._source((int(schedule.unit[task]), int(schedule.step[task]))).nbytes + features for task in own
        )
    assert program.plan.features == program.plan.owned


@pytest.mark.parametrize("model", ["wd-gcn", "gat-lstm", "evolvegcn-o", "evolvegcn-h"])
@pytest.mark.parametrize("reuse", [FIRST, BOTH])
def test_features_lie_on_the_device_as_long_as_planned(model, reuse):
    """Planned bytes of features, row by row, are those on the device, or more."""
    work = work_of(model)
    schedule = lower("x", work, deal(work.groups, 1, 1 + reuse.groups), reuse, SLOW_BUS)
    most = 0

    def watch(program, task):
        nonlocal most
        most = max(most, sum(values.nbytes for values in program.device_state.features.values()))

    train(work, schedule, watch)
    # attention's are in its weight gradient, a pair's are summarised twice; others go when they are aggregated
    assert most == 200 * 2 * 4 * (4 if model == "evolvegcn-h" and reuse.groups else 1)


@pytest.mark.parametrize(("model", "stay"), [("evolvegcn-h", True), ("evolvegcn-o", False)])
def test_planned_memory_has_features_that_gradient_passes_read(model, stay):
    """Those that a summary is made of, until its group's pass; others go once they are transformed."""
    for reuse in (BOTH, FIRST):
        work = work_of(model)
        schedule = lower("x", work, deal(work.groups, 1, 2), reuse, SLOW_BUS, uniform_forms(21))
        loaded = len(schedule.tasks(Op.H2D))
        assert schedule.free[schedule.tasks(Op.TRANSFORM)].sum() == (0 if stay else loaded * 200 * 2 * 4)
        assert (schedule.alloc - schedule.free).sum() == 0


def test_increments_of_other_features_are_refused():
    work = work_of()
    with pytest.raises(
        UserError, match=r"^strategy 'mine' increments .*training\.task: 'degrees' gives each other features; send edge maps$"
    ):
        lower("mine", work, deal(work.groups, 1), FIRST, SLOW_BUS, uniform_forms(21, Form.DELTA, True))
