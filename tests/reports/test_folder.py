"""A report's folder: written whole, its own, and free of what an earlier report left."""

import json
import os
from pathlib import Path

import pytest
from report_samples import point

from chronoscale.errors import MachineError, UserError
from chronoscale.reports import report_folder
from chronoscale.reports.report import Report

SMALL = Report("Small", runs=(point("executed", "psg", 1, 1.0),))
NEW = Report("New")


def files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


@pytest.mark.slow
def test_what_is_written_is_what_was_rendered(tmp_path: Path) -> None:
    index = report_folder.write(SMALL, tmp_path / "new" / "report")
    assert index == tmp_path / "new" / "report" / "index.html"
    assert {name: (index.parent / name).read_bytes() for name in files(index.parent)} == report_folder.render(SMALL)


@pytest.mark.slow
def test_a_rewrite_leaves_nothing_of_the_old_report_and_everything_of_others(tmp_path: Path) -> None:
    report_folder.write(SMALL, tmp_path)
    (tmp_path / "trace.parquet").write_text("mine")
    (tmp_path / "tables" / "mine.csv").write_text("mine")
    report_folder.write(NEW, tmp_path)
    assert files(tmp_path) == {"index.html", "report.md", "report.json", "trace.parquet", "tables/mine.csv"}
    assert (tmp_path / "index.html").read_bytes() == report_folder.render(NEW)["index.html"]


@pytest.mark.parametrize("held", ["index.html", "thesis.tex", ".git", "report.json"])
def test_a_folder_that_holds_something_else_is_refused_and_kept(tmp_path: Path, held: str) -> None:
    (tmp_path / held).write_text("[1]")
    with pytest.raises(UserError, match=rf"holds {held}, and no report of ours; empty it, or name another"):
        report_folder.write(SMALL, tmp_path)
    assert files(tmp_path) == {held} and (tmp_path / held).read_text() == "[1]"


def test_a_file_of_others_in_our_folder_is_not_overwritten(tmp_path: Path) -> None:
    report_folder.write(NEW, tmp_path)
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "comparison.csv").write_text("mine")
    with pytest.raises(UserError, match=r"tables/comparison\.csv: not written by a report"):
        report_folder.write(SMALL, tmp_path)
    assert (tmp_path / "tables" / "comparison.csv").read_text() == "mine"


def test_a_list_of_files_reaches_nothing_outside(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    report_folder.write(NEW, tmp_path / "out")
    data = json.loads((tmp_path / "out" / "report.json").read_text())
    (tmp_path / "out" / "report.json").write_text(json.dumps({**data, "files": [*data["files"], "../mine"]}))
    report_folder.write(NEW, tmp_path / "out")
    assert (tmp_path / "mine").exists()


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    report_folder.write(NEW, tmp_path)
    assert (tmp_path / "index.html").exists()


@pytest.mark.slow
def test_a_failure_leaves_the_old_page_and_a_folder_that_can_be_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = report_folder.write(NEW, tmp_path).read_bytes()
    replaced = os.replace

    def fail(source: Path, target: Path) -> None:
        if target.name == "epoch_time.svg":
            raise OSError(28, "No space left on device")
        replaced(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fail)
        with pytest.raises(MachineError, match="No space left"):
            report_folder.write(SMALL, tmp_path)
    assert (tmp_path / "index.html").read_bytes() == old
    assert not list(tmp_path.glob(".report-*"))
    report_folder.write(SMALL, tmp_path)
    assert files(tmp_path) == set(report_folder.render(SMALL))


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(UserError, match="needs a folder"):
        report_folder.write(NEW, tmp_path / "out")
