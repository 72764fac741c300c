"""Conclusion section: part of a paper's page that says which conclusions of its studies hold, whatever is assumed of the machine."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from chronoscale.harness.study.expressions import plural
from chronoscale.reports.numbers import MISSING, number
from chronoscale.reports.table_formats import to_markdown
from chronoscale.simulator.uncertainty.joint import percentage

PLACES = ("inside", "above", "below")  # of a printed number, beside the band


def conclusion_section(tables: Iterable[tuple[str, pd.DataFrame]]) -> str:
    """Return the section of a page on all conclusions of its studies, as Markdown; '' for none.

    tables: a study's title, such as 'Figure 8', and its table of conclusions (`study.conclusions.conclusion_table`).
    """
    parts = [frame.assign(of=title) for title, frame in tables if len(frame)]
    if not parts:
        return ""
    lines = pd.concat(parts, ignore_index=True).to_dict("records")
    shown = pd.DataFrame(
        {
            "of": [line["of"] for line in lines],
            "what": [line["what"] for line in lines],
            "holds in": [percentage(line["share"]) for line in lines],
            "times as fast": [f"{number(line['low'], 3)} to {number(line['high'], 3)}" for line in lines],
            "as usually assumed": [number(line["usual"], 3) for line in lines],
            "published": [number(line["published"], 3) if _printed(line) else MISSING for line in lines],
            "published is": [line["published_is"] or MISSING for line in lines],
            "turned by": [line["turned_by"] for line in lines],
        }
    )
    return f"## Under joint assumptions\n\n{_sentence(lines)}\n\n{to_markdown(shown)}"


def _sentence(lines: Sequence[Mapping[Hashable, Any]]) -> str:
    count, held = len(lines), sum(line["share"] == 1 for line in lines)
    printed = [str(line["published_is"]) for line in lines if _printed(line)]
    where = ", ".join(f"{place} {sum(each.startswith(place) for each in printed)}" for place in PLACES)
    usual = sum(not line["low"] <= line["usual"] <= line["high"] for line in lines)
    apart = f" What is usually assumed lies outside the band of {usual}." if usual else ""
    return (
        f"What is assumed was drawn together ([simulator](simulator.md#i-do-not-know)). Of {count} {plural(count, 'conclusion')} {held} "
        f"{'holds' if held == 1 else 'hold'} in every draw. Of {len(printed)} published ratios there "
        f"are, beside the band of ours: {where}.{apart}"
    )


def _printed(line: Mapping[Hashable, Any]) -> bool:
    return line["published"] is not None and line["published"] == line["published"]
