import csv
import io
import math

import numpy as np
import pandas as pd
import pytest
from report_samples import SCHEDULES, TRACES, mixed, point

from chronoscale.reports import tables
from chronoscale.reports.formats import around, number, seconds, size, to_csv, to_html, to_latex, to_markdown
from chronoscale.reports.report import Measured, Report
from chronoscale.strategies.metrics import Summary, time_by_op


def rows(report: Report) -> dict[tuple[str, int, str], dict[str, object]]:
    return {(row["strategy"], row["ranks"], row["kind"]): row for row in tables.comparison(report).to_dict("records")}


def cells(markdown: str) -> list[list[str]]:
    lines = [line[2:-2].split(" | ") for line in markdown.splitlines()]
    return [lines[0], *lines[2:]]


def test_comparison_says_what_the_metrics_say() -> None:
    found = rows(mixed())
    for (strategy, ranks), trace in TRACES.items():
        expected = Summary.of([trace])
        row = found[strategy, ranks, "simulated"]
        for name in ("epoch_s", "repeats", "imbalance", "utilisation", "h2d_bytes", "collective_s", "sources", "device"):
            assert row[name] == getattr(expected, name)


def test_ops_are_those_of_the_median_repeat() -> None:
    table = tables.time_by_op(mixed()).set_index(["strategy", "ranks", "kind"])
    for key, trace in TRACES.items():
        assert table.loc[(*key, "simulated")].drop("machine").replace(0, np.nan).dropna().to_dict() == time_by_op(trace).to_dict()
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
    found = rows(report)
    assert report.strategies == ("psg", "real")
    assert found["real", 4, "simulated"]["speedup"] == 2.0
    assert found["real", 8, "simulated"]["speedup"] == 1.6
    assert math.isnan(found["real", 16, "simulated"]["speedup"])  # psg did not run there
    assert found["real", 4, "simulated"]["parallel_efficiency"] == 1.0
    assert found["real", 8, "simulated"]["parallel_efficiency"] == 0.8
    assert found["real", 16, "simulated"]["parallel_efficiency"] == 0.5
    assert found["psg", 8, "simulated"]["parallel_efficiency"] == 1.0


def test_the_first_strategy_is_the_base_without_psg() -> None:
    found = rows(Report("t", runs=(point("executed", "tgn", 2, 3.0), point("executed", "fast", 2, 1.5))))
    assert found["fast", 2, "executed"]["speedup"] == 2.0


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
    table = tables.comparison(Report("t", runs=runs))
    assert table["speedup"].fillna(-1).tolist() == [1.0, 1.0, 2.0, -1.0]


def test_reports_refuse_what_they_cannot_compare() -> None:
    with pytest.raises(ValueError, match="two simulated results on 2 ranks"):
        Report("t", runs=(point("simulated", "psg", 2, 8.0), point("simulated", "psg", 2, 8.0)))
    other = Measured.of("simulated", [TRACES["real-reuse", 2]])
    with pytest.raises(ValueError, match="several devices"):
        Report("t", runs=(point("simulated", "psg", 2, 8.0), other))


def test_markdown_reads_back_to_the_csv() -> None:
    report = mixed()
    for table in tables.tables(report).values():
        exact = list(csv.reader(io.StringIO(to_csv(table))))
        shown = cells(to_markdown(table))
        assert shown[0] == exact[0] and len(shown) == len(exact)
        for ours, theirs in zip(shown[1:], exact[1:], strict=True):
            for cell, value in zip(ours, theirs, strict=True):
                if cell == "–":
                    assert value == ""
                elif cell.replace(".", "").replace("-", "").replace("e", "").isdigit() and cell != value:
                    assert float(cell) == pytest.approx(float(value), rel=1e-3)
                else:
                    assert cell == value


def test_fidelity_stacks_its_frames() -> None:
    report = mixed()
    table = tables.fidelity(report)
    assert list(table.columns) == ["strategy", "ranks", "op", "predicted_ms", "measured_ms", "error_pct", "spread_pct"]
    for (strategy, ranks), frame in report.fidelity.items():
        part = table[(table["strategy"] == strategy) & (table["ranks"] == ranks)]
        pd.testing.assert_frame_equal(part[list(frame.columns)].reset_index(drop=True), frame)


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
