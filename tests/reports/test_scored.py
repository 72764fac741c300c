"""An invented result whose scores are better high, through everything that a reader is shown."""

import json
import math
from dataclasses import replace

import pytest
from report_samples import point

from chronoscale.batching.rivals.rival import RivalScores
from chronoscale.reports import report_folder, tables
from chronoscale.reports.charts.training import progress
from chronoscale.reports.findings import cautions
from chronoscale.reports.horizon import horizon_table
from chronoscale.reports.readable_table import readable_table
from chronoscale.reports.report import Report
from chronoscale.reports.table_formats import to_csv, to_html
from chronoscale.reports.training_run import Epoch, TrainingRun

NAN = math.nan
EPOCHS = ({"mrr": 0.5, "ap": 0.9, "ap_new": NAN}, {"mrr": 0.7, "ap": 0.95, "ap_new": NAN}, {"mrr": 0.6, "ap": 0.8, "ap_new": NAN})
TESTED = {"tgn": {"mrr": 0.4, "ap": 0.75, "accuracy": 0.625}, "EdgeBank": {"ap": 0.8}}


def staged(*scores: dict[str, float], **more: object) -> TrainingRun:
    epochs = [Epoch(i, "training", "index", 0, i, i + 1, 1.0, values) for i, values in enumerate(scores)]
    return TrainingRun("run", 1, tuple(epochs), (), **more)  # type: ignore[arg-type]


def test_the_best_epoch_is_the_one_with_the_highest_score() -> None:
    (row,) = staged(*EPOCHS).table().to_dict("records")
    assert [name for name in row if name.startswith(("best", "last_"))] == ["last_loss", "best_ap", "last_ap", "last_mrr"]
    assert (row["best_ap"], row["last_ap"], row["last_mrr"]) == (0.95, 0.8, 0.6)


def test_the_best_epoch_is_the_one_with_the_lowest_error() -> None:
    (row,) = (
        staged({"mae": 4.0, "rmse": 5.0, "mape": 0.1}, {"mae": 3.0, "rmse": 6.0}, {"mae": 3.5, "rmse": 5.5, "mape": 0.2})
        .table()
        .to_dict("records")
    )
    assert [name for name in row if name.startswith(("best", "last_"))] == ["last_loss", "best_mae", "last_mae", "last_rmse", "last_mape"]
    assert (row["best_mae"], row["last_mae"], row["last_rmse"], row["last_mape"]) == (3.0, 3.5, 5.5, 0.2)


def test_an_epoch_that_did_not_validate_takes_no_part() -> None:
    (row,) = staged(EPOCHS[0], {}).table().to_dict("records")
    assert row["best_ap"] == 0.9 and "last_ap" not in row
    (row,) = staged({}, {}).table().to_dict("records")
    assert not any("best" in name or name == "last_ap" for name in row)


def test_a_score_that_nobody_knows_is_not_shown_in_silence() -> None:
    strange = {"precision": 0.5}
    section = Report("t", runs=(replace(point("executed", "psg", 1, 1.0), scores=strange),)).sections[0]
    for shown in (staged(strange).table, staged(tested={"tgn": strange}).compared, lambda: tables.comparison(section)):
        with pytest.raises(ValueError, match="'precision' is no score"):
            shown()


def test_a_comparison_has_a_column_for_every_score_that_occurs() -> None:
    runs = [
        replace(point("executed", name, 1, 1.0, n=5), scores=scores) for name, scores in zip("ab", (EPOCHS[0], {"ap": 0.0}), strict=True)
    ]
    table = tables.comparison(Report("t", runs=tuple(runs)).sections[0])
    columns = table.columns.tolist()
    assert columns[columns.index("ap") :][:2] == ["ap", "mrr"] and not {"mae", "ap_new"} & set(columns)
    assert table["ap"].tolist() == [0.9, 0.0] and math.isnan(table["mrr"][1])
    none = tables.comparison(Report("t", runs=(replace(runs[0], scores={"ap": 0.0}),)).sections[0])
    assert none["ap"].tolist() == [0.0]  # as bad as can be is a score


def test_scores_are_measured_also_beside_extrapolated_times() -> None:
    run = replace(point("simulated", "psg", 1, 1.0, source="extrapolated"), scores={"ap": 0.9})
    section = Report("t", runs=(run,)).sections[0]
    marked = readable_table(section, tables.comparison(section)).marked
    assert (0, "epoch_s") in marked and (0, "ap") not in marked


def test_a_test_stands_beside_naive_predictions() -> None:
    run = staged(*EPOCHS, tested=TESTED)
    assert run.compared().columns.tolist() == ["predictor", "ap", "mrr", "accuracy"]
    table = tables.test_scores(Report("t", staged=(run,)).sections[0])
    assert table.columns.tolist()[-4:] == ["predictor", "ap", "mrr", "accuracy"]
    assert table["ap"].tolist() == [0.75, 0.8] and math.isnan(table["accuracy"][1])


def test_the_figure_says_which_way_is_better() -> None:
    drawing = progress([staged(*EPOCHS)], "progress")
    assert "validation AP" in drawing.svg and "MAE" not in drawing.svg
    assert drawing.caption == "Mean loss of every epoch, and AP of the validation that ends it: average precision; higher is better."
    errors = progress([staged({"mae": 2.0})], "progress")
    assert "validation MAE" in errors.svg and errors.caption.endswith("mean absolute error in units of the data; lower is better.")
    assert progress([staged({})], "progress").caption == "Mean loss of every epoch."


def test_a_page_has_headings_and_units() -> None:
    run = staged({"ap": 0.91234, "ap_new": 0.5, "accuracy": 0.625}, tested=TESTED)
    report = Report("t", runs=(replace(point("executed", "psg", 1, 1.0, n=5), scores={"ap": 0.91234}),), staged=(run,))
    page = report_folder.render(report)["index.html"].decode()
    for heading in ("AP", "best AP", "last AP (new nodes)", "last accuracy"):
        assert f'<th class="n">{heading}</th>' in page
    assert "<h3>Test period</h3>" in page and '<td class="n">62.50%</td>' in page and '<td class="n">0.9123</td>' in page
    assert "0.91234" in to_csv(run.table()) and "0.625" in to_csv(run.compared()) and "0.9123" in to_html(run.table())
    (section,) = json.loads(report_folder.render(report)["report.json"])["sections"]
    assert section["tables"]["errors"] == "tables/errors.csv"


def test_a_failed_run_has_no_best_score_and_is_not_compared() -> None:
    run = staged(*EPOCHS, stopped="rank 0: the validation AP")
    assert "best_ap" not in run.table() and run.table()["failed"].tolist() == ["rank 0: the validation AP"]
    assert cautions(Report("t", staged=(run,))) == ["run is not compared: rank 0: the validation AP."]


def test_a_step_without_a_target_has_no_rival():
    """Steps ahead of which every target is missing; others have the best."""
    nan = float("nan")
    rivals = [RivalScores("a", "", {}, {"mae": [1.0, nan, 3.0]}), RivalScores("b", "", {}, {"mae": [2.0, nan, 1.0]})]
    table = horizon_table({"test": {"mae": [4.0, nan, 4.0]}}, rivals)
    assert table["best_rival"].tolist() == ["a", "", "b"] and table["rival_mae"].tolist()[::2] == [1.0, 1.0]
    assert horizon_table({}, rivals).empty and "best_rival" not in horizon_table({"test": {"mae": [4.0]}}, rivals)
