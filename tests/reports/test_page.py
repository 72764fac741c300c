import os
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from report_samples import executed_only, mixed, point

from chronoscale.errors import MachineError, UserError
from chronoscale.reports import page
from chronoscale.reports.report import Report

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Reader(HTMLParser):
    """Checks that tags nest, collects what a browser would fetch, ids, and the text of the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.ids: list[str] = []
        self.scripts = 0
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.fetched += [
            value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "srcset") and not (value or "").startswith("#")
        ]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


@pytest.fixture(scope="module")
def drawn() -> dict[str, bytes]:
    """The files of `mixed()`, drawn once."""
    return page.render(mixed())


def given(files: dict[str, bytes]) -> Callable[[Report], dict[str, bytes]]:
    """`page.render` for tests of what is written: `mixed()` is drawn already."""
    render = page.render
    return lambda report: files if report.title == mixed().title else render(report)


def read(report: Report) -> Reader:
    return Reader(page.render(report)["index.html"].decode())


def test_page_is_well_formed_and_fetches_nothing(drawn: dict[str, bytes]) -> None:
    reader = Reader(drawn["index.html"].decode())
    assert reader.scripts == 0
    assert [url for url in reader.fetched if not url.startswith("data:image/png")] == []
    assert len(reader.ids) == len(set(reader.ids))
    assert "url(http" not in page.STYLE.read_text() and "@import" not in page.STYLE.read_text()


def test_page_has_every_part(tmp_path: Path, drawn: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    report = mixed()
    monkeypatch.setattr(page, "render", given(drawn))
    path = page.write(report, tmp_path / "new" / "report")
    assert path == tmp_path / "new" / "report" / "index.html"
    reader = Reader(path.read_text())
    for word in (*report.strategies, "Run incomplete.", "Timelines", "Environment", "2.8", "Loss", "Fidelity", "Figure 15"):
        assert word in reader.text
    written = {str(file.relative_to(path.parent)) for file in path.parent.rglob("*") if file.is_file()}
    tables = {f"tables/{name}.{end}" for name in ("comparison", "time_by_op", "fidelity") for end in ("csv", "md", "tex")}
    figures = ["epoch_time", "scaling", "time_by_op", "losses", "fidelity", *(f"timeline-{i + 1}" for i in range(2))]
    assert written == {"index.html", "report.md"} | tables | {f"figures/{name}.{end}" for name in figures for end in ("svg", "png")}
    linked = re.findall(r"\]\((.*?)\)", (path.parent / "report.md").read_text())
    assert len(linked) == len(figures) and set(linked) <= written


def test_simulated_is_said_where_it_holds_and_nowhere_else() -> None:
    assert not any("simulated" in content.decode("utf-8", "ignore").lower() for content in page.render(executed_only()).values())
    files = page.render(replace(mixed(), runs=tuple(run for run in mixed().runs if run.kind == "simulated"), fidelity={}))
    text = files["index.html"].decode()
    for caption in re.findall(r"<figcaption>(.*?)</figcaption>", text):
        assert "Simulated with durations from a datasheet" in caption or caption.startswith("<b>Loss.")
    assert text.count('<span class="kind">simulated</span></li>') == 2  # one an answer
    assert all("simulated" in line for line in files["tables/comparison.csv"].decode().splitlines()[1:])


def test_names_are_escaped() -> None:
    evil = "<i>&$x_1^2$"
    runs = (point("simulated", evil, 2, 1.0), point("simulated", "psg", 2, 2.0), point("simulated", evil, 4, 0.5))
    report = Report(f"{evil} wins", evil, runs, {(evil, 2): mixed().fidelity["psg", 2]}, {evil: [1.0]}, (evil,), {evil: evil})
    files = page.render(report)
    reader = Reader(files["index.html"].decode())
    assert evil in reader.text and "<i>" not in files["index.html"].decode()
    assert "&lt;i&gt;&amp;$x_1^2$" in files["figures/epoch_time.svg"].decode()
    assert "\\<i\\>&$x\\_1^2$ wins" in files["report.md"].decode()


@pytest.mark.parametrize(
    "report",
    [
        Report("Nothing"),
        Report("One", runs=(point("executed", "psg", 1, 1.0),)),
        Report("Idle", runs=(point("simulated", "psg", 2, 1.0, imbalance=float("inf")), point("simulated", "psg", 4, 0.0))),
        Report("Losses", losses={"unknown": [1.0, float("nan")], "empty": []}),
    ],
    ids=lambda report: report.title,
)
def test_sparse_reports_work(report: Report) -> None:
    assert report.title in read(report).text


def test_infinity_and_nan_are_shown() -> None:
    nan = pd.DataFrame(
        [("H2D", 1.0, 0.0, float("nan"), float("nan"))], columns=["op", "predicted_ms", "measured_ms", "error_pct", "spread_pct"]
    )
    idle = point("simulated", "psg", 8, 1.0, imbalance=float("inf"))
    reader = read(Report("t", runs=(point("simulated", "psg", 2, 1.0), idle), fidelity={("psg", 8): nan}))
    assert "∞" in reader.text and "–" in reader.text
    assert "At least one rank has no work (imbalance ∞): psg on 8 ranks." in reader.text


def test_the_same_report_gives_the_same_bytes(drawn: dict[str, bytes]) -> None:
    assert page.render(mixed()) == drawn


def test_a_failure_leaves_the_old_page(tmp_path: Path, drawn: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "render", given(drawn))
    old = page.write(Report("Old"), tmp_path).read_bytes()
    replaced = os.replace

    def fail(source: Path, target: Path) -> None:
        if target.name == "scaling.svg":
            raise OSError(28, "No space left on device")
        replaced(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(MachineError, match="No space left"):
        page.write(mixed(), tmp_path)
    assert (tmp_path / "index.html").read_bytes() == old
    assert not list(tmp_path.glob(".report-*"))


def test_a_rewrite_replaces_the_page_and_keeps_other_files(tmp_path: Path) -> None:
    (tmp_path / "trace.parquet").write_text("mine")
    page.write(Report("Old", runs=(point("executed", "psg", 1, 1.0),)), tmp_path)
    page.write(Report("New"), tmp_path)
    assert (tmp_path / "index.html").read_bytes() == page.render(Report("New"))["index.html"]
    assert (tmp_path / "trace.parquet").read_text() == "mine"


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(UserError, match="needs a folder"):
        page.write(Report("t"), tmp_path / "out")
