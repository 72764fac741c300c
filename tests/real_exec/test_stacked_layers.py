"""Stacks of cells and layers without a recurrence, executed: against torch's own stacked LSTM, finite differences and the dense trainer."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from dense_trainer import RATE, DenseTrainer, apart, iterations_of, weights
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.snapshots.cells.program import CellProgram
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import GcnBlock, Recurrence, SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.region import WholeRegion
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.costing.kernels import SINGLE, Kernels
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.snapshots.forms import Forms
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.models import MODELS, ModelParts, model_shape
from chronoscale.strategies.workload import Hyper, Workload

GRAPHS = GrowthGraph.rmat(48, 200, 14, 0.1, 3).sequence().without_self_edges()
HYPER = Hyper(group_size=3, groups_per_rank=2)


@pytest.mark.parametrize(("cell", "stack"), [("lstm", torch.nn.LSTM), ("gru", torch.nn.GRU)])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_steps_are_those_of_a_stacked_rnn(cell, stack, depth):
    """torch's own, of as many layers and the same weights, over five steps: outputs and every cell's last state."""
    torch.manual_seed(depth)
    ours, theirs = Recurrence(4, cell, depth), stack(4, 4, num_layers=depth)
    for layer, each in enumerate((ours.cell, *ours.above)):
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(theirs, f"{name}_l{layer}").data.copy_(getattr(each, name))
    x, state, outputs = torch.randn(5, 7, 4), None, []
    for z in x:
        state = ours(z, state)
        outputs.append(ours.output(state))
    expected, last = theirs(x)
    torch.testing.assert_close(torch.stack(outputs), expected)
    for result, queries in zip(state, last if cell == "lstm" else (last, last), strict=True):
        torch.testing.assert_close(result, torch.cat(list(queries), 1))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_gradients_of_two_steps(cell):
    torch.manual_seed(0)
    step = Recurrence(3, cell, 2).double()
    inputs = [torch.randn(2, width, dtype=torch.float64, requires_grad=True) for width in (3, 3, 6, 6)]

    def last(first, second, h, c):
        return step.output(step(second, step(first, (h, h if cell == "gru" else c))))

    assert torch.autograd.gradcheck(last, inputs)


@given(
    rows=st.integers(1, 6), depth=st.integers(1, 3), width=st.integers(1, 4), cell=st.sampled_from(["lstm", "gru"]), seed=st.integers(0, 99)
)
def test_rows_are_independent(rows, depth, width, cell, seed):
    """A row's states are the same alone as among others, and lie cell by cell: what a prefix slice of a state relies on."""
    torch.manual_seed(seed)
    step = Recurrence(width, cell, depth)
    z, state = torch.randn(rows, width), (torch.randn(rows, depth * width), torch.randn(rows, depth * width))
    whole = step(z, state)
    assert all(part.shape == (rows, depth * width) for part in whole)
    for cut in range(1, rows + 1):
        for result, expected in zip(step(z[:cut], (state[0][:cut], state[1][:cut])), whole, strict=True):
            torch.testing.assert_close(result, expected[:cut])


def test_layers_below_the_last_have_no_recurrence():
    model = SnapshotModel(model_shape("mpnn-lstm", 5, 4, 3))
    blocks = [model.block(layer) for layer in range(3)]
    assert all(isinstance(block, GcnBlock) for block in blocks) and [block.step is None for block in blocks] == [True, True, False]
    assert all(block.dense.bias is not None for block in blocks) and len(blocks[-1].step.above) == 1


KINDS = {
    "every layer, two LSTMs": ModelParts("gcn", "lstm", depth=2),
    "every layer, three GRUs": ModelParts("gcn", "gru", depth=3),
    "last layer, one LSTM": ModelParts("gcn", "lstm", recurs_last=True),
    "attention, last layer, two LSTMs": ModelParts("gat", "lstm", recurs_last=True, depth=2),
    "attention, every layer, two GRUs": ModelParts("gat", "gru", depth=2),
}
EVERY = Forms(np.resize(np.array([0, 1, 2], np.int8), len(GRAPHS)), True)
WAYS = {
    "psg": (Reuse(), None),
    "blad": (Reuse(pipeline=True), None),
    "real-type1": (Reuse(snapshots=True), EVERY),
    "real-reuse": (Reuse(snapshots=True, groups=True), EVERY),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_any_kind_trains_as_the_dense_trainer(kind, layers, monkeypatch):
    """What no model of ours is made of, too: in groups and in cells, losses and weights after all steps of an epoch."""
    monkeypatch.setitem(MODELS, "stacked", kind)
    monkeypatch.setattr(Kernels, "of_model", classmethod(lambda cls, *_: SINGLE))  # kernels of these were not counted
    shape = model_shape("stacked", 6, 5, layers)
    work = Workload("w", statistics_of(GRAPHS), shape, HYPER)
    material = SnapshotMaterial(GRAPHS, 6, weighted=kind.spatial == "gcn")
    paired = deal(work.groups, 1, 2)
    schedules = {name: lower(name, work, paired, reuse, UNUSED, forms) for name, (reuse, forms) in WAYS.items()}
    schedules["esdg"] = strategy("esdg").plan(work, 1, UNUSED)
    assert {Op.INCREMENT, Op.RECONSTRUCT} <= {Op(op) for op in schedules["real-reuse"].op}
    steps = [iterations_of(schedule) for schedule in schedules.values()]
    assert all(each == other for each, other in pairwise(steps))
    oracle = DenseTrainer(GRAPHS, material.features(0), SnapshotModel(shape, 5), HYPER)
    expected = oracle.losses(steps[0])
    for name, schedule in schedules.items():
        learner = Learner(SnapshotModel(shape, 5), context := Context())
        learner.optimizer = torch.optim.SGD(learner.model.parameters(), RATE)
        if schedule.kind == "groups":
            program = SnapshotProgram(schedule, material, learner, HYPER, context)
        else:
            program = CellProgram(schedule, WholeRegion(material), learner, HYPER, context)
        losses = execute(schedule, program, CpuLanes(False), "cpu").losses
        np.testing.assert_allclose(losses, expected, rtol=1e-4, err_msg=name)
        assert apart(weights(learner.model), weights(oracle.model), SnapshotModel(shape, 5)) < 1e-3, name
