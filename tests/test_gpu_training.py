"""The parts of `make gpu` that train and simulate: what they run, compare and refuse, on a CPU."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from gpu import families, launch, losses, ranks, tables
from gpu.place import Place
from gpu.record import Failed, Record

from chronoscale.real_exec.job import Item, Job
from chronoscale.strategies.workload import Hyper, ModelChoice


@pytest.mark.slow
def test_losses_are_compared_strategy_by_strategy(monkeypatch, tmp_path):
    """The real jobs of a model; then losses that are off by 0.1 %."""
    job = next(losses.jobs(tmp_path / "losses", losses.REHEARSED))
    assert {"psg", "esdg", "distdgl", "real-g+", "all map", "all delta"} <= {item.label for item in job.items}
    job = replace(job, items=tuple(item for item in job.items if item.label in ("psg", "esdg", "all map")))
    monkeypatch.setattr(losses, "jobs", lambda folder, sizes: iter([job]))
    place, record = Place(tmp_path / "out", "cpu", tmp_path / "work"), Record(tmp_path / "losses.json")
    losses.run(place, record)
    rows = record.data["losses"]
    assert len(rows) == 3
    assert all(row["difference"] == 0 and row["cpu"] > 0 for row in rows)
    found, factors = losses._losses, iter((1.001, 1, None, 1, 1))

    def off_or_broken(job, device):
        if (factor := next(factors)) is None:
            raise RuntimeError("device-side assert")
        return found(job, device) * factor

    monkeypatch.setattr(losses, "_losses", off_or_broken)
    record = Record(tmp_path / "off.json")
    with pytest.raises(Failed, match=r"^2 failed or .*: wd-gcn psg: 1\.0e-03; wd-gcn esdg: RuntimeError: device-side assert$"):
        losses.run(place, record)
    assert [row.get("error") for row in record.data["losses"]] == [None, "RuntimeError: device-side assert", None]
    assert "| wd-gcn | 2 |" in tables.losses(record.data)


def test_two_ranks_share_the_gpu(monkeypatch, tmp_path):
    """Each strategy by itself, on the CPU and on the device; then losses of the device that are off by 0.1 %."""
    launched, asked = [], Job("t-gcn", (), str(tmp_path), ModelChoice("t-gcn"), 1)
    items = tuple(Item(label, "", "", Hyper()) for label in ranks.CASES["t-gcn"])
    monkeypatch.setattr(
        ranks, "jobs", lambda folder, sizes, count: iter([replace(asked, items=items), replace(asked, model=ModelChoice("jodie"))])
    )
    monkeypatch.setattr(ranks, "present", lambda place: None)

    def launch(job, count, folder):
        launched.append((job.items[0].label, job.settings.device, job.settings.share_gpu, count))
        off = 1.001 if (job.items[0].label, job.settings.device) == ("esdg", "cuda") else 1.0
        np.save(tmp_path / f"{job.items[0].label}-losses.npy", np.ones((1, 4)) * off)

    monkeypatch.setattr(ranks, "launch", launch)
    place, record = Place(tmp_path / "out", "cuda", tmp_path / "work"), Record(tmp_path / "ranks.json")
    with pytest.raises(Failed, match=r"^1 failed or differ by more than 0.0001: t-gcn esdg: 1\.0e-03$"):
        ranks.run(place, record)
    assert launched == [(label, device, True, 2) for label in ranks.CASES["t-gcn"] for device in ("cuda", "cpu")]
    text = tables.document({"ranks": {**record.data, "status": "failed"}})
    assert "| t-gcn | 6 | 1.0e-03 | esdg |" in text and "**missed**, 1.0e-03 (t-gcn esdg)" in text


@pytest.mark.slow
def test_the_strategies_of_two_ranks_are_there_and_run(tmp_path):
    place, record = Place(tmp_path / "out", "cpu", tmp_path / "work"), Record(tmp_path / "ranks.json")
    ranks.run(place, record)
    rows = record.data["losses"]
    assert {(row["model"], row["strategy"]) for row in rows} == {(model, name) for model, names in ranks.CASES.items() for name in names}
    assert all(row["difference"] == 0 and row["cpu"] > 0 for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("part", [families.windows, families.streams, families.signals])
def test_a_family_is_profiled_and_validated(monkeypatch, tmp_path, part):
    """As in a rehearsal: each operation of each strategy is predicted by the costs that the part fits."""
    monkeypatch.setattr(Place, "environment", lambda self: dict(os.environ))
    place, record = Place(tmp_path / "out", "cpu", tmp_path / "work"), Record(tmp_path / "part.json")
    record.put(machine={"device": "A CPU (R)"})
    part(place, record)
    data = Record.read(record.path)
    assert data["file"].startswith("a-cpu-r_") and data["costs"]["device"]
    assert {row["strategy"] for row in data["fidelity"]} == {*data["experiment"]["strategies"]}
    assert all(row["predicted_ms"] > 0 for row in data["fidelity"] if row["op"] == "ITERATION")
    assert {row["strategy"] for row in data["simulated"]} == {*data["experiment"]["strategies"]}
    text = tables.document({part.__name__: {**data, "status": "passed"}})
    assert "held-out error" in text and text.count("| ITERATION |") == len(data["experiment"]["strategies"])


@pytest.mark.slow
def test_launches_are_compared(monkeypatch, tmp_path):
    """As in a rehearsal, where both are row by row."""
    monkeypatch.setattr(Place, "environment", lambda self: dict(os.environ))
    record = Record(tmp_path / "launch.json")
    launch.run(Place(tmp_path / "out", "cpu", tmp_path / "work"), record)
    rows = record.data["launches"]
    assert [row["strategy"] for row in rows] == ["psg", "real-type1", "real-reuse", "index", "gpu-index"]
    assert all(row["difference"] <= 1e-6 and min(row["measured_ms"]) > 0 for row in rows)
    assert all(row["simulated_ms"][1] < row["simulated_ms"][0] for row in rows)


def said(monkeypatch, folder: Path, losses: list[list[float]], launched: dict[str, object]) -> Record:
    """A part whose commands are told what to leave, one strategy a family."""

    def answer(place, record, own, name, experiment):
        if name == "bench":
            graphs = experiment["launch"] == "graph"
            (ranks := own / "runs" / "one" / "ranks-1").mkdir(parents=True)
            np.save(ranks / "psg-losses.npy", np.array([losses[graphs]]))
            if graphs:
                (ranks / "psg-launched.json").write_text(json.dumps([launched]))
        return [{"strategy": "psg", "epoch_s": 0.002 if experiment["launch"] == "eager" else 0.001}]

    monkeypatch.setattr(launch, "present", lambda place: None)
    monkeypatch.setattr(launch, "command", answer)
    monkeypatch.setattr(launch, "experiments", lambda place: {"snapshots": {"strategies": ["psg"]}})
    record = Record(folder / "launch.json")
    launch.run(Place(folder / "out", "cuda", folder / "work"), record)
    return record


def test_launches_that_agree(monkeypatch, tmp_path):
    record = said(monkeypatch, tmp_path, [[2.0, 1.0], [2.0, 1.0001]], {"graphs": 4, "captured": 0, "why": ""})
    (row,) = record.data["launches"]
    assert row == {
        **{"family": "snapshots", "strategy": "psg", "difference": pytest.approx(5e-5), "launched": ("eager", "graph")},
        **{"measured_ms": [2.0, 1.0], "simulated_ms": [2.0, 1.0], "graphs": 4, "why": ""},
    }
    assert "| snapshots | psg | eager / graph | 2.000 / 1.000 | 2.000 / 1.000 | 4 | 5e-05 |" in tables.launches(record.data)


@pytest.mark.parametrize(
    ("losses", "launched", "why"),
    [
        ([[2.0, 1.0], [2.0, 1.01]], {"graphs": 4, "why": ""}, "1 differ or were not captured: snapshots psg: losses differ by 5.0e-03"),
        ([[2.0], [2.0]], {"graphs": 0, "why": "it draws"}, "1 differ or were not captured: snapshots psg: it draws"),
    ],
)
def test_launches_that_differ_or_are_none_fail_the_part(monkeypatch, tmp_path, losses, launched, why):
    with pytest.raises(Failed, match=why):
        said(monkeypatch, tmp_path, losses, launched)


def test_a_profile_that_says_nothing_of_a_strategy_fails_the_part(monkeypatch, tmp_path):
    rows = [{"strategy": "psg", "ranks": 8, "epoch_s": 0.5, "sources": "fitted"}, {"strategy": "blad", "ranks": 8, "epoch_s": None}]
    monkeypatch.setattr(families, "command", lambda place, record, folder, name, asked: rows[: 1 + ("blad" in asked["strategies"])])
    place, record = Place(tmp_path, "cpu", tmp_path), Record(tmp_path / "x.json")
    families.replay(place, record, tmp_path, {"strategies": ["psg"]}, tmp_path / "costs.json")
    assert "| psg | 8 | 500.000 | fitted |" in tables.replayed(record.data)
    with pytest.raises(Failed, match="the profile says nothing of blad on 8 GPUs"):
        families.replay(place, record, tmp_path, {"strategies": ["psg", "blad"]}, tmp_path / "costs.json")
