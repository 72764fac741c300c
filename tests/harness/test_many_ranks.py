"""More ranks than there are cores, memory or groups: refused or said before anything is begun, in tables and in JSON."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from command_line import command, one_line

from chronoscale.batching.snapshots.chunks import ExpectedChunking
from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.execute import machine
from chronoscale.harness.keys.experiment_files import check
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import of
from chronoscale.strategies.signals.forecasters import forecaster_shape
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Partition, Workload


def free(monkeypatch, gigabytes: float) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=gigabytes * 1e9))


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("ranks", [1, 4, 64])
@pytest.mark.parametrize("size", [2, 8])
def test_rows_are_estimated_before_they_are_made(layers, ranks, size):
    """Never fewer than there will be, and not ten times as many."""
    stats = EvolvingGraph(200, 400, snapshots=24).statistics()
    cluster = presets.cluster("h200")
    ones = np.full((24, ranks), 10)
    for name, planner in of("snapshots").items():
        if not planner.solves:
            parts = Partition(ones, ones, ones, ones) if planner.partitioned else None
            chunks = ExpectedChunking([(np.array([2]), np.array([200]))] * 24, 200, 64) if planner.chunked else None
            work = Workload("w", stats, model_shape("wd-gcn", 8, 8, layers), Hyper(group_size=size), parts, chunks)
            made = len(planner.plan(work, ranks, DatasheetCosts(cluster.device)))
            assert made <= planner.rows(work, ranks) <= 10 * made, (name, made, planner.rows(work, ranks))


@pytest.mark.parametrize("ranks", [1, 4, 64])
@pytest.mark.parametrize(
    "hyper", [Hyper(batch_size=1, horizon=12), Hyper(batch_size=8, horizon=12), Hyper(batch_size=8, horizon=12, batches=3)]
)
def test_rows_on_signals_are_estimated(ranks, hyper):
    shape = forecaster_shape(ModelChoice("pgt-dcrnn", hidden=8), 20, 1, 12, 12, "exact")
    work = Workload("s", SignalStatistics(400, 20, 1, 60), shape, hyper)
    for name, planner in of("signals").items():
        made = len(planner.plan(work, ranks, DatasheetCosts(presets.cluster("polaris").device)))
        assert made <= planner.rows(work, ranks) <= 12 * made, (name, made, planner.rows(work, ranks))


@pytest.mark.slow
def test_a_schedule_that_memory_does_not_hold_is_refused_before_it_is_made(experiment, capsys, monkeypatch):
    free(monkeypatch, 1)
    file = experiment(gpus=[1, 1_000_000], strategies=["psg"])
    command("simulate", file, expect=2)
    said = one_line(capsys)
    assert "strategy 'psg' on 1,000,000 ranks: its schedule would have about 3,000,354 rows and take 4.5 GB to plan and replay" in said
    assert "1.0 GB are free" in said
    command("simulate", file, "--dry-run", "--json", expect=2)
    rows = {row["ranks"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows[1_000_000] == {
        "strategy": "psg",
        "ranks": 1_000_000,
        "estimated_tasks": 3_000_354,
        "estimated_GB": pytest.approx(4.5, abs=0.1),
    }


def test_a_dry_run_shows_the_estimate(experiment, capsys):
    command("simulate", experiment(gpus=[4], strategies=["psg"]), "--dry-run", "--json")
    (row,) = json.loads(capsys.readouterr().out)
    assert row["tasks"] <= row["estimated_tasks"] and row["estimated_GB"] > 0 and row["idle_ranks"] == 0


SIX_OF_EIGHT = "more ranks than work: 2 of 8 ranks under psg train nothing and wait for the others"


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_more_gpus_than_groups_are_said(experiment, capsys, dry):
    file = experiment(gpus=[1, 8], strategies=["psg"])  # 6 groups
    command("simulate", file, "--json", *dry)
    said = capsys.readouterr()
    assert {row["ranks"]: row["idle_ranks"] for row in json.loads(said.out)} == {1: 0, 8: 2}
    assert SIX_OF_EIGHT in " ".join(said.err.split())


def test_a_report_says_it(experiment):
    command("simulate", experiment(gpus=[8], strategies=["psg"]))
    command("report", "runs/small-simulate-1")
    assert SIX_OF_EIGHT in Path("report/index.html").read_text()


@pytest.mark.parametrize("name", ["bench", "validate"])
def test_more_ranks_than_groups_are_said_of_what_is_executed(experiment, capsys, name):
    command(name, experiment(groups=1, ranks=[2], strategies=["psg"]), "--dry-run", "--json")
    said = capsys.readouterr()
    assert [row["idle_ranks"] for row in json.loads(said.out)] == [1]
    assert "1 of 2 ranks under psg train nothing" in " ".join(said.err.split())


def test_ranks_that_share_cores_are_said(monkeypatch):
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1})
    experiment = check({"dataset": "growth_small", "device": "cpu"}, "x")
    machine.check_seats(experiment, [1, 2])
    with pytest.warns(ChronoscaleWarning, match="ranks: 3 ranks share 2 cores: their times are not those of ranks with cores of their own"):
        machine.check_seats(experiment, [1, 3])
    with pytest.warns(ChronoscaleWarning, match="2 ranks of 4 threads share 2 cores"):
        machine.check_seats(experiment.model_copy(update={"threads": 4}), [2])


def test_more_processes_than_memory_holds_are_refused(experiment, capsys, monkeypatch):
    free(monkeypatch, 8)
    for arguments in (("bench",), ("validate",), ("train",), ("profile",), ("bench", "--dry-run")):
        command(arguments[0], experiment(ranks=[100]), *arguments[1:], expect=2)
        assert "ranks: 100 processes take 20.0 GB before they hold any data, 8.0 GB are free; run fewer ranks" in one_line(capsys)
    with pytest.raises(UserError, match="100 processes"):
        machine.check_seats(check({"dataset": "growth_small", "device": "cpu"}, "x"), [100])
