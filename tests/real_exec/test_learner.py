"""Learner: what its steps do to a model."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError
from chronoscale.real_exec.binding import bind_program
from chronoscale.real_exec.execution.context import Context, open_context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.job import Item, Settings
from chronoscale.real_exec.training.checkpoint import restore, save_epoch
from chronoscale.real_exec.training.epoch_record import EpochRecord
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload

GRAPHS = GrowthGraph.rmat(32, 120, 11, 0.1, 1).sequence().without_self_edges()  # seven groups


@pytest.mark.parametrize(
    ("name", "scaled", "rates"),
    [
        ("blad", True, (0.01, 0.02)),  # three steps of two groups, one of the one that is left
        ("blad", False, (0.01, 0.01)),
        ("esdg", True, (0.01, 0.02)),  # groups that ranks share
    ],
)
def test_a_step_moves_by_its_groups(tmp_path, name, scaled, rates):
    """REAL §7.4, step by step."""
    hyper = Hyper(groups_per_rank=2)
    store.save(tmp_path / "data", GRAPHS)
    work = Workload("w", statistics_of(GRAPHS), model_shape("t-gcn", 4, 4), hyper)
    schedule = strategy(name).plan(work, 1, UNUSED)
    with open_context(Settings(learning_rate=0.01, device="cpu", scale_learning_rate=scaled)) as context:
        program = bind_program(Item(name, "", str(tmp_path / "data"), hyper), schedule, ModelChoice("t-gcn", 4, 1, 4), context)
        execute(schedule, program, context.lanes(schedule), "cpu")
        assert program.learner.rates() == rates
        assert program.learner.rates() != rates  # asked again: of no step


def net() -> nn.Module:
    """Parameters of many sizes, one of them not trained."""
    torch.manual_seed(0)
    built = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1), nn.Linear(1, 3, bias=False))
    built[2].bias.requires_grad_(False)
    return built


def test_one_buffer_trains_as_many_parameters_do():
    """Adam on each of them, with torch's own gradients."""
    learner, plain = Learner(net(), Context(Settings(learning_rate=0.01)), fused=True), net()
    adam = torch.optim.Adam([each for each in plain.parameters() if each.requires_grad], 0.01)
    for step in range(6):
        x = torch.randn(11, 5, generator=torch.Generator().manual_seed(step))
        learner.model(x).square().sum().backward()
        learner.step(step)
        adam.zero_grad()
        plain(x).square().sum().backward()
        adam.step()
    learner.check()
    assert learner.model.state_dict().keys() == plain.state_dict().keys()
    for name, value in learner.model.state_dict().items():
        torch.testing.assert_close(value, plain.state_dict()[name], rtol=1e-5, atol=1e-6)
        assert name == "2.bias" or not torch.equal(value, net().state_dict()[name])


@pytest.mark.parametrize("fused", [False, True])
def test_weights_decay_gradients_are_clipped_and_rates_fall(fused):
    """As torch's own parts do, step after step; epochs 2 and 3 are milestones, and gradients of the first steps are too long."""
    settings = Settings(learning_rate=0.1, weight_decay=0.3, clip=2.0, milestones=(2, 3), factor=0.5)
    learner, plain, clipped = Learner(net(), Context(settings), fused=fused), net(), 0
    trained = [each for each in plain.parameters() if each.requires_grad]
    adam = torch.optim.Adam(trained, 0.1, weight_decay=0.3)
    rates = torch.optim.lr_scheduler.MultiStepLR(adam, [2, 3], 0.5)
    for epoch in range(5):
        x = torch.randn(11, 5, generator=torch.Generator().manual_seed(epoch))
        learner.begin(epoch)
        for model in (learner.model, plain):
            (model(x).square().sum() * (10 if epoch < 2 else 1e-3)).backward()
        clipped += float(torch.nn.utils.clip_grad_norm_(trained, 2.0)) > 2
        learner.step(epoch)
        assert learner.rates() == pytest.approx([adam.param_groups[0]["lr"]] * 2)
        adam.step()
        adam.zero_grad()
        rates.step()
    assert 0 < clipped < 5
    for name, value in learner.model.state_dict().items():
        torch.testing.assert_close(value, plain.state_dict()[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fused", [False, True])
def test_a_graph_over_weights_that_have_moved_is_refused(fused):
    learner = Learner(net(), Context(Settings(learning_rate=0.01)), fused=fused)
    loss = learner.model(torch.randn(4, 5)).square().sum()
    loss.backward(retain_graph=True)
    learner.step(0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_moments_of_another_optimiser_are_refused(tmp_path):
    """Of many parameters, where there is one to the optimiser now: a checkpoint of an earlier version."""
    before, now = (Learner(net(), Context(Settings()), fused=fused) for fused in (False, True))
    before.model(torch.randn(4, 5)).sum().backward()
    before.step(0)
    (tmp_path / "epochs").mkdir()
    save_epoch(tmp_path, EpochRecord(0, 0, "training", "tgl", 0, 0, 1, (0.5,), {}), before, {})
    with pytest.raises(UserError, match="not a readable checkpoint of this model") as raised:
        restore(tmp_path, SimpleNamespace(learner=now, restore=lambda state: None), torch.device("cpu"))
    assert "delete it to train from the first epoch on" in str(raised.value) and "\n" not in str(raised.value)
