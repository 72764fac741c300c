"""JSON of a report: what programs read in report.json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chronoscale.reports.findings import cautions, sentence
from chronoscale.reports.report import Report
from chronoscale.reports.section_content import SectionContent


def report_data(report: Report, found: Sequence[SectionContent]) -> dict[str, Any]:
    """Return keys and values of the whole report. Numbers are not here but in the tables' files."""
    return {
        "title": report.title,
        "runs": list(report.environments),
        "headlines": [part.headline for part in found if part.headline],
        "notes": cautions(report),
        "sections": [_data(part) for part in found],
        "advice": [
            {"title": one.title, "headline": one.headline, "not_ranked": list(one.not_ranked), "table": f"tables/{one.name}.csv"}
            for one in report.advice
        ],
    }


def _data(part: SectionContent) -> dict[str, Any]:
    found = [{"ranks": a.ranks, "leaders": list(a.leaders), "said": f"{a.names} {sentence(a, part.stands_on)}"} for a in part.answers]
    section = part.section
    return {
        "title": section.title,
        "kind": section.kind,
        "work": dict(section.setting.work),
        "place": dict(section.setting.place),
        "answers": found,
        "order": part.order,
        "not_compared": [
            {"strategy": one.strategy, "ranks": one.ranks, "run": one.run, "why": one.failed} for one in section.runs if one.failed
        ]
        + [{"run": one.name, "ranks": one.ranks, "why": one.failed} for one in section.staged if one.failed],
        "tables": {name: f"tables/{section.file}{name}.csv" for name in part.tables},
        "figures": [f"figures/{one.name}.svg" for one in part.drawings],
    }
