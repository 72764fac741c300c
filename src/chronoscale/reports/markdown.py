"""Markdown: a report as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chronoscale.reports.advice import Advice
from chronoscale.reports.charts.drawing import Drawing
from chronoscale.reports.findings import cautions, sentence
from chronoscale.reports.report import Report
from chronoscale.reports.section_content import HEADINGS, SectionContent
from chronoscale.reports.table_formats import MARKED, to_markdown

EMPTY = "This report has no runs."


def markdown(report: Report, contents: Sequence[SectionContent], drawings: Mapping[str, Drawing]) -> str:
    """Return the report as Markdown: headlines and warnings first, then section by section.

    contents: one for each section of the report. drawings: figures of its advice, by name.
    """
    blocks = [f"# {_plain(report.title)}", _plain(report.subtitle)]
    blocks += ["\n".join(f"- {_plain(part.headline)}" for part in contents if part.headline)]
    blocks += ["\n".join(f"> - {_plain(note)}" for note in cautions(report))]
    blocks += [text for advice in report.advice for text in _advice(advice, drawings.get(advice.name))]
    blocks += [text for part in contents for text in _section(part)] or ([] if report.advice else [EMPTY])
    blocks += ["\n".join(f"- {_plain(name)}: {_plain(value)}" for name, value in report.environment.items())]
    return "\n\n".join(text.rstrip() for text in blocks if text) + "\n"


def _advice(advice: Advice, drawing: Drawing | None) -> list[str]:
    """Return the blocks of text of a ranking of candidates."""
    blocks = [f"## {_plain(advice.title)}", _plain(advice.headline), to_markdown(advice.readable_table.table)]
    blocks += ["\n".join(f"- {advice.lines}: {_plain(line)}" for line in advice.not_ranked)]
    return blocks + ([f"![{_plain(drawing.title)}](figures/{drawing.name}.svg)\n\n{_plain(drawing.caption)}"] if drawing else [])


def _section(part: SectionContent) -> list[str]:
    """Return the blocks of text of a section."""
    blocks = [f"## {_plain(part.section.title)}", _plain(part.same)]
    answers = [f"- {a.ranks} rank{'s' * (a.ranks != 1)}: **{_plain(a.names)}** {_plain(sentence(a, part.stands_on))}" for a in part.answers]
    blocks += ["\n".join(answers), part.evidence, part.order]
    for name, table in part.readable_tables.items():
        blocks += [f"### {HEADINGS[name]}", table.same, to_markdown(table.table, table.marked), MARKED if table.marked else ""]
    return blocks + [f"![{_plain(drawing.title)}](figures/{drawing.name}.svg)\n\n{_plain(drawing.caption)}" for drawing in part.drawings]


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is: no markup, no line breaks."""
    for char in "\\`*_[]<>|":
        text = text.replace(char, f"\\{char}")
    return " ".join(text.split())
