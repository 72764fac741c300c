"""Report folder: a report on disk, as index.html, report.md, report.json, tables and figures."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pandas as pd

from chronoscale.errors import MachineError, UserError
from chronoscale.reports import html_page
from chronoscale.reports.charts.advice_drawing import draw_advice
from chronoscale.reports.charts.drawing import Drawing
from chronoscale.reports.markdown import markdown
from chronoscale.reports.readable_table import ReadableTable
from chronoscale.reports.report import Report
from chronoscale.reports.report_json import report_data
from chronoscale.reports.section_content import SectionContent, section_contents
from chronoscale.reports.table_formats import to_csv, to_latex, to_markdown

INDEX, DATA, MAKER = "index.html", "report.json", "chronoscale"
XML = '<?xml version="1.0" encoding="utf-8"?>\n'


def write(report: Report, folder: Path) -> Path:
    """Write a report into `folder` and return the path of its page.

    There will be index.html, report.md, report.json, tables/ (CSV, Markdown, LaTeX), figures/ (SVG, PNG) and attachments. Everything is
    rendered before anything is written, and index.html is replaced last and whole: a failure leaves the old page. Files of an earlier
    report are removed, others stay. The same report gives the same bytes.

    Raises UserError when `folder` is a file, or holds anything but a report that this program wrote; MachineError when it cannot be
    written.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: a report needs a folder, this is a file")
    old, files = _earlier_files(folder), render(report)
    foreign = [name for name in files if name not in old and (folder / name).exists()]
    if foreign:
        raise UserError(
            f"{folder / foreign[0]}: not written by a report, and would be overwritten; move it, or name another folder (--out)"
        )
    outdated = [name for name in old if name not in files]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".report-") as stage:
            for name, content in files.items():
                staged = Path(stage, name)
                staged.parent.mkdir(exist_ok=True)
                staged.write_bytes(content)
            claim = Path(stage, "claim")  # what both reports name is ours, should this one be cut off
            claim.write_text(json.dumps({"made_by": MAKER, "files": [*files, *outdated]}))
            os.replace(claim, folder / DATA)
            for name in [*(name for name in files if name not in (DATA, INDEX)), INDEX]:
                folder.joinpath(name).parent.mkdir(exist_ok=True)
                os.replace(Path(stage, name), folder / name)
            for name in outdated:
                (folder / name).unlink(missing_ok=True)
            os.replace(Path(stage, DATA), folder / DATA)
    except OSError as error:
        raise MachineError(f"{folder}: cannot write the report ({error.strerror})") from error
    return folder / INDEX


def _earlier_files(folder: Path) -> list[str]:
    """Return the files of the report that is there; none where there is nothing.

    Raises UserError for a folder that holds something else.
    """
    present = sorted(path.name for path in folder.iterdir() if not path.name.startswith(".report-")) if folder.exists() else []
    if not present:
        return []
    try:
        data = json.loads((folder / DATA).read_text())
        names = [str(name) for name in data["files"]] if data["made_by"] == MAKER else None
    except (OSError, ValueError, KeyError, TypeError):
        names = None
    if names is None:
        raise UserError(
            f"{folder}: holds {present[0]}{' and more' * (len(present) > 1)}, and no report of ours; empty it, or name another (--out)"
        )
    return [name for name in names if (folder / name).resolve().is_relative_to(folder.resolve())]


def render(report: Report) -> dict[str, bytes]:
    """Return all files of a report, relative path -> content; index.html is the last."""
    contents = section_contents(report)
    files: dict[str, bytes] = {}
    for part in contents:
        files |= _section_tables(part) | {name: content for drawing in part.drawings for name, content in _figure_files(drawing).items()}
    drawings = {advice.name: draw_advice(advice.chart) for advice in report.advice if advice.chart is not None}
    for advice in report.advice:
        files |= _table_files(f"tables/{advice.name}", advice.table, advice.readable_table)
        files |= _figure_files(drawings[advice.name]) if advice.name in drawings else {}
    files |= {attachment.name: attachment.text.encode() for attachment in report.attachments}
    files["report.md"] = markdown(report, contents, drawings).encode()
    names = [*files, DATA, INDEX]
    files[DATA] = json.dumps({"made_by": MAKER, **report_data(report, contents), "files": names}, indent=1).encode()
    return files | {INDEX: html_page.html(report, contents, drawings).encode()}


def _section_tables(part: SectionContent) -> dict[str, bytes]:
    """Return the files of all tables of a section."""
    files: dict[str, bytes] = {}
    for name, table in part.tables.items():
        files |= _table_files(f"tables/{part.section.file}{name}", table, part.readable_tables[name])
    return files


def _table_files(stem: str, table: pd.DataFrame, readable: ReadableTable) -> dict[str, bytes]:
    """Return the files of one table. CSV has every column, the others those that tell rows apart."""
    files = {f"{stem}.csv": to_csv(table), f"{stem}.md": to_markdown(readable.table, readable.marked)}
    files[f"{stem}.tex"] = to_latex(readable.table, readable.marked)
    return {name: text.encode() for name, text in files.items()}


def _figure_files(drawing: Drawing) -> dict[str, bytes]:
    """Return the files of one figure."""
    return {f"figures/{drawing.name}.svg": (XML + drawing.svg).encode(), f"figures/{drawing.name}.png": drawing.png}
