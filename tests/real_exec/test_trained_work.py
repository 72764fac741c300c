"""What plans say that they train on, against what training does: plans of one mathematics have one curve of losses."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import family_jobs
import numpy as np
import pytest
from pairwise import fast

from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.harness.planning.schedules import plan_epoch
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.worker import run_job
from chronoscale.strategies import registry
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.trained_work import trained_work
from chronoscale.strategies.workload import Hyper, Workload

TRAINED = fast(["t-gcn", "evolvegcn-o", "pgt-dcrnn", "tgn", "tgat"], lambda _, model: model not in ("t-gcn", "pgt-dcrnn"))


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    return {job.model.name: job for job in family_jobs.jobs(tmp_path_factory.mktemp("cases"), family_jobs.REHEARSED)}


@pytest.mark.parametrize("model", TRAINED)
def test_one_mathematics_is_one_curve_of_losses(jobs: dict[str, Job], model: str) -> None:
    """Two epochs on one rank. Other sums of floats differ by rounding; other targets, or another order, by much more."""
    job = replace(jobs[model], repeats=2, warmup=0, settings=Settings(seed=family_jobs.SEED))
    plans = {item.label: Schedule.load(Path(item.schedule)) for item in job.items}
    job = replace(job, items=tuple(item for item in job.items if plans[item.label].mathematics))
    losses = {name: np.concatenate([each.losses for each in passes]) for name, passes in run_job(job).items() if name in plans}
    groups = defaultdict(list)
    for name in losses:
        groups[plans[name].mathematics].append(name)
    assert max(map(len, groups.values())) > 1
    for names in groups.values():
        assert len({plans[name].iterations for name in names}) == len({plans[name].targets for name in names}) == 1
        for name, other in combinations(names, 2):
            np.testing.assert_allclose(losses[name], losses[other], rtol=1e-3, err_msg=f"{name}, {other}")


def planned(name: str, ranks: int, hyper: Hyper, model: str = "t-gcn") -> Schedule:
    graph = GrowthGraph.rmat(60, 700, 21, 0.1, 1).sequence().without_self_edges()
    work = Workload("growth", statistics_of(graph), model_shape(model, 4, 4, 1), hyper)
    return plan_epoch(registry.strategy(name), work, ranks, UNUSED)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_groups_of_snapshots_that_train_alike(ranks: int) -> None:
    """20 groups of one target each: two to a rank are two to a rank, whoever plans them."""
    hyper = Hyper(group_size=1, groups_per_rank=2)
    psg, blad, reuse = (planned(name, ranks, hyper) for name in ("psg", "blad", "real-reuse"))
    assert psg.mathematics == blad.mathematics == reuse.mathematics
    assert psg.iterations == -(-20 // (2 * ranks)) and psg.targets == 20 * 60
    alone = planned("psg", ranks, replace(hyper, groups_per_rank=1))
    assert alone.iterations == 20 // ranks and alone.targets == psg.targets and alone.mathematics != psg.mathematics


def test_another_horizon_is_another_target() -> None:
    assert planned("psg", 1, Hyper(horizon=1)).mathematics != planned("psg", 1, Hyper(horizon=2)).mathematics


def test_weights_that_evolve_predict_after_every_snapshot() -> None:
    hyper = Hyper(group_size=4)
    assert planned("psg", 1, hyper, "evolvegcn-o").targets == 4 * planned("psg", 1, hyper).targets


def test_increments_as_published_are_another_mathematics() -> None:
    """Exact ones are sums in another order."""
    names = ("psg", "real-type1")
    assert len({planned(name, 1, Hyper()).mathematics for name in names}) == 1
    assert len({planned(name, 1, Hyper(variant="as-published")).mathematics for name in names}) == 2


def test_order_of_steps_counts_and_order_within_one_does_not() -> None:
    step, target = np.array([0, 0, 1, 1]), np.array([3, 5, 2, 7])
    work = trained_work(step, target, 10)
    assert work.targets == 40
    assert trained_work(step, np.array([5, 3, 7, 2]), 10) == work
    assert trained_work(step[::-1], target[::-1], 10) == work
    assert trained_work(step, np.array([2, 7, 3, 5]), 10).mathematics != work.mathematics
    assert trained_work(np.array([0, 1, 1, 1]), target, 10).mathematics != work.mathematics
    assert trained_work(np.array([0, 0, 1, 2]), target, 10).mathematics != work.mathematics  # the same targets in the same order
    assert trained_work(step, target, 10, "sampled").mathematics != work.mathematics


def test_strategies_on_streams_that_train_alike(jobs: dict[str, Job]) -> None:
    plans = {item.label: Schedule.load(Path(item.schedule)) for item in jobs["tgn"].items}
    assert len({plans[name].mathematics for name in ("sequential", "tgl", "etc", "taser", "simple", "fast")}) == 1
    assert len({plans[name].mathematics for name in ("tgl", "tgl-unique", "memshare", "mspipe", "disttgl")}) == 5
    assert all(plans[name].mathematics == plans[f"{name}-cached"].mathematics for name in ("tgl-dist", "memshare"))
    assert plans["tgl"].targets == len(range(round(0.7 * family_jobs.REHEARSED.events)))
