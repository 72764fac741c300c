import csv
import io
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from report_samples import SCHEDULES, TRACES, mixed, point

from chronoscale.reports import tables
from chronoscale.reports.numbers import around, number, seconds, size
from chronoscale.reports.readable_table import readable_table
from chronoscale.reports.report import Report
from chronoscale.reports.table_formats import to_csv, to_html, to_latex, to_markdown
from chronoscale.reports.training_run import Epoch, TrainingRun
from chronoscale.strategies.evaluation.metrics import Summary, time_by_op


def rows(report: Report) -> dict[tuple[str, int, str], dict[str, object]]:
    all_rows = [row for section in report.sections for row in tables.comparison(section).to_dict("records")]
    return {(row["strategy"], row["ranks"], row["kind"]): row for row in all_rows}


def cells(markdown: str) -> list[list[str]]:
    lines = [line[2:-2].split(" | ") for line in markdown.splitlines()]
    return [lines[0], *lines[2:]]


def test_comparison_says_what_the_metrics_say() -> None:
    by_key = rows(mixed())
    for (strategy, ranks), trace in TRACES.items():
        expected = Summary.of([trace])
        row = by_key[strategy, ranks, "simulated"]
        for name in ("epoch_s", "repeats", "imbalance", "utilisation", "h2d_bytes", "collective_s", "sources", "device"):
            assert row[name] == getattr(expected, name)


def test_ops_are_those_of_the_median_repeat() -> None:
    table = pd.concat([tables.time_by_op(section) for section in mixed().sections]).set_index(["strategy", "ranks", "kind"])
    for key, trace in TRACES.items():
        seconds = table.loc[(*key, "simulated")].drop(["run", "dataset", "model", "sources"])
        assert seconds.replace(0, np.nan).dropna().to_dict() == time_by_op(trace).to_dict()
    ratio = table.loc[("psg", 2, "executed"), "BACKWARD"] / table.loc[("psg", 2, "simulated"), "BACKWARD"]
    assert ratio == pytest.approx(1.01, abs=1e-3)


def test_speedup_and_efficiency_by_hand() -> None:
    report = Report(
        "t",
        runs=(
            point("simulated", "real", 4, 2.0),
            point("simulated", "psg", 4, 4.0),
            point("simulated", "real", 8, 1.25),
            point("simulated", "psg", 8, 2.0),
            point("simulated", "real", 16, 1.0),
        ),
    )
    by_key = rows(report)
    assert report.sections[0].strategies == ("psg", "real")
    assert by_key["real", 4, "simulated"]["speedup"] == 2.0
    assert by_key["real", 8, "simulated"]["speedup"] == 1.6
    assert math.isnan(by_key["real", 16, "simulated"]["speedup"])  # psg did not run there
    assert by_key["real", 4, "simulated"]["parallel_efficiency"] == 1.0
    assert by_key["real", 8, "simulated"]["parallel_efficiency"] == 0.8
    assert by_key["real", 16, "simulated"]["parallel_efficiency"] == 0.5
    assert by_key["psg", 8, "simulated"]["parallel_efficiency"] == 1.0


def test_the_first_strategy_is_the_base_without_psg() -> None:
    by_key = rows(Report("t", runs=(point("executed", "tgn", 2, 3.0), point("executed", "fast", 2, 1.5))))
    assert by_key["fast", 2, "executed"]["speedup"] == 2.0


def test_the_spread_of_a_ratio_adds_in_quadrature() -> None:
    report = Report("t", runs=(point("executed", "psg", 1, 10.0, 0.4, 5), point("executed", "real", 1, 5.0, 0.15, 5)))
    row = rows(report)["real", 1, "executed"]
    assert row["speedup_spread"] == pytest.approx(2.0 * 0.05)


