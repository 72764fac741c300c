"""The command line as its users meet it: good runs, mistakes in one line, kills, full disks."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import command, killed_at, one_line

from chronoscale.errors import UserError
from chronoscale.harness.execute import execution, replaying
from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.runs import run_folder
from chronoscale.harness.runs.start import find_runs
from chronoscale.strategies.registry import of

EXECUTED = sorted(name for name, planner in of("snapshots").items() if planner.executes)


@pytest.mark.slow
@pytest.mark.parametrize("executed", [["distdgl", "psg"], pytest.param(EXECUTED, marks=pytest.mark.slow)], ids=["two", "all"])
def test_the_loop_from_file_to_report(experiment, capsys, executed):
    """validate, simulate, report and trace on two ranks; every table is there, executed and simulated say so."""
    file = experiment(ranks=[2], strategies=executed, gpus=[1])
    command("validate", file, "--json")
    rows = json.loads(capsys.readouterr().out)
    assert {row["strategy"] for row in rows} == set(executed) and {row["ranks"] for row in rows} == {2}
    totals = [row for row in rows if row["op"] == "TOTAL"]
    assert all(row["measured_ms"] > 0 and row["spread_pct"] >= 0 for row in totals)
    assert all(row["coverage"]["compared"] == row["coverage"]["rows"] == row["tasks"] for row in totals)
    assert all(len(row["order"]) == len(executed) * (len(executed) - 1) / 2 for row in totals)
    assert {row["coverage"] for row in rows if row["op"] == "ITERATION"} == {None}
    command("simulate", experiment(ranks=[2], strategies=executed[-1:], gpus=[1, 16]), "--json")
    simulated = json.loads(capsys.readouterr().out)
    assert len(simulated) == 2 and {row["sources"] for row in simulated} == {"specified"}
    command("report", "runs/small-validate-1", "runs/small-simulate-1", "--out", "page")
    page = Path("page/index.html").read_text()
    assert all(name in page for name in executed) and "simulated" in page and "executed" in page
    assert {path.name for path in Path("page/tables").glob("*.csv")} >= {
        f"{name}.csv" for name in ("executed-comparison", "executed-fidelity", "executed-time_by_op", "simulated-comparison")
    }
    capsys.readouterr()
    command("trace", "runs/small-validate-1", "--out", "traces", "--json")
    files = json.loads(capsys.readouterr().out)
    assert len(files) == len(executed)
    events = json.loads(Path(files[0]).read_text())["traceEvents"]
    assert {"ph", "ts", "dur", "pid", "tid", "name"} <= set(next(event for event in events if event["ph"] == "X"))


@pytest.mark.slow
def test_profile_reports_held_out_error_and_is_used_again(experiment, inline, capsys):
    file = experiment()
    command("profile", file, "--json")
    fits = json.loads(capsys.readouterr().out)
    whole, changes = {"H2D", "AGGREGATE", "TRANSFORM", "TEMPORAL", "BACKWARD", "OPTIMIZE"}, {"INCREMENT", "RECONSTRUCT"}
    assert whole | changes == {fit["op"] for fit in fits}, "what no strategy here asks for is not timed"
    assert all(np.isfinite(fit["held-out error %"]) for fit in fits)
    assert all(low <= high for low, high in (fit["edges"] for fit in fits))
    assert all(error >= 0 for fit in fits for error in fit["others %"].values())
    command("bench", file, "--json")
    mine, theirs = (Path(f"runs/small-{name}-1/profile/costs-1.json") for name in ("bench", "profile"))
    assert mine.read_text() == theirs.read_text()


def test_dry_run_and_seed(experiment, capsys):
    file = experiment()
    command("simulate", file, "--dry-run", "--json", "--seed", 3)
    rows = json.loads(capsys.readouterr().out)
    assert {row["groups"] for row in rows} == {6} and not Path("runs").exists()


def test_dry_runs_refuse_what_the_command_refuses(experiment, capsys):
    file = experiment(strategies=["psg", "dgc"])
    for name in ("bench", "validate"):
        command(name, file, "--dry-run", expect=2)
        assert "strategy 'dgc' is simulated only" in one_line(capsys)
    for name in ("profile", "simulate"):
        command(name, file, "--dry-run")
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strategies": ["psq"]}, r"unknown strategy 'psq'; did you mean 'psg'"),
        ({"model": "wdgcn"}, r"unknown model 'wdgcn'; did you mean 'wd-gcn'"),
        ({"cluster": "h2000"}, r"unknown cluster 'h2000'; did you mean 'h200'"),
        ({"dataset": "math_overflow"}, r"unknown dataset 'math_overflow'; did you mean 'math_overflow_monthly'"),
        ({"gpus": [4, 0]}, r"gpus: expected one or more counts of at least 1, got \[4, 0\]"),
        ({"ranks": []}, r"ranks: expected one or more"),
        ({"model": {"hiden": 8}}, r"unknown key 'model\.hiden'.*hidden"),
        ({"model": {"hidden": 0}}, r"model\.hidden: expected more than 0 \(got 0\)"),
        ({"name": "../out"}, r"name: "),
        ({"ranks": [1, 1]}, r"ranks: each count once"),
        ({"groups": 100}, r"groups: 100 need 104 snapshots|snapshots"),
        ({"repeat": 3}, r"unknown key 'repeat'; did you mean 'repeats'"),
        ({"dataset": {"path": "nothing"}}, r"nothing: no such file or folder"),
        ({"dataset": {"path": "graphs", "cut": {"width": 2}}}, r"not a stream of events, so `cut` does not apply"),
        ({"dataset": {"path": "graphs", "cut": {}}}, r"exactly one of width, count"),
        ({"groups": None, "training": {"group_size": 40}}, r"12 snapshots; a group of 40"),
        ({"costs": "none.json"}, r"none\.json: no such file, a cost model is expected"),
        ({"dataset": "stackoverflow"}, r"'stackoverflow' is not at hand: fetch SNAP sx-stackoverflow"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(experiment, capsys, changes, message):
    for name in ("bench", "simulate"):
        command(name, experiment(**changes), expect=2)
        assert re.search(message, one_line(capsys))


def test_files_that_are_not_what_they_should_be(experiment, capsys):
    command("bench", "none.yaml", expect=2)
    assert "none.yaml: no such experiment file" in one_line(capsys)
    Path("bad.yaml").write_text("dataset: [unclosed")
    command("bench", "bad.yaml", expect=2)
    assert "bad.yaml: not valid YAML" in one_line(capsys)
    Path("list.yaml").write_text("- a\n")
    command("bench", "list.yaml", expect=2)
    assert "expected keys and values" in one_line(capsys)
    Path("events.txt").write_text("1 2 10\n1 3 11\n2 x 12\n")
    command("bench", experiment(dataset={"path": "events.txt", "cut": {"count": 2}}), expect=2)
    assert re.search(r"events\.txt:3: ", one_line(capsys))
    Path("events.txt").write_text("1 2 10\n1 3 9\n")
    command("bench", experiment(dataset={"path": "events.txt", "cut": {"count": 2}, "options": {"strict": True}}), expect=2)
    assert "events.txt" in one_line(capsys)
    (Path("graphs") / "src.npy").write_bytes((Path("graphs") / "src.npy").read_bytes()[:-40])
    command("bench", experiment(), expect=2)
    assert "src.npy" in one_line(capsys)
    command("report", "runs", expect=2)
    assert "not a run" in one_line(capsys)
    command("data", "info", "los_lop", expect=2)
    assert "did you mean 'los_loop'" in one_line(capsys)


def test_a_schedule_larger_than_memory_is_a_result(experiment, capsys):
    """Counts times a million do not fit an H200: the point says so, others go on, the report notes it."""
    file = experiment(dataset={"name": "dygraph_small", "scale": 1_000_000}, gpus=[1, 2], strategies=["psg"])
    command("simulate", file, expect=2)
    line = one_line(capsys)
    assert all(f"psg on {gpus} GPUs does not fit: out of memory" in line for gpus in (1, 2))
    point = json.loads(Path("runs/small-simulate-1/sim-00001-psg/point.json").read_text())
    assert re.match(r"out of memory: rank 0 needs [\d.,]+ GB at task \d+ \(\w+", point["out_of_memory"])


@pytest.mark.slow
def test_a_simulation_says_which_link_is_busiest(experiment):
    command("simulate", experiment(gpus=[16], strategies=["psg"]))
    folder = Path("runs/small-simulate-1/sim-00016-psg")
    point, links = json.loads((folder / "point.json").read_text()), pd.read_csv(folder / "links.csv")
    busiest = point["links"][0]
    assert busiest["link"] == links["link"][0] and busiest["utilisation"] == pytest.approx(links["utilisation"][0])
    assert (links["utilisation"].diff().dropna() <= 0).all() and links["bytes"].min() > 0
    command("report", "runs/small-simulate-1")
    assert f"{busiest['link']}, {100 * busiest['utilisation']:.1f} %" in "".join(path.read_text() for path in Path("report").rglob("*.csv"))


def test_an_interrupted_run_is_incomplete_and_resumes(experiment, inline, monkeypatch, capsys):
    """Its pieces stay, and the same command goes on after them; a complete run is never touched again."""
    file, run = experiment(strategies=["psg"]), Path("runs/small-validate-1")
    with monkeypatch.context() as patch:
        patch.setattr(replaying, "replay", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        command("validate", file, expect=130)
    assert capsys.readouterr().err.splitlines()[-1].startswith("interrupted while ")
    assert (run / "ranks-1").exists() and not (run / "replay-1").exists() and not run_folder.Run(run).complete
    (run / ".lock").unlink()  # which this process holds to its end
    goes_on("validate", file, run, capsys)
    assert (run / "replay-1").exists()
    monkeypatch.setattr(execution, "launch", lambda *_: (_ for _ in ()).throw(UserError("as far as this")))
    command("validate", file, expect=2)
    assert [path.name for path in Path("runs").iterdir()] == [run.name] and run_folder.Run(run).complete  # what is refused leaves nothing


@pytest.mark.slow
def test_a_killed_run_is_incomplete_and_resumes(experiment, inline, capsys):
    """A killed command leaves no rank behind that would go on writing."""
    command("profile", experiment("usual"))
    file = experiment(ranks=[1, 2], repeats=100, costs="runs/usual-profile-1/profile/costs-1.json")
    run = Path("runs/small-bench-1")
    killed_at((run / ".ranks-2.part" / "attempt1").exists, "bench", file)
    assert (run / "ranks-1").exists() and not (run / "ranks-2").exists() and not run_folder.Run(run).complete
    goes_on("bench", file, run, capsys)
    assert (run / "ranks-2").exists() and not Path("runs/small-bench-2").exists()


def goes_on(name, file, run, capsys):
    """A report says that the run is incomplete; the command takes it up and leaves what was executed as it is."""
    written = {path: path.stat().st_mtime_ns for path in (run / "ranks-1").iterdir()}
    command("report", run, "--out", "early")
    assert "incomplete" in Path("early/index.html").read_text()
    capsys.readouterr()
    command(name, file)
    assert f"taking up {run}" in capsys.readouterr().err and run_folder.Run(run).complete
    assert written == {path: path.stat().st_mtime_ns for path in (run / "ranks-1").iterdir()}


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_is_one_line_and_loses_nothing(experiment, tmp_path, capsys):
    small = tmp_path / "disk"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(small)], capture_output=True).returncode:
        pytest.skip("this machine does not allow mounts")
    try:
        file = experiment(gpus=[1, 2, 4, 8, 16, 32, 64, 128], strategies=["psg", "esdg"])
        command("simulate", file, "--runs", small / "runs", expect=1)
        assert one_line(capsys).startswith("error: the disk is full")
        run = find_runs(small / "runs")[0]
        assert not run.complete
        pieces = [path.name for path in run.pieces("sim-")]
        assert pieces
        subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
        (run.folder / ".lock").unlink()  # which this process holds to its end
        command("simulate", file, "--runs", small / "runs")
        assert run.complete and {path.name for path in run.pieces("sim-")} > set(pieces)
    finally:
        subprocess.run(["umount", "--lazy", str(small)], check=True)


@pytest.mark.slow
def test_more_ranks_than_groups_and_groups_of_one(experiment, inline):
    """Ranks without work still take part in every all-reduce; a group of one snapshot has no difference map."""
    command("profile", experiment("usual"))
    costs = "runs/usual-profile-1/profile/costs-1.json"
    command("validate", experiment("few", ranks=[2], groups=1, repeats=1, strategies=["psg", "real-g"], costs=costs))
    command("validate", experiment("ones", training={"group_size": 1}, repeats=1))


def test_runs_are_left_to_those_who_work_on_them(experiment, capsys):
    """A run that is being worked on, of another environment, or of another version is not taken up."""
    file = experiment(gpus=[1], strategies=["psg"])
    command("simulate", file)
    first = Path("runs/small-simulate-1")
    status = json.loads((first / "status.json").read_text())
    (first / "status.json").write_text(json.dumps({**status, "state": "running"}))
    command("simulate", file)  # this process holds the first one's lock
    assert Path("runs/small-simulate-2").exists() and not run_folder.Run(first).complete
    other = Path("runs/small-simulate-3")
    shutil.copytree(first, other)  # with a lock of its own, which nobody holds
    environment = json.loads((first / "environment.json").read_text())
    (other / "environment.json").write_text(json.dumps({**environment, "torch": "1.0"}))
    command("simulate", file)
    assert Path("runs/small-simulate-4").exists() and not run_folder.Run(other).complete
    (other / "environment.json").write_text(json.dumps(environment))
    command("simulate", file)
    assert run_folder.Run(other).complete and not run_folder.Run(first).complete
    (first / "status.json").write_text("{}")
    capsys.readouterr()
    command("simulate", file)
    assert "left aside: runs/small-simulate-1/status.json: not a readable status of a run (command: required, and not there)" in " ".join(
        capsys.readouterr().err.split()
    )


def test_a_stream_without_a_cut_says_what_can_be_done_with_it(experiment, capsys):
    Path("events.txt").write_text("1 2 10\n1 3 11\n2 3 12\n")
    for model in ("t-gcn", "pgt-dcrnn"):
        Path("s.yaml").write_text(json.dumps({"dataset": {"path": "events.txt"}, "model": model}))
        for name in ("bench", "simulate", "train", "profile"):
            command(name, "s.yaml", expect=2)
            line = one_line(capsys)
            assert "is a stream of events: tgn, tgat, dysat, jodie, apan, graphmixer, dygformer train on it as it is" in line
            assert "`cut: {count: 1000}`" in line


def test_digest_ignores_nothing():
    base = {"dataset": "growth_small", "groups": 6}
    assert check(base, "x").digest() == check(dict(base), "x").digest()
    assert check({**base, "seed": 1}, "x").digest() != check(base, "x").digest()
    assert check({**base, "seed": 1}, "x").digest("model") == check(base, "x").digest("model")


def test_bench_says_at_which_learning_rate_a_strategy_trained(experiment, inline, capsys):
    """In its rows, and in the report in words."""
    file = experiment(training={"learning_rate": 0.01, "groups_per_rank": 2}, strategies=["psg", "blad"], ranks=[1])
    command("bench", file, "--json")
    printed = capsys.readouterr()
    assert {row["strategy"]: row["learning_rate"] for row in json.loads(printed.out)} == {"psg": 0.02, "blad": 0.02}
    assert "training.scale_learning_rate: false keeps 0.01 for all." in " ".join(printed.err.split())
    command("report", "runs/small-bench-1", "--out", "page")
    sentence = (
        "the learning rate of a step is 0.01 times its groups on all ranks (REAL §7.4), at most: blad on 1 rank 0.02, psg on 1 rank 0.02; "
        "training.scale_learning_rate: false keeps 0.01 for all."
    )
    assert sentence in Path("page/index.html").read_text()


def test_more_groups_than_there_are_is_an_error_before_anything_starts(experiment, capsys):
    """Of a file and of what is generated as it is read; to simulate and to execute."""
    for data, message in (
        ({"path": "graphs"}, r"groups: 100000 need 100004 snapshots, dataset 'graphs' has 12, enough for 8 groups; without"),
        ("growth_small", r"groups: 100000 need 100004 snapshots, dataset 'growth_small' has \d+, enough for \d+ groups"),
    ):
        for name in ("simulate", "bench", "train"):
            command(name, experiment(dataset=data, groups=100_000, gpus=[1], strategies=["psg"], costs="datasheet"), expect=2)
            assert re.search(message, one_line(capsys))
