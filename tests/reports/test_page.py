import json
import re
from dataclasses import replace

import pandas as pd
import pytest
from page_reader import Reader
from report_samples import executed_only, mixed, point

from chronoscale.reports import html_page, report_folder
from chronoscale.reports.report import Report
from chronoscale.reports.strategy_result import Prediction
from chronoscale.reports.table_formats import MARKED
from chronoscale.strategies.evaluation.fidelity import Coverage


@pytest.fixture(scope="module")
def drawn() -> dict[str, bytes]:
    """The files of `mixed()`, drawn once."""
    return report_folder.render(mixed())


def read(report: Report) -> Reader:
    return Reader(report_folder.render(report)["index.html"].decode())


@pytest.mark.slow
def test_page_is_well_formed_and_fetches_nothing(drawn: dict[str, bytes]) -> None:
    reader = Reader(drawn["index.html"].decode())
    assert reader.scripts == 0
    assert [url for url in reader.fetched if not url.startswith("data:image/png")] == []
    assert len(reader.ids) == len(set(reader.ids))
    assert "url(http" not in html_page.STYLE.read_text() and "@import" not in html_page.STYLE.read_text()


def test_page_has_every_part(drawn: dict[str, bytes]) -> None:
    text = Reader(drawn["index.html"].decode()).text
    for word in ("psg", "real-reuse", "Run incomplete.", "Timelines", "Environment", "2.8", "Loss", "Fidelity", "Figure 15"):
        assert word in text
    tables = {"executed-comparison", "executed-time_by_op", "executed-fidelity", "simulated-comparison", "simulated-time_by_op"} | {
        *("executed-breakdown", "simulated-breakdown", "executed-order", "executed-coverage"),
    }
    figures = [f"{kind}-{name}" for kind in ("executed", "simulated") for name in ("epoch_time", "scaling", "time_by_op")]
    figures += ["executed-losses", "executed-fidelity", "simulated-timeline-1", "simulated-timeline-2"]
    assert set(drawn) == {"index.html", "report.md", "report.json"} | {
        f"tables/{name}.{end}" for name in tables for end in ("csv", "md", "tex")
    } | {f"figures/{name}.{end}" for name in figures for end in ("svg", "png")}
    linked = re.findall(r"\]\((.*?)\)", drawn["report.md"].decode())
    assert len(linked) == len(figures) and set(linked) <= set(drawn)


def test_the_first_sentence_is_of_executed_results(drawn: dict[str, bytes]) -> None:
    kinds = re.findall(r'<p class="headline"><span class="kind">(\w+)</span>', drawn["index.html"].decode())
    assert kinds == ["executed", "simulated"]
    assert "## executed" in (text := drawn["report.md"].decode()) and text.index("## executed") < text.index("## simulated")


def test_a_report_is_data_too(drawn: dict[str, bytes]) -> None:
    data = json.loads(drawn["report.json"])
    assert data["notes"][0] == "Run incomplete." and len(data["headlines"]) == 2 and set(data["files"]) == set(drawn)
    executed, simulated = data["sections"]
    assert (executed["kind"], simulated["kind"]) == ("executed", "simulated")
    assert [answer["ranks"] for answer in executed["answers"]] == [1, 2] and executed["answers"][0]["leaders"]
    assert {*executed["tables"].values(), *simulated["figures"]} <= set(drawn)
    failed = report_folder.render(Report("t", runs=(point("executed", "psg", 1, 1.0, run="a", failed="loss not finite at iteration 2"),)))
    assert json.loads(failed["report.json"])["sections"][0]["not_compared"] == [
        {"strategy": "psg", "ranks": 1, "run": "a", "why": "loss not finite at iteration 2"}
    ]
    assert b"psg on 1 rank is not compared: loss not finite at iteration 2." in failed["index.html"]


@pytest.mark.slow
def test_simulated_is_written_where_it_holds_and_nowhere_else() -> None:
    assert not any("simulated" in content.decode("utf-8", "ignore").lower() for content in report_folder.render(executed_only()).values())
    files = report_folder.render(replace(mixed(), runs=tuple(run for run in mixed().runs if run.kind == "simulated")))
    text = files["index.html"].decode()
    for caption in re.findall(r"<figcaption>(.*?)</figcaption>", text):
        assert "Simulated with durations from a datasheet" in caption
    assert text.count('<span class="kind">simulated</span></li>') == 2  # one an answer
    assert text.count("(simulated, not validated)") == 3  # as in the headline
    assert all("simulated" in line for line in files["tables/comparison.csv"].decode().splitlines()[1:])


@pytest.mark.slow
def test_names_are_escaped() -> None:
    evil = "<i>&$x_1^2$"
    losses, prediction = (1.0,), mixed().runs[0].prediction
    runs = (point("executed", evil, 2, 1.0, run=evil, work=evil), point("executed", "psg", 2, 2.0, run=evil, work=evil, failed=evil))
    runs = (replace(runs[0], losses=losses, prediction=prediction), runs[1], point("executed", evil, 4, 0.5, run=evil, work=evil))
    report = Report(f"{evil} wins", evil, runs, (evil,), {evil: {evil: evil}})
    files = report_folder.render(report)
    reader = Reader(files["index.html"].decode())
    assert evil in reader.text and "<i>" not in files["index.html"].decode()
    assert "&lt;i&gt;&amp;$x_1^2$" in files["figures/epoch_time.svg"].decode()
    assert "\\<i\\>&$x\\_1^2$ wins" in files["report.md"].decode()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "report",
    [
        Report("Nothing"),
        Report("One", runs=(point("executed", "psg", 1, 1.0),)),
        Report("Idle", runs=(point("simulated", "psg", 2, 1.0, imbalance=float("inf")), point("simulated", "psg", 4, 0.0))),
        Report("Losses", runs=(replace(point("executed", "psg", 1, 1.0), losses=(1.0, float("nan"))),)),
        Report("Failed", runs=(point("executed", "psg", 1, 1.0, failed="loss not finite"),)),
    ],
    ids=lambda report: report.title,
)
def test_sparse_reports_work(report: Report) -> None:
    assert report.title in read(report).text


@pytest.mark.slow
def test_infinity_and_nan_are_shown() -> None:
    nan = pd.DataFrame(
        [("H2D", 1.0, 0.0, float("nan"), float("nan")), ("TOTAL", 1.0, 1.0, 0.0, 0.0)],
        columns=["op", "predicted_ms", "measured_ms", "error_pct", "spread_pct"],
    )
    idle = replace(
        point("simulated", "psg", 8, 1.0, imbalance=float("inf")), prediction=Prediction(nan, "c", "fitted", Coverage(2, 2, 1.0))
    )
    reader = read(Report("t", runs=(point("simulated", "psg", 2, 1.0), idle)))
    assert "∞" in reader.text and "–" in reader.text
    assert "At least one rank has no work (imbalance ∞): psg on 8 ranks. Fewer ranks would do." in reader.text


@pytest.mark.slow
def test_extrapolated_numbers_are_marked_and_explained() -> None:
    runs = [point("simulated", "psg", ranks, 1.0, source="extrapolated") for ranks in (1, 2)]
    files = report_folder.render(Report("t", runs=tuple(runs)))
    for name in ("index.html", "report.md"):
        text = files[name].decode()
        assert text.count(MARKED) == 3 and text.count("†") > 20 and "durations extrapolated, not validated" in text


@pytest.mark.slow
def test_the_same_report_gives_the_same_bytes(drawn: dict[str, bytes]) -> None:
    assert report_folder.render(mixed()) == drawn
