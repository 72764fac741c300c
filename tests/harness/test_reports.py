"""Reports over runs: what compares, what does not, and what is not there."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from command_line import command, one_line

from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph


def report_data(capsys, *runs, out="page"):
    capsys.readouterr()
    command("report", *(f"runs/{run}" for run in runs), "--out", out, "--json")
    return json.loads(capsys.readouterr().out)


def rows(file: str, out: str = "page") -> list[dict[str, str]]:
    return list(csv.DictReader(Path(out, file).open(newline="")))


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """Where the one run is that the tests of this file look at."""
    return tmp_path_factory.mktemp("kept") / "run"


@pytest.fixture
def validated(experiment, inline, run_folder):
    """Puts runs/small-validate-<number> there: one rank, two strategies, two repeats. It is made once, and copied."""

    def put(number=1):
        if not run_folder.exists():
            command("validate", experiment(strategies=["psg", "real-reuse"]))
            shutil.move("runs/small-validate-1", run_folder)
        shutil.copytree(run_folder, f"runs/small-validate-{number}")

    return put


@pytest.mark.slow
def test_runs_of_one_experiment_are_all_there(validated, experiment, capsys):
    validated(1)
    validated(2)
    command("simulate", experiment(strategies=["psg", "real-reuse"], gpus=[1, 4]))
    data = report_data(capsys, "small-validate-1", "small-validate-2", "small-simulate-1")
    assert [section["kind"] for section in data["sections"]] == ["executed", "simulated"]
    comparison = rows("tables/executed-comparison.csv")
    assert {(row["strategy"], row["run"]) for row in comparison} == {
        (name, f"small-validate-{i}") for name in ("psg", "real-reuse") for i in (1, 2)
    }
    assert data["headlines"][0].startswith("executed: ") and "(simulated, not validated)" in data["headlines"][1]
    assert {row["run"] for row in rows("tables/executed-fidelity.csv")} == {"small-validate-1", "small-validate-2"}


@pytest.mark.slow
def test_what_does_not_compare_gets_a_section_that_says_why(experiment, capsys):
    for stem, changes in (("one", {}), ("wide", {"model": {"name": "t-gcn", "hidden": 16, "inputs": 8}}), ("a100", {"cluster": "a100"})):
        command("simulate", experiment(stem, gpus=[1], strategies=["psg"], **changes))
    data = report_data(capsys, "one-simulate-1", "wide-simulate-1", "a100-simulate-1")
    titles = [section["title"] for section in data["sections"]]
    assert len(titles) == len(set(titles)) == 3
    assert "hidden 8" in titles[0] and "hidden 16" in titles[1] and "A100" in titles[2]
    assert [len(rows(section["tables"]["comparison"])) for section in data["sections"]] == [1, 1, 1]


@pytest.mark.slow
def test_a_path_whose_content_has_changed_is_another_dataset(experiment, capsys):
    file = experiment(gpus=[1], strategies=["psg"])
    command("simulate", file)
    shutil.rmtree("graphs")
    store.save("graphs", GrowthGraph.rmat(64, 300, 12, 0.1, 2).sequence())
    command("simulate", file)
    data = report_data(capsys, "small-simulate-1", "small-simulate-2")
    assert len(data["sections"]) == 2 and all("content of graphs" in section["title"] for section in data["sections"])


@pytest.mark.slow
def test_what_is_deleted_from_a_run_gets_a_line(validated, experiment, capsys):
    validated()
    run = Path("runs/small-validate-1")
    command("simulate", experiment(strategies=["psg", "real-reuse"], gpus=[1, 4]))
    (run / "ranks-1" / "psg-r1.parquet").unlink()
    (run / "replay-1" / "real-reuse.parquet").unlink()
    shutil.rmtree("runs/small-simulate-1/sim-00004-psg")
    Path("runs/small-simulate-1/sim-00001-psg/point.json").unlink()
    data = report_data(capsys, "small-validate-1", "small-simulate-1")
    lines = [
        "small-validate-1 was asked for more than its folder holds; not there: psg on 1 rank (without psg-r1.parquet); "
        "the replay of real-reuse on 1 rank.",
        "small-simulate-1 was asked for more than its folder holds; not there: psg on 1 rank (without point.json); psg on 4 ranks.",
    ]
    assert [note for note in data["notes"] if "not there" in note] == lines
    assert all(line in Path("page/index.html").read_text() for line in lines)
    assert "not there: psg on 1 rank" in Path("page/report.md").read_text()
    assert {row["strategy"] for row in rows("tables/executed-comparison.csv")} == {"real-reuse"}


@pytest.mark.slow
def test_a_whole_run_lacks_nothing(validated, capsys):
    validated()
    assert not [note for note in report_data(capsys, "small-validate-1")["notes"] if "not there" in note]


@pytest.mark.slow
def test_a_loss_that_is_not_finite_is_marked_and_not_crowned(validated, capsys):
    validated()
    path = Path("runs/small-validate-1/ranks-1/real-reuse-losses.npy")
    losses = np.load(path)
    losses[1, 2] = np.nan
    np.save(path, losses)
    data = report_data(capsys, "small-validate-1")
    where = f"loss not finite at iteration {losses.shape[1] + 2}"
    assert f"real-reuse on 1 rank is not compared: {where}." in data["notes"]
    assert data["sections"][0]["not_compared"][0]["why"] == where
    assert data["sections"][0]["answers"][0]["leaders"] == ["psg"]
    assert [row["failed"] for row in rows("tables/comparison.csv")] == ["", where]


def test_a_run_that_stopped_says_at_what(experiment, capsys):
    """As training leaves it: `not_finite` in status.json."""
    command("simulate", experiment(gpus=[1], strategies=["psg"]))
    path = Path("runs/small-simulate-1/status.json")
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "not_finite": "strategy 'psg', rank 0, iteration 3: the loss is not finite"})
    )
    assert any("iteration 3: the loss is not finite" in note for note in report_data(capsys, "small-simulate-1")["notes"])


def test_a_run_that_was_not_finished_says_so(experiment, capsys):
    command("simulate", experiment(gpus=[1], strategies=["psg"]))
    path = Path("runs/small-simulate-1/status.json")
    incomplete = "small-simulate-1 is incomplete: only its finished parts are shown; the same command takes it up again."
    assert incomplete not in report_data(capsys, "small-simulate-1")["notes"]
    path.write_text(json.dumps({**json.loads(path.read_text()), "state": "running"}))
    assert incomplete in report_data(capsys, "small-simulate-1")["notes"]


def test_a_run_given_twice_is_shown_once_and_noted(experiment, capsys):
    command("simulate", experiment(gpus=[1], strategies=["psg"]))
    data = report_data(capsys, "small-simulate-1", "../runs/small-simulate-1")
    assert data["notes"][0] == "small-simulate-1 was given 2 times, and is shown once." and len(rows("tables/comparison.csv")) == 1


def test_a_run_without_results_is_not_dropped_in_silence(experiment, inline, capsys):
    file = experiment(gpus=[1], strategies=["psg"])
    command("profile", file)
    command("simulate", file)
    notes = report_data(capsys, "small-profile-1", "small-simulate-1")["notes"]
    assert "small-profile-1: a run of `chronoscale profile`, it holds no result that a report shows." in notes


@pytest.mark.slow
def test_report_refuses_a_folder_of_others_and_cleans_its_own(validated, experiment, capsys):
    validated()
    command("simulate", experiment(strategies=["psg"], gpus=[1]))
    report_data(capsys, "small-validate-1")
    assert Path("page/tables/fidelity.csv").exists()
    report_data(capsys, "small-simulate-1")
    assert not Path("page/tables/fidelity.csv").exists() and Path("page/tables/comparison.csv").exists()
    command("report", "runs/small-simulate-1", "--out", ".", expect=2)
    assert "no report of ours" in one_line(capsys)
