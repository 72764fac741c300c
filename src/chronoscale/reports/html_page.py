"""HTML page: a report as one self-contained file, and the document that it shares with other pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from chronoscale.reports.advice import Advice
from chronoscale.reports.charts.drawing import Drawing
from chronoscale.reports.findings import cautions, sentence
from chronoscale.reports.markdown import EMPTY
from chronoscale.reports.report import Report
from chronoscale.reports.section_content import HEADINGS, SectionContent
from chronoscale.reports.table_formats import MARKED, to_html

STYLE = Path(__file__).with_name("page.css")


def html(report: Report, contents: Sequence[SectionContent], drawings: Mapping[str, Drawing]) -> str:
    """Return the report's page as one HTML document: headlines and warnings first, then section by section.

    contents: one for each section of the report. drawings: figures of its advice, by name.
    """
    head = "".join(_headline(part) for part in contents) + _notes(report)
    sections = [*(_advice(advice, drawings.get(advice.name)) for advice in report.advice), *map(_section, contents)]
    body = head + ("\n".join(sections) if sections else f'<p class="empty">{EMPTY}</p>')
    if environment := _environment(report):
        body += f"\n<h2>Environment</h2>\n{environment}"
    subtitle = f'<p class="subtitle">{escape(report.subtitle)}</p>\n' if report.subtitle else ""
    return document(report.title, subtitle + body)


def document(title: str, body: str, style: str = "") -> str:
    """Return a whole HTML document in the style of all pages, which fetches nothing: title, heading and body.

    title: plain text. body: HTML. style: CSS that the page has besides.
    """
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>\n{STYLE.read_text('utf-8')}{style}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{escape(title)}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _section(part: SectionContent) -> str:
    """Return a section's answers, figures, tables, predictions and timelines."""
    of_predictions = ("fidelity", "order", "coverage")
    fidelity = "".join(map(_figure, part.fidelity)) + _proof(part.order) + "".join(_table(part, name) for name in of_predictions)
    return (
        f'<section>\n<h2><span class="kind">{part.section.kind}</span> {escape(part.section.title.removeprefix(f"{part.section.kind}: "))}'
        f"</h2>\n{_proof(part.same)}{_answers(part)}{''.join(map(_figure, part.figures))}"
        f"{''.join(_table(part, name) for name in part.readable_tables if name not in of_predictions)}{fidelity}"
        f"{'<h3>Timelines</h3>' * bool(part.timelines)}{''.join(map(_figure, part.timelines))}</section>"
    )


def _advice(advice: Advice, drawing: Drawing | None) -> str:
    """Return a ranking of candidates with its figure."""
    left = "".join(f"<li>{escape(line)}</li>\n" for line in advice.not_ranked)
    return (
        f'<section>\n<h2><span class="kind">{advice.kind}</span> {escape(advice.title)}</h2>\n{_proof(advice.headline)}'
        f"{_figure(drawing) if drawing else ''}<h3>Ranked</h3>\n{to_html(advice.readable_table.table)}\n"
        f"{f'<h3>{advice.lines.capitalize()}</h3>{chr(10)}<ul>{chr(10)}{left}</ul>' if left else ''}</section>"
    )


def _proof(text: str) -> str:
    """Return a paragraph in small print."""
    return f'<p class="proof">{escape(text)}</p>\n' if text else ""


def _table(part: SectionContent, name: str) -> str:
    """Return one table with its heading; '' where the section does not have it."""
    if name not in part.readable_tables:
        return ""
    table = part.readable_tables[name]
    below = _proof(" ".join(filter(None, [table.same, MARKED if table.marked else ""])))
    return f"<h3>{HEADINGS[name]}</h3>\n{to_html(table.table, table.marked)}\n{below}"


def _answers(part: SectionContent) -> str:
    """Return a section's answers as a list, and their evidence."""
    if not part.section.runs:
        return ""
    items = "".join(
        f'<li><span class="ranks">{answer.ranks} rank{"s" * (answer.ranks != 1)}</span><span class="text"><b>{escape(answer.names)}</b> '
        f'{escape(sentence(answer, part.stands_on))}</span><span class="kind">{part.section.kind}</span></li>\n'
        for answer in part.answers
    )
    return (f'<ul class="answers">\n{items}</ul>\n' if items else "") + _proof(part.evidence)


def _headline(part: SectionContent) -> str:
    """Return a section's headline as a paragraph."""
    if not part.headline:
        return ""
    headline = part.headline.removeprefix(f"{part.section.kind}: ")
    return f'<p class="headline"><span class="kind">{part.section.kind}</span> {escape(headline)}</p>\n'


def _notes(report: Report) -> str:
    """Return the cautions as a list."""
    items = "".join(f"<li>{escape(note)}</li>\n" for note in cautions(report))
    return f'<ul class="notes">\n{items}</ul>\n' if items else ""


def _figure(drawing: Drawing) -> str:
    """Return a drawing with its caption."""
    label = escape(drawing.title, quote=True)
    svg = drawing.svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    caption = f"<b>{escape(drawing.title)}.</b> {escape(drawing.caption)}"
    return f'<figure><div class="card">{svg}</div>\n<figcaption>{caption}</figcaption></figure>\n'


def _environment(report: Report) -> str:
    """Return hardware, versions and commits as a list."""
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>\n" for name, value in report.environment.items())
    return f"<dl>\n{items}</dl>" if items else ""
