"""Run folders of `chronoscale advise`: interruption, partitions that are cut once, processes, reports."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from command_line import command, killed_at, one_line
from distributed import LocalCluster

from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.harness.advice import advise as running
from chronoscale.harness.advice.judge import judge
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.workflows.snapshots import partitions


def test_a_killed_run_goes_on_where_it_was(experiment, capsys, monkeypatch):
    file = experiment(strategies=["psg", "real-g+"], gpus=[1, 2, 4])
    calls = []

    def once(task):
        calls.append(task.candidate)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return judge(task)

    monkeypatch.setattr(running, "judge", once)
    command("advise", file, expect=130)
    assert "interrupted while simulating; the same command takes it up again" in capsys.readouterr().err
    run = Run(Path("runs/small-advise-1"))
    assert not run.complete and [folder.name for folder in run.pieces("point-")] == ["point-00000", "point-00001"]
    command("report", run.folder)
    page = Path("report/index.html").read_text()
    assert "small-advise-1 is incomplete" in page and "not there: psg on 2 GPUs of h200; real-g+ on 2 GPUs of h200; " in page
    monkeypatch.setattr(Run, "lock", lambda self: True)  # this process has it from before
    capsys.readouterr()
    command("advise", file, "--json")
    output = capsys.readouterr()
    assert "taking up runs/small-advise-1" in output.err and len(calls) == 3 + 4 and len(set(map(str, calls))) == 6
    assert len(json.loads(output.out)["points"]) == 6 and run.complete


@pytest.mark.slow
def test_processes_that_are_killed_leave_a_run_that_goes_on(experiment, capsys):
    """SIGKILL in the middle of a sweep in processes: they end with it, and what was done is kept."""
    file = experiment(strategies=["psg", "real-g+"], gpus=[1, 2, 4, 8], advise={"grid": {"training.group_size": [2, 3, 4, 5, 6]}})
    run = Path("runs/small-advise-1")
    killed_at(lambda: any(run.glob("point-*")), "advise", file, "--workers", "2")
    done = len(list(run.glob("point-*")))
    assert 0 < done <= 40
    command("advise", file, "--json")
    output = capsys.readouterr()
    assert len(json.loads(output.out)["points"]) == 40 and (done == 40 or "taking up" in output.err)


GRID = {"grid": {"training.group_size": [2, 4]}}


def test_a_graph_is_cut_once_a_run(experiment, capsys, monkeypatch):
    """METIS may answer otherwise the next time: who simulates, wherever, is given what it has cut."""
    calls = []

    def metis(sequence, parts):
        calls.append(parts)
        return np.arange(sequence.num_nodes, dtype=np.int32) % parts

    def elsewhere(task):
        with monkeypatch.context() as patch:
            patch.setattr(partitions, "metis_partition", lambda sequence, parts: pytest.fail("cut anew"))
            return judge(task)

    monkeypatch.setattr(partitions, "metis_partition", metis)
    monkeypatch.setattr(running, "judge", elsewhere)
    command("advise", experiment(strategies=["psg", "distdgl"], gpus=[1, 2], advise=GRID), "--json")
    points = json.loads(capsys.readouterr().out)["points"]
    assert len(points) == 8 and {one["partition"] for one in points} == {"", "METIS"} and sorted(set(calls)) == [1, 2]


@pytest.mark.slow
def test_serial_parallel_and_on_dask_the_same(experiment, capsys, monkeypatch):
    """Also what METIS has cut, once a run and here, whoever simulates with it."""
    monkeypatch.setattr(partitions, "metis_partition", lambda sequence, parts: np.arange(sequence.num_nodes, dtype=np.int32) % parts)
    grids = []
    with LocalCluster(n_workers=2, threads_per_worker=2, processes=True, dashboard_address="127.0.0.1:0") as cluster:
        ways = (("--workers", 1), ("--workers", 2), ("--dask", cluster.scheduler_address))
        for number, how in enumerate(ways):
            file = experiment(f"way{number}", strategies=["psg", "distdgl"], gpus=[1, 2], advise=GRID)
            command("advise", file, "--json", *how)
            grids.append(json.loads(capsys.readouterr().out))
    assert grids[0] == grids[1] == grids[2] and len(grids[0]["points"]) == 8
    assert {one["partition"] for one in grids[0]["points"]} == {"", "METIS"}


@pytest.mark.slow
def test_a_report_shows_it(experiment, capsys):
    command("advise", experiment(strategies=["psg", "esdg"], gpus=[1, 2], advise={"budget": {"hours": 1.0}}))
    command("simulate", experiment(strategies=["psg"], gpus=[1, 2]))
    capsys.readouterr()
    command("report", "runs/small-advise-1", "runs/small-simulate-1", "--json")
    data = json.loads(capsys.readouterr().out)
    (advice,) = data["advice"]
    assert advice["headline"].startswith("First by time: ") and advice["not_ranked"] == [] and len(data["sections"]) == 1
    assert advice["title"] == "Advice by time: t-gcn on graphs (small-advise-1)"
    rows = list(csv.DictReader(Path("report", advice["table"]).read_text().splitlines()))
    assert [row["rank"] for row in rows] == ["1", "2", "3", "4"] and all(row["reason"] for row in rows)
    page, text = Path("report/index.html").read_text(), Path("report/report.md").read_text()
    assert advice["headline"] in page and "of the epoch" in text and "![Time against GPU time](figures/advice-pareto.svg)" in text
    assert Path("report/figures/advice-pareto.png").exists() and "Simulated times of several GPUs are" in page
    assert any("more than its folder holds" in note for note in data["notes"]) is False


def test_a_damaged_verdict_is_reported(experiment, capsys):
    command("advise", experiment(strategies=["psg"], gpus=[1]))
    Path("runs/small-advise-1/point-00000/verdict.json").write_text("{")
    command("report", "runs/small-advise-1", expect=2)
    assert "point-00000/verdict.json: not a readable verdict" in one_line(capsys)


def test_a_changed_dataset_begins_a_new_run(experiment, capsys):
    file = experiment(strategies=["psg"], gpus=[1])
    command("advise", file)
    shutil.rmtree("graphs")
    store.save(Path("graphs"), GrowthGraph.rmat(64, 300, 12, 0.1, 2).sequence())
    command("advise", file)
    assert Path("runs/small-advise-2").exists()
