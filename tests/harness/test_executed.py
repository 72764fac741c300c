"""Schedules executed for a study."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_rank import here, inline_ranks
from scipy import stats
from small_studies import run_registered

from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError
from chronoscale.harness.reproduce import registry
from chronoscale.harness.study import evaluation, execution
from chronoscale.harness.study.hooks import real_executed
from chronoscale.harness.study.point import Points, Record, StudyPoint, StudyResult
from chronoscale.real_exec.training.epoch_record import EpochRecord
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, Workload

GRAPHS = GrowthGraph.rmat(32, 120, 12, 0.1, 1).sequence().without_self_edges()  # eight groups


def convergence_point(**settings):
    axes = {"paper": "real", "dataset": "communities_small", "model": "t-gcn", "strategy": "psg", "gpus": 2, "cluster": "h200"}
    return StudyPoint.of({**axes, "epochs": 3, "patience": 0, "held": 0.3, "width": 4, "rate": 0.002, "seed": 1, **settings})


def test_a_training_of_figure_14_learns_at_a_rate_that_grows_with_the_groups_of_a_step(monkeypatch):
    """REAL §7.4: two groups a step, twice the rate; on nodes that are held out, whose scores are kept."""
    inline_ranks(monkeypatch)
    trainings = []
    monkeypatch.setattr(execution, "train", lambda *given, train=execution.train: trainings.append(train(*given)) or trainings[-1])
    result = real_executed.accuracies(convergence_point())
    (done,) = trainings
    assert [one.rates for one in done.epochs] == [(0.004, 0.004)] * 3 and done.schedule.ranks == 2
    groups = 10 - 4  # of 24 snapshots 7 validate and 7 test; four a group, and one ahead
    assert result["steps"] == groups // 2 and len(result["losses"]) == len(result["validation"]) == result["trained"] == 3
    assert result["losses"] == pytest.approx([np.mean(one.losses) for one in done.epochs]) and result["loss"] == result["losses"][-1]
    best = int(np.argmax(result["validation"]))
    assert result["settled"] == best + 1 and result["validation"][best] == done.epochs[best].scores["accuracy"]
    nodes = round(480 * 0.3)  # labelled ones that test, in seven snapshots
    assert 0 < result["test"] < 1 and (result["test"] * nodes * 7) == pytest.approx(round(result["test"] * nodes * 7))
    assert result["rival"] * nodes == pytest.approx(round(result["rival"] * nodes))


def test_losses_are_weighted_by_the_groups_of_a_step():
    """Five groups on two ranks: two steps of two, and one of one, whose loss counts half."""
    graphs = GRAPHS.head(9)
    work = Workload("w", statistics_of(graphs), model_shape("wd-gcn", 8, 8), Hyper())
    schedule = strategy("psg").plan(work, 2, UNUSED)
    weights = real_executed.groups_a_step(schedule)
    assert weights.tolist() == [2, 2, 1]
    epoch = EpochRecord(0, 0, "", "psg", 0, 0, 0, (1.0, 2.0, 4.0), {"accuracy": 0.5})
    training = execution.Training(schedule, (epoch, epoch), 0, 0.5, {})
    assert training.losses(weights) == [pytest.approx((2 + 4 + 4) / 5)] * 2 and training.settled == 1, "of two, the first is best"


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=8))
def test_strategies_are_compared_seed_by_seed(pairs):
    rows = [(name, seed, value) for seed, pair in enumerate(pairs) for name, value in zip(("esdg", "psg"), pair, strict=True)]
    points = Points([Record(StudyPoint.of({"strategy": n, "seed": s}), StudyResult(values={"test": v})) for n, s, v in rows])
    gap = real_executed.beside_base(points, "psg", "esdg", "test")
    own, base = np.array(pairs)[:, 1], np.array(pairs)[:, 0]
    assert gap.mean == pytest.approx((own - base).mean(), abs=1e-12)
    if (own - base).std() > 1e-6:
        low, high = stats.ttest_rel(own, base).confidence_interval(0.95)
        assert (gap.mean - gap.half, gap.mean + gap.half) == pytest.approx((low, high), rel=1e-6, abs=1e-9)
        assert gap.sure == (not low <= 0 <= high)


def test_a_seed_that_one_strategy_lacks_is_refused_and_one_seed_says_nothing():
    points = [
        Record(StudyPoint.of({"strategy": n, "seed": s}), StudyResult(values={"test": 0.5 + s})) for n, s in (("esdg", 0), ("psg", 1))
    ]
    with pytest.raises(UserError, match=r"psg and esdg: expected the same seeds, found \[1\] and \[0\]"):
        real_executed.beside_base(Points(points), "psg", "esdg", "test")
    one = real_executed.beside_base(Points(points[:1]), "esdg", "esdg", "test")
    assert one.mean == 0 and np.isnan(one.half) and not one.sure


def test_mean_curves_end_with_the_shortest():
    assert real_executed.mean_curve([[1.0, 2.0, 3.0], [3.0, 4.0]]) == [2.0, 3.0]


def known(point):
    """Accuracies and losses in place of trainings: psg is a tenth better than ESDG with T-GCN, from every seed, real-g from some."""
    seed, model = point.setting("seed"), point.model
    better = {"psg": 0.1 + seed / 1000 if model == "t-gcn" else 0.0, "real-g": (seed - 2.5) / 50}.get(point.strategy, 0.0)
    curve = [0.2 + better, 0.6 + better, 0.5 + better] + [0.4 + better] * seed
    losses = [2.0, 1.0, 0.5 - better / 10] + [0.25] * seed
    scores = {"losses": losses, "loss": losses[-1], "validation": curve, "test": 0.5 + better, "rival": 0.15}
    return {**scores, "settled": 2, "trained": len(losses), "steps": 3, "note": "", "gap": 0.0}


@pytest.fixture
def known_accuracies(monkeypatch):
    known.__module__ = real_executed.__name__
    monkeypatch.setattr(evaluation, "_DONE", {})
    monkeypatch.setattr(real_executed, "accuracies", known)


def test_figure_14_says_which_strategies_differ_by_more_than_seeds(known_accuracies):
    findings = run_registered(registry.find("real", "figure", 14), quick=False)
    rows = findings.rows.set_index("what")
    assert len(rows) == 4 * 4
    psg = rows.loc["arxiv_blocks, t-gcn, psg"]
    assert (psg["test accuracy"], psg["minus esdg"]) == (pytest.approx(0.602), pytest.approx(0.102)) and psg["training loss"] == 1.0
    assert 0 < psg["give or take"] < 0.01 and psg["seeds"] == 5 and psg["epochs"] == 2
    assert findings.notes[0].startswith("1 of 12 comparisons with esdg differ in accuracy on test nodes by more than seeds do")
    assert ": psg by +0.102 ± 0.002 (t-gcn, arxiv_blocks). Differences of means lie between -0.010 and +0.102." in findings.notes[0]
    assert findings.notes[2].startswith("Training ends after 20 epochs without a better validation accuracy, or after 300; 80 of 80 ended")
    assert len(findings.tables["seeds"]) == 80 and len(findings.tables["epochs"]) == 16 * 3, "of epochs that all seeds have"


def test_figures_25_and_26_are_accuracy_and_loss_of_the_same_trainings(known_accuracies):
    accuracy, loss = (run_registered(registry.find("real", "figure", number), quick=False) for number in (25, 26))
    assert len(evaluation._DONE) == 4 * 5, "made once"
    assert list(accuracy.rows["what"]) == list(loss.rows["what"]) and "test accuracy" not in loss.rows and "last loss" not in accuracy.rows
    one = loss.rows.set_index("what").loc["products_blocks, wd-gcn, real-g"]
    assert one["last loss"] == pytest.approx((0.5 + 0.005 + 0.25 * 4) / 5) and one["minus esdg"] == pytest.approx(0.001)
    assert "in the training loss of the last epoch by more than seeds do" in loss.notes[0]
    assert "All train for 100 epochs, as the paper's" in accuracy.notes[2] and "products_like" in accuracy.notes[3]


def test_passes_that_warm_up_are_left_out(monkeypatch):
    """Of three passes the first, which warms up, is not returned; training has gone on from it."""
    monkeypatch.setattr(execution, "launch", here)
    hyper = Hyper()
    work = Workload("w", statistics_of(GRAPHS), model_shape("wd-gcn", 8, 8), hyper)
    schedule = strategy("psg").plan(work, 1, UNUSED)
    three = execution.passes(schedule, GRAPHS, work.model, hyper, 3)
    two = execution.passes(schedule, GRAPHS, work.model, hyper, 2, warmup=1)
    assert [len(three), len(two)] == [3, 2]
    np.testing.assert_array_equal([one.losses for one in two], [one.losses for one in three[1:]])
