"""Document: a report as Markdown, and as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chronoscale.reports.findings import cautions, sentence
from chronoscale.reports.formats import MARKED, to_markdown
from chronoscale.reports.parts import HEADINGS, Part
from chronoscale.reports.report import Report

EMPTY = "This report has no runs."


def markdown(report: Report, found: Sequence[Part]) -> str:
    """The whole report: what was found first, then section by section."""
    said = [f"# {_plain(report.title)}", _plain(report.subtitle)]
    said += ["\n".join(f"- {_plain(part.headline)}" for part in found if part.headline)]
    said += ["\n".join(f"> - {_plain(note)}" for note in cautions(report))]
    said += [text for part in found for text in _section(part)] or [EMPTY]
    said += ["\n".join(f"- {_plain(name)}: {_plain(value)}" for name, value in report.environment.items())]
    return "\n\n".join(text.rstrip() for text in said if text) + "\n"


def _section(part: Part) -> list[str]:
    said = [f"## {_plain(part.section.title)}", _plain(part.same)]
    answered = [
        f"- {a.ranks} rank{'s' * (a.ranks != 1)}: **{_plain(a.names)}** {_plain(sentence(a, part.stands_on))}" for a in part.answers
    ]
    said += ["\n".join(answered), part.evidence, part.ordered]
    for name, shown in part.readings.items():
        said += [f"### {HEADINGS[name]}", shown.same, to_markdown(shown.table, shown.marked), MARKED if shown.marked else ""]
    return said + [f"![{_plain(one.title)}](figures/{one.name}.svg)\n\n{_plain(one.caption)}" for one in part.drawings]


def document(report: Report, found: Sequence[Part]) -> dict[str, Any]:
    """Keys and values for programs: numbers stand in the tables' files."""
    return {
        "title": report.title,
        "runs": list(report.environments),
        "headlines": [part.headline for part in found if part.headline],
        "notes": cautions(report),
        "sections": [_data(part) for part in found],
    }


def _data(part: Part) -> dict[str, Any]:
    found = [{"ranks": a.ranks, "leaders": list(a.leaders), "said": f"{a.names} {sentence(a, part.stands_on)}"} for a in part.answers]
    section = part.section
    return {
        "title": section.title,
        "kind": section.kind,
        "work": dict(section.setting.work),
        "place": dict(section.setting.place),
        "answers": found,
        "order": part.ordered,
        "not_compared": [
            {"strategy": one.strategy, "ranks": one.ranks, "run": one.run, "why": one.failed} for one in section.runs if one.failed
        ]
        + [{"run": one.name, "ranks": one.ranks, "why": one.failed} for one in section.staged if one.failed],
        "tables": {name: f"tables/{section.file}{name}.csv" for name in part.tables},
        "figures": [f"figures/{one.name}.svg" for one in part.drawings],
    }


def _plain(text: str) -> str:
    """Text that Markdown shows as it is: no markup, no line breaks."""
    for char in "\\`*_[]<>|":
        text = text.replace(char, f"\\{char}")
    return " ".join(text.split())
