"""Readable table: a section's table without columns that say nothing, or the same in every row."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from chronoscale.datasets.scores import SCORES
from chronoscale.reports.breakdown import PARTS
from chronoscale.reports.section import Section
from chronoscale.reports.strategy_result import EXTRAPOLATED
from chronoscale.reports.table_formats import MarkedCells

HEADINGS = {"sources": "durations"}
MEASURED = ("measured_ms", "spread_pct", "measured_ratio", "pair_spread", *SCORES)  # no prediction, also where others of a row are


class ReadableTable(NamedTuple):
    """Table of a report without the columns that are the same in all rows.

    same: a sentence on what is the same in all rows; marked: cells whose numbers rest on extrapolated durations.
    """

    table: pd.DataFrame
    same: str
    marked: MarkedCells


def readable_table(section: Section, table: pd.DataFrame) -> ReadableTable:
    """Return a section's table as a report shows it: columns of text, and the repeats, that are the same in several rows become a sentence.

    What the section's title says is not repeated. table: one of `tables`, with every column.
    """
    extrapolated = [EXTRAPOLATED in str(value) for value in table["sources"]] if "sources" in table else []
    texts = [str(name) for name in table.columns if not pd.api.types.is_numeric_dtype(table[name]) or name == "repeats"]
    always_shown = {"strategy", "op", "assumption", "link", "rests_on", "faster", "slower", *(["sources"] if any(extrapolated) else [])}
    in_title = {"kind", "dataset", "model", "device", *(name for name, _ in section.differences)}
    constant = [name for name in texts if name not in always_shown and table[name].nunique(dropna=False) == 1]
    left_out = [name for name in constant if len(table) > 1 or name in in_title]
    facts = [f"{HEADINGS.get(name, name)} {table[name].iloc[0]}" for name in left_out if name not in in_title and table[name].iloc[0] != ""]
    numbers = [str(name) for name in table.columns if pd.api.types.is_float_dtype(table[name]) and name not in MEASURED]
    marked = frozenset(
        (row, name) for row, is_weak in enumerate(extrapolated) for name in numbers if is_weak and not pd.isna(table[name].iloc[row])
    )
    seconds_of_parts = [f"{part}_s" for part in PARTS if part in table]  # what their shares of the epoch say
    empty = [str(name) for name in table.columns if table[name].isna().all()]
    remaining = table.drop(columns=list(dict.fromkeys([*left_out, *empty, *seconds_of_parts])))
    return ReadableTable(remaining, f"In all rows: {', '.join(facts)}." if facts else "", marked)
