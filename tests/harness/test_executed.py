"""Schedules executed for a study."""

import numpy as np
from one_rank import here

from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.harness.study import execution
from chronoscale.harness.study.hooks import real_executed
from chronoscale.harness.study.point import StudyPoint
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.worker import run_job
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload

GRAPHS = GrowthGraph.rmat(32, 120, 12, 0.1, 1).sequence().without_self_edges()  # eight groups


def test_the_learning_rate_of_figure_14_grows_with_the_groups_of_a_step(tmp_path, monkeypatch):
    """REAL §7.4: two groups a step train as at twice the rate."""
    monkeypatch.setattr(execution, "launch", here)
    monkeypatch.setattr(real_executed, "weekly", lambda *_: GRAPHS)
    monkeypatch.setattr(real_executed, "Hyper", lambda: Hyper(groups_per_rank=2))
    rate, width = 0.002, 16
    result = real_executed.losses(StudyPoint.of({"strategy": "blad", "epochs": 3, "groups": 8, "width": width, "rate": rate, "week_s": 1}))
    assert result["steps"] == 4

    hyper = Hyper(groups_per_rank=2)
    work = Workload("w", statistics_of(GRAPHS), model_shape("wd-gcn", width, width), hyper)
    strategy("blad").plan(work, 1, UNUSED).save(tmp_path / "schedule.parquet")
    store.save(tmp_path / "data", GRAPHS)
    item = Item("blad", str(tmp_path / "schedule.parquet"), str(tmp_path / "data"), hyper)
    settings = Settings(learning_rate=2 * rate, device="cpu")
    expected = run_job(Job("j", (item,), str(tmp_path), ModelChoice("wd-gcn", width, 1, width), 3, settings=settings))["blad"]
    np.testing.assert_allclose(result["losses"], [one.losses.mean() for one in expected], rtol=1e-5)


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