def test_settings_do_not_mix() -> None:
    runs = (
        point("executed", "psg", 2, 8.0),
        point("simulated", "psg", 2, 4.0),
        point("simulated", "real", 2, 2.0),
        point("simulated", "real", 2, 3.0, machine="slow"),
    )
    speedups = [tables.comparison(section)["speedup"].tolist() for section in Report("t", runs=runs).sections]
    assert speedups == [[1.0], [1.0, 2.0], [1.0]]


def test_a_run_has_one_result_a_point() -> None:
    with pytest.raises(ValueError, match="'psg' has two results on 2 ranks in run 'a'"):
        Report("t", runs=(point("simulated", "psg", 2, 8.0, run="a"), point("simulated", "psg", 2, 8.0, run="a")))


def test_markdown_reads_back_to_the_csv() -> None:
    for table in [table for section in mixed().sections for table in tables.tables(section).values()]:
        exact = list(csv.reader(io.StringIO(to_csv(table))))
        cell_rows = cells(to_markdown(table))
        assert cell_rows[0] == exact[0] and len(cell_rows) == len(exact)
        for ours, theirs in zip(cell_rows[1:], exact[1:], strict=True):
            for cell, value in zip(ours, theirs, strict=True):
                if cell == "–":
                    assert value == ""
                elif cell.replace(".", "").replace("-", "").replace("e", "").isdigit() and cell != value:
                    assert float(cell) == pytest.approx(float(value), rel=1e-3)
                else:
                    assert cell == value


def test_fidelity_stacks_its_frames() -> None:
    section = mixed().sections[0]
    readable = readable_table(section, tables.fidelity(section))
    assert list(readable.table.columns) == ["strategy", "ranks", "op", *section.runs[0].prediction.frame.columns[1:]]  # type: ignore[union-attr]
    for run in section.runs:
        part = readable.table[(readable.table["strategy"] == run.strategy) & (readable.table["ranks"] == run.ranks)]
        pd.testing.assert_frame_equal(part[list(run.prediction.frame.columns)].reset_index(drop=True), run.prediction.frame)  # type: ignore[union-attr]


def test_pairs_of_strategies_and_what_was_compared() -> None:
    """`mixed`: predictions are the traces that executions are multiples of, so that the order is right."""
    section = mixed().sections[0]
    order = tables.order(section)
    assert order[["faster", "slower", "order"]].drop_duplicates().to_numpy().tolist() == [["real-reuse", "psg", "right"]]
    assert order["ranks"].tolist() == [1, 2] and (order["kendall_tau"] == 1.0).all()
    for ranks, row in order.set_index("ranks").iterrows():
        one, two = (TRACES[name, ranks].span_ns for name in ("real-reuse", "psg"))  # type: ignore[index]
        assert row["predicted_ratio"] == pytest.approx(two / one) and row["measured_ratio"] == pytest.approx(
            two / one, abs=1e-5
        )  # whole ns
        assert row["pair_spread"] == pytest.approx(0.01 * (1 + two / one) / 1.01, abs=1e-4)  # half of 1.02 - 1.00, each
    covered = tables.coverage(section)
    assert (covered["rows"] == covered["compared"]).all() and (covered["share"] == 1).all()
    assert covered["unsampled"].iloc[0].startswith("H2D, ") and "unmeasured" not in covered and "unpredicted" not in covered


