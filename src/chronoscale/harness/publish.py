"""Publish: finished runs as reports and tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from chronoscale.datasets.scores import SCORES
from chronoscale.harness import execution, simulation
from chronoscale.harness.cell import Cell
from chronoscale.harness.collected import collect
from chronoscale.harness.families import family_of
from chronoscale.harness.jobs import schedules
from chronoscale.harness.runs import Run
from chronoscale.harness.started import of_run
from chronoscale.reports.breakdown import PARTS
from chronoscale.reports.folder import write
from chronoscale.reports.formats import number
from chronoscale.reports.tables import breakdown, comparison

COLUMNS = (
    "strategy", "ranks", "epoch_s", "spread_s", "prepare_s", "speedup", "parallel_efficiency", *SCORES, "gap", "imbalance", "utilisation",
    "learning_rate", "sources", "failed",
)  # fmt: skip


def compared(run: Run) -> pd.DataFrame:
    """The comparison of one run, for the terminal: of its scores the first."""
    table = pd.concat([comparison(section) for section in collect([run]).sections], ignore_index=True)
    keys = [(str(name), int(ranks)) for name, ranks in zip(table["strategy"], table["ranks"], strict=True)]
    experiment = of_run(run)
    rate = family_of(experiment).rate
    rates = {(name, ranks): rate(experiment, plan) for ranks, folder in run.numbered("ranks-") for name, plan in schedules(folder).items()}
    if rates:
        table["learning_rate"] = [rates[key] for key in keys]
    found = {**execution.idle(run), **simulation.idle(run)}
    others = [key for key in SCORES if key in table][1:]
    return table[[name for name in COLUMNS if name in table and name not in others]].assign(idle_ranks=[found.get(key, 0) for key in keys])


def parts(run: Run) -> pd.DataFrame:
    """What the epochs of one run are made of: a rank's seconds in each part, and their share of the epoch; no rows where nothing ran."""
    frames = [frame for section in collect([run]).sections if len(frame := breakdown(section))]
    if not frames:
        return pd.DataFrame()
    table = pd.concat(frames, ignore_index=True)
    for part in [part for part in PARTS if part in table]:
        pairs = zip(table.pop(f"{part}_s"), table[part], strict=True)
        table[part] = pd.Series([_part(seconds, share) for seconds, share in pairs], dtype=object)
    return table[[name for name in ("stage", "strategy", "ranks", "epoch_s", *PARTS) if name in table]]


def _part(seconds: float, share: float) -> Cell:
    return Cell({"seconds": seconds, "share": share}, f"{number(seconds, 3)} s, {share:.0%}" if seconds else "–")


def beside(table: pd.DataFrame, parts: pd.DataFrame) -> pd.DataFrame:
    """As JSON has both: each row of a run's table with its breakdown, where there is one."""
    keys = [name for name in ("stage", "strategy", "ranks") if name in table and name in parts]
    known = {tuple(row[key] for key in keys): {part: row[part] for part in PARTS if part in row} for row in parts.to_dict("records")}
    found = [known.get(key) for key in zip(*(table[key] for key in keys), strict=True)] if keys else [None] * len(table)
    return table.assign(breakdown=pd.Series(found, index=table.index, dtype=object))


def page(found: Sequence[Run], out: Path) -> Path:
    """The report as a folder; returns its index.html."""
    return write(collect(found), out)
