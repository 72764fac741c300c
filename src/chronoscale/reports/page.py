"""Page: a report as one self-contained HTML file, with its tables, figures and a Markdown version beside it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from html import escape
from pathlib import Path

import pandas as pd

from chronoscale.errors import MachineError, UserError
from chronoscale.reports import figures
from chronoscale.reports.drawing import Drawing
from chronoscale.reports.findings import answers, cautions, evidence, headline
from chronoscale.reports.formats import to_csv, to_html, to_latex, to_markdown
from chronoscale.reports.report import Report
from chronoscale.reports.tables import tables

STYLE = Path(__file__).with_name("page.css")
HEADINGS = {
    "comparison": "Comparison",
    "time_by_op": "Seconds in each operation, summed over ranks",
    "fidelity": "Fidelity",
    "stages": "Stages of training",
}
XML = '<?xml version="1.0" encoding="utf-8"?>\n'
EMPTY = "This report has no runs."


def write(report: Report, folder: Path) -> Path:
    """Write `folder`/index.html and beside it report.md, tables/ (CSV, Markdown, LaTeX) and figures/ (SVG, PNG); returns the page.

    Everything is rendered before anything is written, and index.html is replaced last and whole: a failure leaves the old page. Files of
    an earlier report under other names stay. The same report gives the same bytes.

    Raises UserError when `folder` is a file, MachineError when it cannot be written.
    """
    files = render(report)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: a report needs a folder, this is a file")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".report-") as stage:
            for name, content in files.items():
                staged = Path(stage, name)
                staged.parent.mkdir(exist_ok=True)
                staged.write_bytes(content)
            for name in files:
                folder.joinpath(name).parent.mkdir(exist_ok=True)
                os.replace(Path(stage, name), folder / name)
    except OSError as error:
        raise MachineError(f"{folder}: cannot write the report ({error.strerror})") from error
    return folder / "index.html"


def render(report: Report) -> dict[str, bytes]:
    """All files of a report by relative path; index.html is the last."""
    drawn = {"figures": figures.figures(report), "fidelity": figures.fidelity(report), "timelines": figures.timelines(report)}
    found = tables(report)
    files: dict[str, str] = {}
    for name, table in found.items():
        files |= {f"tables/{name}.{end}": show(table) for end, show in (("csv", to_csv), ("md", to_markdown), ("tex", to_latex))}
    files["report.md"] = _markdown(report, found, [drawing for group in drawn.values() for drawing in group])
    files |= {f"figures/{drawing.name}.svg": XML + drawing.svg for group in drawn.values() for drawing in group}
    pictures = {f"figures/{drawing.name}.png": drawing.png for group in drawn.values() for drawing in group}
    page = _html(report, found, drawn)
    return {name: text.encode() for name, text in files.items()} | pictures | {"index.html": page.encode()}


def _html(report: Report, found: Mapping[str, pd.DataFrame], drawn: Mapping[str, list[Drawing]]) -> str:
    shown = {name: to_html(_readable(table)) for name, table in found.items()}
    sections = [
        ("", _headlines(report) + _notes(report) + _answers(report)),
        ("Figures", "".join(map(_figure, drawn["figures"]))),
        ("Tables", "".join(f"<h3>{HEADINGS[name]}</h3>\n{shown[name]}\n" for name in shown if name != "fidelity")),
        ("Prediction against measurement", "".join(map(_figure, drawn["fidelity"])) + shown.get("fidelity", "")),
        ("Timelines", "".join(map(_figure, drawn["timelines"]))),
        ("Environment", _environment(report)),
    ]
    body = "\n".join((f"<h2>{heading}</h2>\n" if heading else "") + content for heading, content in sections if content)
    title, subtitle = escape(report.title), f'<p class="subtitle">{escape(report.subtitle)}</p>\n' if report.subtitle else ""
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>\n{STYLE.read_text("utf-8")}</style>\n</head>\n'
        f"<body>\n<main>\n<h1>{title}</h1>\n{subtitle}{body}\n</main>\n</body>\n</html>\n"
    )


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    """Without columns that say nothing on the page: devices stand in the captions, an empty one has no news."""
    dull = [name for name in table.columns if name == "device" or (table[name].isna() | (table[name] == "")).all()]
    return table.drop(columns=dull)


def _answers(report: Report) -> str:
    if not report.runs:
        return "" if report.staged else f'<p class="empty">{EMPTY}</p>'
    parts = []
    found = answers(report)
    for setting in report.settings:
        here = [answer for answer in found if answer.setting == setting]
        items = "".join(
            f'<li><span class="ranks">{answer.ranks} rank{"s" * (answer.ranks != 1)}</span>'
            f'<span class="text"><b>{escape(answer.fastest)}</b> {escape(answer.how)}</span><span class="kind">{setting.kind}</span></li>\n'
            for answer in here
        )
        proof = evidence([run for run in report.runs if run.setting == setting])
        parts.append(f'<ul class="answers">\n{items}</ul>\n<p class="proof">{escape(proof)}</p>')
    return "\n".join(parts)


def _headlines(report: Report) -> str:
    found = answers(report)
    said = [(setting, headline([a for a in found if a.setting == setting], report.baseline)) for setting in report.settings]
    return "".join(f'<p class="headline"><span class="kind">{escape(str(s))}</span> {escape(text)}</p>\n' for s, text in said if text)


def _notes(report: Report) -> str:
    items = "".join(f"<li>{escape(note)}</li>\n" for note in cautions(report))
    return f'<ul class="notes">\n{items}</ul>\n' if items else ""


def _figure(drawing: Drawing) -> str:
    label = escape(drawing.title, quote=True)
    svg = drawing.svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    caption = f"<b>{escape(drawing.title)}.</b> {escape(drawing.caption)}"
    return f'<figure><div class="card">{svg}</div>\n<figcaption>{caption}</figcaption></figure>\n'


def _environment(report: Report) -> str:
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>\n" for name, value in report.environment.items())
    return f"<dl>\n{items}</dl>" if items else ""


def _markdown(report: Report, found: Mapping[str, pd.DataFrame], drawings: list[Drawing]) -> str:
    parts = [f"# {_plain(report.title)}", _plain(report.subtitle)]
    parts += ["\n".join(f"> - {_plain(note)}" for note in cautions(report))]
    said = [f"- {a.ranks} rank{'s' * (a.ranks != 1)}: **{_plain(a.fastest)}** {_plain(a.how)} ({a.setting})" for a in answers(report)]
    parts += ["\n".join(said) if said else "" if report.staged else EMPTY, evidence(list(report.runs))]
    parts += [f"## {HEADINGS[name]}\n\n{to_markdown(table)}" for name, table in found.items()]
    parts += [f"![{_plain(drawing.title)}](figures/{drawing.name}.svg)\n\n{_plain(drawing.caption)}" for drawing in drawings]
    parts += ["\n".join(f"- {_plain(name)}: {_plain(value)}" for name, value in report.environment.items())]
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is: no markup, no line breaks."""
    for char in "\\`*_[]<>|":
        text = text.replace(char, f"\\{char}")
    return " ".join(text.split())
