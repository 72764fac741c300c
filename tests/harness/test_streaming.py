"""An epoch that memory does not hold: its figures are those of the whole, and it is said that there is no trace."""

import json
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import psutil
import pytest
from command_line import command, one_line

from chronoscale.harness.publish.collect import collect
from chronoscale.harness.runs.points import SimulatedPoint
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.workflows.snapshots import counted


@pytest.fixture
def little(monkeypatch):
    """100 kB are free."""
    return lambda: monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1e5))


@pytest.mark.slow
def test_a_streamed_point_is_the_point(experiment, capsys, little):
    file = experiment(gpus=[2], strategies=["distdgl"])
    command("simulate", file)
    capsys.readouterr()
    little()
    command("simulate", file)
    said = " ".join(capsys.readouterr().err.split())
    assert "distdgl on 2 GPUs: " in said and "rows were streamed, iteration by iteration: figures are kept, no trace" in said
    whole, parts = (Run(Path("runs/small-simulate-1")), Run(Path("runs/small-simulate-2")))
    one, other = (SimulatedPoint.load(run.folder / "sim-00002-distdgl") for run in (whole, parts))
    assert one.summary is None and other.summary is not None
    for name in ("strategy", "gpus", "peak_bytes", "host_bytes", "costs", "cluster", "partition", "idle_ranks"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.links[0].link == other.links[0].link and len(one.links) == len(other.links)
    links = [pd.read_csv(run.folder / "sim-00002-distdgl" / "links.csv").sort_values("link") for run in (whole, parts)]
    pd.testing.assert_frame_equal(*(frame.reset_index(drop=True) for frame in links), rtol=1e-12)
    measured = [{(one.strategy, one.ranks): one for one in collect([run]).runs} for run in (whole, parts)]
    for key, one in measured[0].items():
        other = measured[1][key]
        assert other.summary.epoch_s == one.summary.epoch_s and other.summary.imbalance == one.summary.imbalance
        assert dict(other.op_seconds) == pytest.approx(dict(one.op_seconds), rel=1e-12)
        assert other.setting == one.setting and other.timeline is None
    command("report", "runs/small-simulate-2")
    assert "no trace" in Path("report/index.html").read_text()


@pytest.mark.slow
def test_what_was_streamed_has_nothing_to_export(experiment, capsys, little):
    little()
    command("simulate", experiment(gpus=[2], strategies=["distdgl"]))
    capsys.readouterr()
    command("trace", "runs/small-simulate-1", "--format", "perfetto", expect=2)
    said = " ".join(capsys.readouterr().err.split())
    assert "sim-00002-distdgl was streamed, no trace of it was kept" in said and "no traces to export" in said


def test_what_cannot_be_streamed_is_refused_still(experiment, capsys, little):
    little()
    command("simulate", experiment(gpus=[2], strategies=["distdgl", "esdg"]), expect=2)
    assert "strategy 'esdg' on 2 ranks: its schedule would have about" in one_line(capsys)


def test_a_dry_run_plans_nothing_that_is_streamed(experiment, capsys, little):
    little()
    command("simulate", experiment(gpus=[2], strategies=["distdgl"]), "--dry-run", "--json")
    (row,) = json.loads(capsys.readouterr().out)
    assert row["note"] == "streamed, nothing planned" and row["estimated_tasks"] > 0


def test_expected_halos_are_counted_once(experiment, monkeypatch, tmp_path):
    monkeypatch.setenv("CHRONOSCALE_CACHE", str(tmp_path / "cache"))
    command("simulate", experiment(dataset={"name": "growth_small"}, gpus=[2, 3], strategies=["distdgl"]))
    assert len(list((tmp_path / "cache" / "halos").glob("*.npz"))) == 2
    points = [SimulatedPoint.load(Path(f"runs/small-simulate-1/sim-0000{gpus}-distdgl")) for gpus in (2, 3)]
    monkeypatch.setattr(counted, "expected_halos", lambda *_: pytest.fail("counted again"))
    command("simulate", experiment(dataset={"name": "growth_small"}, gpus=[3, 2], strategies=["distdgl"]))
    assert [SimulatedPoint.load(Path(f"runs/small-simulate-2/sim-0000{gpus}-distdgl")) for gpus in (2, 3)] == points
