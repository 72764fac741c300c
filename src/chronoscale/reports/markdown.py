"""Markdown: a report as text."""

from __future__ import annotations

from collections.abc import Sequence

from chronoscale.reports.advice import Advice
from chronoscale.reports.findings import cautions, sentence
from chronoscale.reports.report import Report
from chronoscale.reports.section_content import HEADINGS, SectionContent
from chronoscale.reports.table_formats import MARKED, to_markdown

EMPTY = "This report has no runs."


def markdown(report: Report, found: Sequence[SectionContent]) -> str:
    """Return the whole report: headlines and cautions first, then section by section."""
    said = [f"# {_plain(report.title)}", _plain(report.subtitle)]
    said += ["\n".join(f"- {_plain(part.headline)}" for part in found if part.headline)]
    said += ["\n".join(f"> - {_plain(note)}" for note in cautions(report))]
    said += [text for advice in report.advice for text in _advice(advice)]
    said += [text for part in found for text in _section(part)] or ([] if report.advice else [EMPTY])
    said += ["\n".join(f"- {_plain(name)}: {_plain(value)}" for name, value in report.environment.items())]
    return "\n\n".join(text.rstrip() for text in said if text) + "\n"


def _advice(advice: Advice) -> list[str]:
    said = [f"## {_plain(advice.title)}", _plain(advice.headline), to_markdown(advice.readable_table.table)]
    said += ["\n".join(f"- not ranked: {_plain(line)}" for line in advice.not_ranked)]
    drawn = advice.drawing
    return said + ([f"![{_plain(drawn.title)}](figures/{drawn.name}.svg)\n\n{_plain(drawn.caption)}"] if drawn else [])


def _section(part: SectionContent) -> list[str]:
    said = [f"## {_plain(part.section.title)}", _plain(part.same)]
    answered = [
        f"- {a.ranks} rank{'s' * (a.ranks != 1)}: **{_plain(a.names)}** {_plain(sentence(a, part.stands_on))}" for a in part.answers
    ]
    said += ["\n".join(answered), part.evidence, part.order]
    for name, shown in part.readable_tables.items():
        said += [f"### {HEADINGS[name]}", shown.same, to_markdown(shown.table, shown.marked), MARKED if shown.marked else ""]
    return said + [f"![{_plain(one.title)}](figures/{one.name}.svg)\n\n{_plain(one.caption)}" for one in part.drawings]


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is: no markup, no line breaks."""
    for char in "\\`*_[]<>|":
        text = text.replace(char, f"\\{char}")
    return " ".join(text.split())
