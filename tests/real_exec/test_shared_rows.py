"""Groups that share rows of their recurrence: against groups that do not, and against dense matrices."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from dense_trainer import RATE, DenseTrainer, apart, iterations_of, weights
from torch import Tensor

from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError
from chronoscale.real_exec.execution.context import Context, open_context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.ranks.virtual import VirtualRank, run_virtual
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import Recurrence, SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.shared_rows import RowParts, SharedRecurrence
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.snapshots.forms import Forms, must_track, uniform_forms
from chronoscale.strategies.snapshots.groups import Placement, deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.snapshots.shared_rows import can_share_rows
from chronoscale.strategies.snapshots.variants import BackwardVariant, Form, TemporalVariant, TransformVariant
from chronoscale.strategies.workload import Hyper, Workload

SHARED = Reuse(snapshots=True, groups=True, rows=True)
SHARING = [name for name in MODELS if name in ("wd-gcn", "t-gcn", "gat-lstm")]


def changing(seed: int, nodes: int, count: int, rate: float = 0.03) -> SnapshotSequence:
    """Snapshots whose edges go and come back, with a hub and nodes that never have an edge."""
    draw = np.random.default_rng(seed)
    ends = draw.integers(0, max(nodes - 2, 2), (2 * nodes, 2))
    hub = np.stack([np.zeros(nodes // 2, int), np.arange(1, nodes // 2 + 1)], 1)
    pool = np.unique(np.concatenate([ends[ends[:, 0] != ends[:, 1]], hub, hub[:, ::-1]]), axis=0)
    there, snapshots = draw.random(len(pool)) < 0.5, []
    for _ in range(count):
        there = there ^ (draw.random(len(pool)) < rate)
        snapshots.append(Snapshot.from_edges(nodes, *pool[there].T.astype(np.int32)))
    return SnapshotSequence.from_snapshots(snapshots)


def train(sequence: SnapshotSequence, work: Workload, schedule: Schedule, threaded: bool = False) -> tuple[list[float], SnapshotProgram]:
    material = SnapshotMaterial(sequence, 12, work.hyper.variant, weighted=work.model.spatial == "gcn")
    program = SnapshotProgram(schedule, material, Learner(SnapshotModel(work.model, 5), Context()), work.hyper, Context())
    program.learner.optimizer = torch.optim.SGD(program.model.parameters(), RATE)
    losses = list(execute(schedule, program, CpuLanes(threaded), "cpu").losses)
    state = program.device_state
    left = (state.snapshots, state.state, state.hidden, state.features)
    assert not any(left) and not any(of.states or of.leaves or of.outputs or of.lasting for of in state.shared.values())
    return losses, program


def forms_of(work: Workload, kind: str, seed: int = 3) -> Forms:
    count = len(work.snapshots.edges)
    if kind != "mixed":
        return uniform_forms(count, Form[kind], kind == "MAP" or must_track(work))
    forms = np.random.default_rng(seed).integers(0, 3, count).astype(np.int8)
    forms[0] = Form.FULL
    return Forms(forms, True)


@pytest.mark.parametrize(
    ("model", "layers", "kind", "each"),
    [
        ("wd-gcn", 1, "DELTA", 2),
        ("t-gcn", 2, "mixed", 2),
        ("gat-lstm", 1, "FULL", 1),
        *(pytest.param(*of, marks=pytest.mark.slow) for of in product(SHARING, (1, 2, 3), ("FULL", "MAP", "DELTA", "mixed"), (1, 2))),
    ],
)
def test_losses_and_weights_are_those_of_dense_matrices(model: str, layers: int, kind: str, each: int) -> None:
    graphs = GrowthGraph.rmat(60, 240, 30, 0.1, 2).sequence().without_self_edges()
    hyper = Hyper(group_size=3, stride=1 + (layers == 3))
    work = Workload("w", statistics_of(graphs), model_shape(model, 12, 8, layers), hyper)
    schedule = lower("shared", work, deal(work.groups, 1, each), SHARED, UNUSED, forms_of(work, kind))
    assert TemporalVariant.LASTING in schedule.variant[schedule.tasks(Op.TEMPORAL)]
    assert (TemporalVariant.REST in schedule.variant[schedule.tasks(Op.TEMPORAL)]) == (each == 2)
    losses, program = train(graphs, work, schedule, threaded=True)
    oracle = DenseTrainer(graphs, program.material.features(0), SnapshotModel(work.model, 5), hyper)
    np.testing.assert_allclose(losses, oracle.losses(iterations_of(schedule)), rtol=1e-6)
    assert apart(weights(program.model), weights(oracle.model), SnapshotModel(work.model, 5)) < 1e-3


@pytest.mark.parametrize(("ranks", "model"), [(2, "wd-gcn"), pytest.param(4, "gat-lstm", marks=pytest.mark.slow)])
def test_several_ranks_train_as_dense_matrices(ranks: int, model: str) -> None:
    """Pairs on every rank, and lone groups in the last step."""
    graphs = GrowthGraph.rmat(60, 240, 26, 0.1, 2).sequence().without_self_edges()
    work = Workload("w", statistics_of(graphs), model_shape(model, 12, 8), Hyper(group_size=3))
    schedule = lower("shared", work, deal(work.groups, ranks, 2), SHARED, UNUSED, forms_of(work, "FULL"))
    material = SnapshotMaterial(graphs, 12, weighted=model != "gat-lstm")
    found = {}

    def epoch(rank: VirtualRank) -> None:
        with open_context(Settings(device="cpu", seed=5), rank) as context:
            learner = Learner(SnapshotModel(work.model, 5), context)
            learner.optimizer = torch.optim.SGD(learner.model.parameters(), RATE)
            program = SnapshotProgram(schedule, material, learner, work.hyper, context)
            found[rank.rank] = execute(schedule, program, context.lanes(schedule), "cpu").losses, weights(learner.model)

    run_virtual(epoch, ranks, "shared")
    oracle = DenseTrainer(graphs, material.features(0), SnapshotModel(work.model, 5), work.hyper)
    expected = oracle.losses(iterations_of(schedule))
    np.testing.assert_allclose(found[0][0], expected, rtol=1e-6)
    assert all(apart(trained, weights(oracle.model), SnapshotModel(work.model, 5)) < 1e-3 for _, trained in found.values())


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 42))])
def test_random_pairs_equal_groups_that_share_no_rows(seed: int) -> None:
    """Rows change and change back, edges go, a hub, nodes without edges; groups that overlap by any number of snapshots, or not at all."""
    draw = np.random.default_rng(seed)
    graphs = changing(seed, int(draw.integers(5, 25)), 40, float(draw.choice((0.0, 0.01, 0.05, 0.3))))
    hyper = Hyper(group_size=int(draw.integers(2, 6)), stride=int(draw.integers(1, 3)))
    model = SHARING[seed % 3]
    work = Workload("w", statistics_of(graphs), model_shape(model, 12, 8, 1 + seed % 2), hyper)
    unit = draw.permutation(work.groups) if seed % 3 == 0 else np.arange(work.groups)
    dealt = deal(work.groups, 1, 2)
    placement = Placement(1, dealt.rank[unit], dealt.iteration[unit], dealt.slot[unit])
    forms = forms_of(work, "mixed", seed)
    results = [train(graphs, work, lower("of", work, placement, reuse, UNUSED, forms)) for reuse in (replace(SHARED, rows=False), SHARED)]
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=2e-6)
    assert apart(weights(results[1][1].model), weights(results[0][1].model), SnapshotModel(work.model, 5)) < 1e-3


@pytest.mark.parametrize("seeds", [range(100), pytest.param(range(100, 500), marks=pytest.mark.slow)])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_pair_in_float64_is_two_recurrences(cell: str, seeds: range) -> None:
    """500 random pairs each: outputs and all gradients are those of each group for itself, to the order of sums."""
    for seed in seeds:
        draw = np.random.default_rng(seed)
        rows, width, size, shift = (int(draw.integers(*of)) for of in ((1, 9), (1, 5), (2, 6), (1, 3)))
        shift, every = min(shift, size - 1), bool(seed % 2)
        torch.manual_seed(seed)
        of = Recurrence(width, cell).double()
        stays = torch.from_numpy(draw.random(rows) < draw.choice((0.0, 0.5, 1.0)))
        z = torch.randn(size + shift, rows, width, dtype=torch.float64)
        z[:, stays] = z[0, stays]
        pull = torch.randn(2, size, rows, width, dtype=torch.float64)
        found = []
        for shared in (False, True):
            of.zero_grad()
            given = [part.clone().requires_grad_() for part in z]
            outputs = _outputs(of, given, stays, size, shift, every) if shared else _apart(of, given, size, shift)
            chosen = range(size) if every else [size - 1]
            if shared:
                chain, (ahead, behind) = outputs
                sum((behind[step] * pull[1, step]).sum() for step in chosen).backward()
                back = chain.returned_gradients(0)
                roots = [sum((ahead[step] * pull[0, step]).sum() for step in chosen), *(output for output, _ in back)]
                torch.autograd.backward(roots, [None, *(gradient for _, gradient in back)])
            else:
                ahead, behind = outputs
                sum((of[step] * pull[k, step]).sum() for k, of in enumerate((ahead, behind)) for step in chosen).backward()
            gradients = torch.stack([part.grad if part.grad is not None else torch.zeros_like(part) for part in given])
            values = [
                torch.stack([of[step] for of in (ahead, behind) for step in chosen]),
                gradients[:, ~stays],
                gradients[:, stays].sum(0),
            ]
            found.append([*values, *(parameter.grad for parameter in of.parameters())])
        for expected, got in zip(*found, strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-12)


def _apart(of: Recurrence, z: list[Tensor], size: int, shift: int) -> list[list[Tensor]]:
    groups = []
    for start in (0, shift):
        state, outputs = None, []
        for step in range(size):
            state = of(z[start + step], state)
            outputs.append(of.output(state))
        groups.append(outputs)
    return groups


def _outputs(
    of: Recurrence, z: list[Tensor], stays: Tensor, size: int, shift: int, every: bool
) -> tuple[SharedRecurrence, list[list[Tensor]]]:
    chain = SharedRecurrence((0, 1), RowParts.of(stays), torch.device("cpu"))
    chain.bring_lists()
    groups = []
    for unit, start in ((0, 0), (1, shift)):
        outputs = [chain.step(of, unit, step, z[start + step], every or step == size - 1) for step in range(size)]
        groups.append([output if output is None else output.index_select(0, chain.parts.place) for output in outputs])
    return chain, groups  # type: ignore[return-value]


def tiny_graphs() -> SnapshotSequence:
    """Four snapshots of four nodes and an edge; in the third another edge appears."""
    pair = np.array([[0], [1]], np.int32)
    return SnapshotSequence.from_snapshots(
        [Snapshot.from_edges(4, *np.array([[2], [3]], np.int32))] * 2
        + [Snapshot.from_edges(4, *np.concatenate([np.array([[2], [3]], np.int32), pair], 1))] * 2
    )


@pytest.mark.parametrize(("model", "layers", "rows"), [("wd-gcn", 1, 2 * 2 + 2), ("wd-gcn", 2, 2 * 4), ("gat-lstm", 1, 2 * 4 + 3)])
def test_gradients_that_the_first_pass_leaves(model: str, layers: int, rows: int) -> None:
    """Of two steps: of the rows that change, and of what is read of the others; with attention, whose steps pick rows, of all four, and of
    the three that stay."""
    graphs = tiny_graphs()
    work = Workload("w", statistics_of(graphs), model_shape(model, 12, 8, layers), Hyper(group_size=2))
    schedule = lower("shared", work, deal(work.groups, 1, 2), SHARED, UNUSED, uniform_forms(4))
    balance = schedule.alloc - schedule.free
    ends, steps = (schedule.tasks(op)[schedule.unit[schedule.tasks(op)] == 1] for op in (Op.BACKWARD, Op.TEMPORAL))
    above = schedule.layer > 0
    of_group = np.concatenate([steps, np.flatnonzero(above & (schedule.unit == 1) & (schedule.op != Op.TEMPORAL))])
    assert balance[ends].sum() + balance[of_group].sum() == 4 * 8 * rows


def test_rows_and_gradient_passes_of_a_tiny_plan() -> None:
    """Two groups of two on three snapshots of four nodes, an edge that appears in the last: rows 0 and 1 change, rows 2 and 3 stay."""
    graphs = tiny_graphs()
    work = Workload("w", statistics_of(graphs), model_shape("wd-gcn", 12, 8), Hyper(group_size=2))
    schedule = lower("shared", work, deal(work.groups, 1, 2), SHARED, UNUSED, uniform_forms(4))
    steps, ends = schedule.tasks(Op.TEMPORAL), schedule.tasks(Op.BACKWARD)
    assert schedule.rows[steps].tolist() == [4, 4, 2, 2]
    assert [TemporalVariant(v).name for v in schedule.variant[steps].tolist()] == ["LASTING_FIRST", "LASTING", "REST_FIRST", "REST"]
    assert schedule.unit[ends].tolist() == [1, 0]  # the first group's comes last
    assert [BackwardVariant(v).name for v in schedule.variant[ends].tolist()] == ["REST", "LED"]
    assert ends[0] in schedule.dependencies(int(ends[1])).tolist()
    product, gates, whole, states = (
        2 * 4 * 8 * 8,
        4 * 4 * 8,
        4 * 8 * 4,
        6 * 8 * 4,
    )  # a row's flops; bytes of all rows, of a row's gates and states
    rest = 2 * (2 * product + gates)
    first, on = 2 * rest, 4 * (product + gates) + 2 * product
    assert schedule.flops[steps].tolist() == [first, on, rest, rest]
    made_once = 2 * 4 * 8 * 4
    assert schedule.alloc[steps].tolist() == [4 * states + made_once, 4 * states, 2 * states, 2 * states + whole]
    plain = lower("plain", work, deal(work.groups, 1, 2), replace(SHARED, rows=False), UNUSED, uniform_forms(4))
    arrivals = [plan.bytes[plan.tasks(Op.H2D)] for plan in (schedule, plain)]
    assert (arrivals[0] - arrivals[1]).tolist() == [16 * 4, 0, 0]  # which rows stay
    assert schedule.free[steps].tolist() == [0, made_once, 0, 0]
    products = schedule.tasks(Op.TRANSFORM)
    assert schedule.rows[products].tolist() == [4, 2, 2] and set(schedule.variant[products].tolist()) == {TransformVariant.PART}
    assert schedule.flops[products].tolist() == [2 * rows * 12 * 8 for rows in (4, 2, 2)]
    assert schedule.alloc[products].tolist() == [rows * (8 + 12) * 4 for rows in (4, 2, 2)]
    assert schedule.free[products].tolist() == [4 * 12 * 4] * 3
    weights = 2 * (4 + 2 + 2) * 12 * 8
    assert schedule.flops[ends].tolist() == [2 * 2 * rest, 2 * (first + on) + weights]
    blocks = [4 * (rows * (4 * 8 + 4) + rows * 4 * 8 + 4 * 8) for rows in (2, 4)]
    left = 4 * 8 * (2 * 2 + 2)  # gradients of what the second group reads: rows that change by steps, outputs of those that stay
    assert schedule.alloc[ends].tolist() == [blocks[0] + left, blocks[1] + made_once]
    assert schedule.alloc.sum() == schedule.free.sum()


def test_an_increment_is_put_into_a_copy_of_rows_that_change() -> None:
    graphs = changing(1, 20, 12)
    work = Workload("w", statistics_of(graphs), model_shape("wd-gcn", 12, 8), Hyper(group_size=3))
    schedule = lower("shared", work, deal(work.groups, 1, 2), SHARED, UNUSED, forms_of(work, "DELTA"))
    products = schedule.tasks(Op.TRANSFORM)
    begins = schedule.step[products] == 0
    assert (schedule.variant[products] == np.where(begins, TransformVariant.PART, TransformVariant.INTO_PART)).all()
    assert (schedule.free[products] == np.where(begins, 20 * 12 * 4, 0)).all()


def test_other_rows_than_planned_are_refused() -> None:
    graphs = changing(1, 20, 12)
    work = Workload("w", statistics_of(graphs), model_shape("wd-gcn", 12, 8), Hyper(group_size=3))
    schedule = lower("shared", work, deal(work.groups, 1, 2), SHARED, UNUSED)
    material, learner = SnapshotMaterial(graphs, 12), Learner(SnapshotModel(work.model, 5), Context())
    SnapshotProgram(schedule, material, learner, work.hyper, Context())
    assert material.stores()["changed"].keys() == {(t,) for t in range(1, 11)}  # what plans that are taken up later find there
    fewer = replace(schedule, rows=schedule.rows - (schedule.variant == TemporalVariant.REST_FIRST) * (schedule.op == Op.TEMPORAL))
    with pytest.raises(ValueError, match="is to compute other rows than"):
        SnapshotProgram(fewer, material, learner, work.hyper, Context())


def test_rows_are_shared_beside_snapshots_and_groups_alone() -> None:
    for reuse in ({"groups": True}, {"snapshots": True}, {"snapshots": True, "groups": True, "pipeline": True}):
        with pytest.raises(ValueError, match="reuse of rows"):
            Reuse(rows=True, **reuse)


@pytest.mark.parametrize(
    ("model", "hyper"),
    [
        ("mpnn-lstm", Hyper()),
        ("evolvegcn-o", Hyper()),
        ("wd-gcn", Hyper(task="degrees")),
        ("wd-gcn", Hyper(variant="as-published")),
        ("wd-gcn", Hyper(group_size=33)),
        ("wd-gcn", Hyper(group_size=1)),
    ],
)
def test_what_cannot_share_rows_is_planned_without(model: str, hyper: Hyper) -> None:
    graphs = changing(0, 12, 40)
    work = Workload("w", statistics_of(graphs), model_shape(model, 12, 8), hyper)
    assert not can_share_rows(work)
    forms = uniform_forms(40)
    plans = [lower("of", work, deal(work.groups, 1, 2), reuse, UNUSED, forms) for reuse in (SHARED, replace(SHARED, rows=False))]
    assert all((getattr(plans[0], name) == getattr(plans[1], name)).all() for name in ("op", "rows", "flops", "variant", "alloc", "free"))


def test_snapshots_without_counts_share_no_rows() -> None:
    graphs = changing(0, 12, 10)
    stats = replace(statistics_of(graphs), lasting=None)
    assert not can_share_rows(Workload("w", stats, model_shape("wd-gcn", 12, 8), Hyper()))
    with pytest.raises(UserError, match="counts of 10 snapshots"):
        replace(statistics_of(changing(0, 12, 9)), lasting=statistics_of(graphs).lasting)
