"""Validation: what a run's replays say of its measurements, for the terminal and as JSON."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from chronoscale.harness.publish.collect import collect
from chronoscale.harness.runs.passes import with_noise
from chronoscale.harness.runs.run_folder import Run
from chronoscale.reports.findings import order_sentence
from chronoscale.reports.tables import coverage, fidelity, order
from chronoscale.strategies.evaluation.fidelity import TOTAL

PREDICTED = (
    "strategy", "ranks", "op", "predicted_ms", "measured_ms", "error_pct", "epoch_share", "spread_pct", "task_error_pct", "tasks",
    "sources",
)  # fmt: skip
PAIRED = ("ranks", "faster", "slower", "measured_ratio", "pair_spread", "predicted_ratio", "order", "kendall_tau")
COVERED = ("strategy", "ranks", "rows", "compared", "share", "unmeasured", "unpredicted", "unsampled")
Records = dict[tuple[Any, ...], list[dict[str, Any]]]


class ValidationTables(NamedTuple):
    """Predictions of one run beside its measurements, as `chronoscale validate` prints them.

    table: predicted against measured, per operation, iteration and in total. order: each pair of strategies, no rows for one strategy.
    coverage: which share of the rows was compared, a row a strategy and number of ranks. verdict: how many pairs are in the right order, a
    sentence; '' for none.
    """

    table: pd.DataFrame
    order: pd.DataFrame
    coverage: pd.DataFrame
    verdict: str

    @classmethod
    def of(cls, run: Run) -> ValidationTables:
        """Read the tables of `chronoscale validate` off a run's folder. Raises UserError as `collect`."""
        sections = collect([run]).sections
        shown = []
        for make, columns in ((fidelity, PREDICTED), (order, PAIRED), (coverage, COVERED)):
            table = pd.concat([make(section) for section in sections], ignore_index=True)
            shown.append(table[[name for name in columns if name in table]])
        return cls(with_noise(run, shown[0]), shown[1], shown[2], " ".join(filter(None, map(order_sentence, sections))))

    def records(self) -> pd.DataFrame:
        """Return `table` for `--json`: rows of whole epochs also have `coverage`, and `order`: all pairs of strategies on as many ranks."""
        covered, paired = _by(self.coverage, ("strategy", "ranks")), _by(self.order, ("ranks",))
        rows = list(zip(self.table["strategy"], self.table["ranks"], self.table["op"] == TOTAL, strict=True))
        known = [next(iter(covered.get((name, ranks), [])), None) if whole else None for name, ranks, whole in rows]
        pairs = [paired.get((ranks,), []) if whole else None for _, ranks, whole in rows]
        return self.table.assign(**{key: pd.Series(values, dtype=object) for key, values in (("coverage", known), ("order", pairs))})


def _by(table: pd.DataFrame, keys: tuple[str, ...]) -> Records:
    """Rows as records without the keys, by them."""
    records: Records = {}
    for row in table.to_dict("records"):
        record = {str(name): value for name, value in row.items() if name not in keys}
        records.setdefault(tuple(row[key] for key in keys), []).append(record)
    return records
