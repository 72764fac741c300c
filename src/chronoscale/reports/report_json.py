"""JSON of a report: what programs read in report.json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chronoscale.reports.findings import cautions, sentence
from chronoscale.reports.report import Report
from chronoscale.reports.section_content import SectionContent


def report_data(report: Report, contents: Sequence[SectionContent]) -> dict[str, Any]:
    """Return what a report's report.json holds: headlines, answers, warnings and names of files.

    Numbers are not here but in the tables' files. contents: one for each section of the report.
    """
    return {
        "title": report.title,
        "runs": list(report.environments),
        "headlines": [part.headline for part in contents if part.headline],
        "notes": cautions(report),
        "sections": [_data(part) for part in contents],
        "advice": [
            {
                "title": advice.title,
                "headline": advice.headline,
                advice.lines.replace(" ", "_"): list(advice.not_ranked),
                "table": f"tables/{advice.name}.csv",
            }
            for advice in report.advice
        ],
    }


def _data(part: SectionContent) -> dict[str, Any]:
    """Return keys and values of one section."""
    answers = [{"ranks": a.ranks, "leaders": list(a.leaders), "said": f"{a.names} {sentence(a, part.stands_on)}"} for a in part.answers]
    section = part.section
    return {
        "title": section.title,
        "kind": section.kind,
        "work": dict(section.setting.work),
        "place": dict(section.setting.place),
        "answers": answers,
        "order": part.order,
        "not_compared": [
            {"strategy": result.strategy, "ranks": result.ranks, "run": result.run, "why": result.failed}
            for result in section.runs
            if result.failed
        ]
        + [{"run": result.name, "ranks": result.ranks, "why": result.failed} for result in section.staged if result.failed],
        "tables": {name: f"tables/{section.file}{name}.csv" for name in part.tables},
        "figures": [f"figures/{result.name}.svg" for result in part.drawings],
    }
