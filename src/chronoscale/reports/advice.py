"""Advice: what there is to choose from, in order, as a report shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from chronoscale.reports.charts.drawing import Drawing
from chronoscale.reports.readable_table import ReadableTable

SPARE = ("iterations", "idle_ranks", "hours")  # columns for programs


@dataclass(frozen=True, slots=True, eq=False)
class Advice:
    """name: of its files. title: what is trained. headline: which is first. table: what ranks, a row a point, with every column. left: what
    does not rank and why, a line each. drawing: the Pareto front, None where nothing ranks."""

    name: str
    title: str
    headline: str
    table: pd.DataFrame
    left: Sequence[str]
    drawing: Drawing | None

    @property
    def reading(self) -> ReadableTable:
        """The table as it is read: columns that say nothing are left out."""
        empty = [str(name) for name in self.table.columns if self.table[name].isna().all() or (self.table[name] == "").all()]
        return ReadableTable(self.table.drop(columns=[*empty, *(name for name in SPARE if name not in empty)]), "", frozenset())
