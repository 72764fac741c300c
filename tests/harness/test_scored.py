"""Scores of a run, invented and better high, from its files to what a report says."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import tiny_run
from command_line import command

from chronoscale.batching.rivals.rival import RivalScores
from chronoscale.errors import UserError
from chronoscale.harness.publish.collect import collect
from chronoscale.harness.publish.tables import comparison_table
from chronoscale.harness.runs import training_record
from chronoscale.harness.runs.passes import load_passes
from chronoscale.harness.runs.rival_record import read_rivals, write_rivals
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.training_record import FOLDER, result

NAN = float("nan")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return tiny_run.make(tmp_path)


def test_a_report_says_what_the_test_came_to(run, tmp_path):
    command("report", run.folder, "--out", tmp_path / "report")
    text = (tmp_path / "report/report.md").read_text()
    assert "Test period, after the last epoch: AP 0.75, MRR 0.5, accuracy 62.50%." in text
    verdict = (
        "t-gcn does not beat the better: AP 0.75 against 0.8. Nor does t-gcn beat the equal. "
        "t-gcn does not beat the worse: MRR 0.5 against 0.9."
    )
    assert verdict in " ".join(text.replace("\n- ", " ").split())
    assert text.index("t-gcn does not beat") < text.index("Test period, after")
    table = pd.read_csv(tmp_path / "report/tables/executed-errors.csv")
    assert table["predictor"].tolist() == ["t-gcn", "better", "equal", "worse"] and table["ap"].tolist() == [0.75, 0.8, 0.75, 0.7]


def test_the_epochs_keep_their_scores(run):
    (row,) = result(run, 1).table().to_dict("records")
    assert (row["best_ap"], row["last_ap"], row["last_mrr"]) == (0.9, 0.8, 0.5)


def test_a_prediction_without_the_score_is_not_compared(run):
    folder = run.folder / FOLDER
    for naive in ({"a": {"mrr": 0.9}}, {"a": {"ap": float("nan")}}, {}):
        (folder / "naive.json").write_text(json.dumps(naive))
        mrr = ["t-gcn does not beat the a: MRR 0.5 against 0.9."] if naive == {"a": {"mrr": 0.9}} else []
        assert training_record.verdict(folder) == mrr
        assert training_record.tested(folder) == ["Test period, after the last epoch: AP 0.75, MRR 0.5, accuracy 62.50%."]
    (folder / "test.json").write_text("{}")
    assert training_record.tested(folder) == ["Test period, after the last epoch: there is nothing to test on."]


def test_of_errors_the_lower_is_better(run):
    folder = run.folder / FOLDER
    (folder / "test.json").write_text('{"mae": 3.0, "rmse": 5.0, "mape": NaN}')
    (folder / "naive.json").write_text('{"low": {"mae": 2.0}, "equal": {"mae": 3.0}, "high": {"mae": 4.0}}')
    assert training_record.tested(folder) == ["Test period, after the last epoch: MAE 3, RMSE 5, MAPE undefined."]
    assert training_record.verdict(folder) == [
        "t-gcn does not beat the low: MAE 3 against 2.",
        "Nor does t-gcn beat the equal.",
    ]


def test_rivals_come_back_as_they_were_written(run):
    """With what they do and their scores at each step, also undefined ones; of an earlier version without either."""
    folder = run.folder / FOLDER
    rivals = [
        RivalScores("same time yesterday", "the reading 24 steps before", {"mae": 2.5, "mape": NAN}, {"mae": [2.0, NAN]}),
        RivalScores("nothing", "", {}, {}),
    ]
    write_rivals(folder, rivals)
    assert [repr(one) for one in read_rivals(folder)] == [repr(one) for one in rivals]
    assert json.loads((folder / "naive.json").read_text())["same time yesterday"]["mae"] == 2.5
    (folder / "test.json").write_text('{"mae": 3.0}')
    assert training_record.verdict(folder) == [
        "t-gcn does not beat the same time yesterday: MAE 3 against 2.5.",
        "That predicts the reading 24 steps before.",
    ]
    (folder / "rivals.json").unlink()
    assert training_record.verdict(folder) == ["t-gcn does not beat the same time yesterday: MAE 3 against 2.5."]
    (folder / "rivals.json").write_text("[")
    with pytest.raises(UserError, match=r"rivals\.json"):
        read_rivals(folder)


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
