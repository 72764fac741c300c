"""What compares stands together, and nothing else does."""

from dataclasses import replace

import pytest
from report_samples import point

from chronoscale.reports.charts import bars, curves
from chronoscale.reports.report import Report
from chronoscale.reports.section_content import figures
from chronoscale.reports.setting import Setting, differences
from chronoscale.reports.tables import comparison


def test_a_section_holds_one_dataset_device_and_source() -> None:
    runs = [point("simulated", "psg", 1, 1.0, work="a"), point("executed", "psg", 1, 2.0, work="b", machine="Xeon")]
    runs += [point("executed", "psg", 1, 3.0, work="a", machine="Xeon"), point("executed", "psg", 1, 4.0, work="a", machine="Atom")]
    sections = Report("t", runs=tuple(runs)).sections
    assert [section.title for section in sections] == ["executed: b, Xeon", "executed: a, Xeon", "executed: a, Atom", "simulated: a"]
    assert [section.file for section in sections] == ["executed-1-", "executed-2-", "executed-3-", "simulated-"]
    assert [len(section.runs) for section in sections] == [1, 1, 1, 1]


def test_settings_of_one_name_are_told_apart_by_what_differs() -> None:
    narrow, wide = (Setting("executed", (("model", "t-gcn"), ("hidden", width), ("seed", "0"))) for width in ("8", "64"))
    deep = replace(wide, work=(*wide.work, ("layers", "2")))
    assert differences([narrow, wide]) == {narrow: (("hidden", "8"),), wide: (("hidden", "64"),)}
    assert differences([narrow, deep])[narrow] == (("hidden", "8"), ("layers", "none"))
    assert differences([narrow])[narrow] == ()


def test_every_run_of_one_experiment_is_there_and_bears_its_name() -> None:
    runs = [point("executed", name, ranks, 1.0, run=run) for run in ("x-1", "x-2") for name in ("psg", "real") for ranks in (1, 2)]
    section = Report("t", runs=(*runs, point("executed", "blad", 1, 1.0, run="x-2"))).sections[0]
    assert section.labels == ("psg (x-1)", "psg (x-2)", "real (x-1)", "real (x-2)", "blad")
    assert len(comparison(section)) == 9 and len(curves.labelled_curves(section)) == 5
    assert section.base(runs[-1]) is runs[5]  # psg on 2 ranks, of the same run


@pytest.mark.slow
def test_charts_are_of_one_section() -> None:
    runs = [point(kind, "psg", ranks, 1.0) for kind in ("executed", "simulated") for ranks in (1, 4)]
    for section in Report("t", runs=tuple(runs)).sections:
        other = "simulated" if section.kind == "executed" else "executed"
        drawings = figures(section)
        assert {drawing.name for drawing in drawings} == {f"{section.kind}-{name}" for name in ("epoch_time", "scaling", "time_by_op")}
        assert all(section.kind in drawing.svg and other not in drawing.svg + drawing.caption for drawing in drawings)


def test_what_failed_is_in_no_chart_of_times() -> None:
    runs = (point("executed", "real", 2, 0.1, failed="loss not finite at iteration 2"), point("executed", "psg", 2, 1.0))
    section = Report("t", runs=runs).sections[0]
    assert "real" not in bars.epoch_bars(section).svg and section.baseline == "psg"
    assert figures(Report("t", runs=runs[:1]).sections[0])[0].name == "time_by_op"


def test_a_strategy_keeps_its_looks_across_sections() -> None:
    runs = (point("executed", "psg", 1, 1.0), point("executed", "real", 1, 1.0), point("simulated", "real", 1, 1.0))
    first, second = Report("t", runs=runs).sections
    assert first.report_labels == second.report_labels == ("psg", "real")


def test_an_environment_says_which_run_differs() -> None:
    environment = Report("t", environments={"a": {"torch": "2", "gpu": "H200"}, "b": {"torch": "2"}}).environment
    assert environment == {"torch": "2", "gpu": "H200 (a); none (b)"}
