"""Learner: what its steps do to a model."""

import pytest

from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.context import joined
from chronoscale.real_exec.interpreter import execute
from chronoscale.real_exec.job import Item, Settings
from chronoscale.real_exec.programs import bound
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
    with joined(Settings(learning_rate=0.01, device="cpu", scale_learning_rate=scaled)) as context:
        program = bound(Item(name, "", str(tmp_path / "data"), hyper), schedule, ModelChoice("t-gcn", 4, 1, 4), context)
        execute(schedule, program, context.lanes(schedule), "cpu")
        assert program.learner.rates() == rates
        assert program.learner.rates() != rates  # asked again: of no step
