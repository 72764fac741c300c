"""Scores of a run, invented and better high, from its files to what a report says."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import tiny_run
from command_line import command

from chronoscale.harness.publish.collect import collect
from chronoscale.harness.publish.tables import comparison_table
from chronoscale.harness.runs import training_record
from chronoscale.harness.runs.passes import load_passes
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.training_record import FOLDER, result


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return tiny_run.make(tmp_path)


def test_a_report_says_what_the_test_came_to(run, tmp_path):
    command("report", run.folder, "--out", tmp_path / "report")
    text = (tmp_path / "report/report.md").read_text()
    assert "Test period, after the last epoch: AP 0.75, MRR 0.5, accuracy 62.50%." in text
    for name, is_better in (("better", True), ("equal", True), ("worse", False)):
        assert (f"The model's AP is no better than that of the {name} alone." in text) is is_better
    table = pd.read_csv(tmp_path / "report/tables/executed-errors.csv")
    assert table["predictor"].tolist() == ["t-gcn", "better", "equal", "worse"] and table["ap"].tolist() == [0.75, 0.8, 0.75, 0.7]


def test_the_epochs_keep_their_scores(run):
    (row,) = result(run, 1).table().to_dict("records")
    assert (row["best_ap"], row["last_ap"], row["last_mrr"]) == (0.9, 0.8, 0.5)


def test_a_prediction_without_the_score_is_not_compared(run):
    folder = run.folder / FOLDER
    for naive in ({"a": {"mrr": 0.9}}, {"a": {"ap": float("nan")}}, {}):
        (folder / "naive.json").write_text(json.dumps(naive))
        assert training_record.tested(folder) == ["Test period, after the last epoch: AP 0.75, MRR 0.5, accuracy 62.50%."]
    (folder / "test.json").write_text("{}")
    assert training_record.tested(folder) == ["Test period, after the last epoch: there is nothing to test on."]


def test_of_errors_the_lower_is_better(run):
    folder = run.folder / FOLDER
    (folder / "test.json").write_text('{"mae": 3.0, "rmse": 5.0, "mape": NaN}')
    (folder / "naive.json").write_text('{"low": {"mae": 2.0}, "equal": {"mae": 3.0}, "high": {"mae": 4.0}}')
    assert training_record.tested(folder) == [
        "Test period, after the last epoch: MAE 3, RMSE 5, MAPE undefined.",
        "The model's MAE is no better than that of the low alone.",
        "The model's MAE is no better than that of the equal alone.",
    ]


def test_the_terminal_has_the_first_score(run):
    path = run.folder / "ranks-1" / "psg-scores.json"
    assert json.loads(path.read_text()) == [{}, {}]  # snapshots do not validate
    path.write_text('[{"mrr": 0.1, "ap": 0.2}, {"mrr": 0.3, "ap": 0.4}]')
    assert [one.scores for one in load_passes(path.parent, "psg")] == [{"mrr": 0.1, "ap": 0.2}, {"mrr": 0.3, "ap": 0.4}]
    shutil.rmtree(run.folder / "sim-00002-psg")
    table = comparison_table(run, collect([run])).set_index(["strategy", "ranks"])
    assert table.loc[("psg", 1), "ap"] == 0.4 and "mrr" not in table  # of the last repeat


def test_results_of_an_earlier_version_get_a_line(run, tmp_path):
    (run.folder / "ranks-1" / "psg-scores.json").unlink()
    command("report", run.folder, "--out", tmp_path / "report")
    assert "not there: psg on 1 rank (without psg-scores.json)" in (tmp_path / "report/report.md").read_text()
