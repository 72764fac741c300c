"""Advice: the candidates that one may choose from, ranked, as a report shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from chronoscale.reports.charts.advice_chart import AdviceChart
from chronoscale.reports.readable_table import ReadableTable

SPARE = ("targets", "idle_ranks", "hours")  # columns for programs


@dataclass(frozen=True, slots=True, eq=False)
class Advice:
    """Ranking of candidates (strategy, GPUs, settings) for one training, which `chronoscale advise` hands to a report.

    name: of its files. title: what is trained. headline: which candidate is first. table: a row a ranked candidate, with every column.
    not_ranked: what does not rank and why, a line each. chart: the Pareto front, None where nothing ranks. kind: how its figures were
    made. lines: what `not_ranked` is called. Also a comparison of `chronoscale compare`, whose lines are notes.
    """

    name: str
    title: str
    headline: str
    table: pd.DataFrame
    not_ranked: Sequence[str]
    chart: AdviceChart | None
    kind: str = "simulated"
    lines: str = "not ranked"

    @property
    def readable_table(self) -> ReadableTable:
        """Return the ranking as the report shows it: columns that say nothing are left out."""
        empty = [str(name) for name in self.table.columns if self.table[name].isna().all() or (self.table[name] == "").all()]
        left_out = dict.fromkeys([*empty, *(name for name in SPARE if name in self.table)])
        return ReadableTable(self.table.drop(columns=list(left_out)), "", frozenset())