def test_odd_numbers_are_words() -> None:
    table = pd.DataFrame({"strategy": ["a|b", "c_d"], "imbalance": [math.inf, 1.5], "error_pct": [math.nan, -2.0]})
    assert cells(to_markdown(table))[1] == ["a\\|b", "∞", "–"]
    assert '<td class="n">∞</td>' in to_html(table) and "−2.0 %" in to_html(table)
    assert r"c\_d & 1.500 & -2.000 \\" in to_latex(table) and r"$\infty$ & --" in to_latex(table)
    assert to_csv(table).splitlines()[1] == "a|b,inf,"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1.0, "1.000"), (12345.6, "12350"), (0.00012345, "0.0001234"), (-0.5, "-0.5000"), (1e-9, "1.000e-09"), (9.9999, "10.00")],
)
def test_numbers_keep_four_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_units() -> None:
    assert [size(v) for v in (0, 999, 1500, 100_319_832_160)] == ["0 B", "999 B", "1.50 kB", "100 GB"]
    assert [seconds(v) for v in (0.0, 2.5, 0.0042, 3e-6)] == ["0 s", "2.50 s", "4.20 ms", "3.00 µs"]
    assert seconds(0.0444, 0.00063) == "44.4 ± 0.6 ms"
    assert around(1.864, 0.0273) == "1.86 ± 0.03" and around(1.864, 0.0004) == "1.86 ± 0.0004"


def test_schedules_of_the_samples_are_not_trivial() -> None:
    assert all(len(schedule) > 100 for schedule in SCHEDULES.values())


def test_columns_tell_rows_apart_and_constants_are_said_once() -> None:
    runs = [point("executed", "psg", 1, 1.0, n=5, run=run, work="a") for run in ("first", "second")]
    runs += [point("executed", "real", 1, 0.5, n=5, run="first", work="a")]
    section = Report("t", runs=tuple(runs)).sections[0]
    readable = readable_table(section, tables.comparison(section))
    assert list(readable.table.columns[:3]) == ["strategy", "ranks", "run"] and "repeats" not in readable.table
    assert readable.same == "In all rows: repeats 5, durations fitted."
    assert len({tuple(row) for row in readable.table[["strategy", "ranks", "run"]].itertuples(index=False)}) == len(runs)
    csv = tables.comparison(section)
    assert {"run", "kind", "dataset", "model", "repeats", "sources", "device"} <= set(csv.columns)  # a file is read apart from its section


def test_every_extrapolated_number_bears_a_mark() -> None:
    runs = (point("simulated", "psg", 1, 1.0, source="extrapolated"), point("simulated", "real", 1, 0.5, source="fitted"))
    section = Report("t", runs=runs).sections[0]
    readable = readable_table(section, tables.comparison(section))
    floats = {name for name in readable.table if pd.api.types.is_float_dtype(readable.table[name])}
    assert readable.marked == {(0, name) for name in floats} and "sources" in readable.table
    lines = to_markdown(readable.table, readable.marked).splitlines()
    assert lines[2].count("†") == len(floats) and "†" not in lines[3]
    assert to_html(readable.table, readable.marked).count("†") == to_latex(readable.table, readable.marked).count("dagger") == len(floats)


def test_a_failed_result_is_marked_and_no_base() -> None:
    runs = (point("executed", "psg", 1, 0.1, failed="loss not finite at iteration 3"), point("executed", "real", 1, 1.0))
    by_key = rows(Report("t", runs=runs))
    assert by_key["psg", 1, "executed"]["failed"] == "loss not finite at iteration 3"
    assert math.isnan(by_key["psg", 1, "executed"]["speedup"]) and by_key["real", 1, "executed"]["speedup"] == 1.0
    section = Report("t", runs=(replace(runs[0], failed=""),)).sections[0]
    assert "failed" not in tables.comparison(section)


def test_naive_forecasts_stand_beside_the_model() -> None:
    epochs = (Epoch(0, "training", "index", 0, 0, 10**9, 1.0, {"mae": 4.0, "rmse": 6.0}),)
    tested = {"dcrnn": {"rmse": 5.0, "mae": 3.0}, "last value": {"mae": 2.5}}
    section = Report("t", staged=(TrainingRun("run", 1, epochs, (), tested=tested),)).sections[0]
    table = tables.test_scores(section)
    assert table.columns.tolist()[-3:] == ["predictor", "mae", "rmse"]
    assert table["predictor"].tolist() == ["dcrnn", "last value"] and table["mae"].tolist() == [3.0, 2.5]
    assert math.isnan(table["rmse"][1])
