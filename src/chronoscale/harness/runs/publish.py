"""Publish: finished runs as reports and tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from chronoscale.datasets.scores import SCORES
from chronoscale.harness.cell import Cell
from chronoscale.harness.execute import execution
from chronoscale.harness.execute.jobs import schedules
from chronoscale.harness.practices import practice_of
from chronoscale.harness.runs.collect import collect
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import of_run
from chronoscale.harness.simulate import simulation
from chronoscale.reports.breakdown import PARTS
from chronoscale.reports.numbers import number
from chronoscale.reports.report_folder import write
from chronoscale.reports.sensitivity import StrategyEffect, largest_effects
from chronoscale.reports.tables import FAILURE_COLUMNS, breakdown, comparison

COLUMNS = (
    "strategy", "ranks", "epoch_s", "epoch_low_s", "epoch_high_s", "spread_s", "prepare_s", "speedup", "speedup_low", "speedup_high",
    "parallel_efficiency", *FAILURE_COLUMNS, *SCORES, "gap", "imbalance", "utilisation",
    "learning_rate", "rests_on", "sources", "failed",
)  # fmt: skip


def compared(run: Run) -> pd.DataFrame:
    """The comparison of one run, for the terminal: of its scores the first."""
    table = pd.concat([comparison(section) for section in collect([run]).sections], ignore_index=True)
    keys = [(str(name), int(ranks)) for name, ranks in zip(table["strategy"], table["ranks"], strict=True)]
    experiment = of_run(run)
    rate = practice_of(experiment).rate
    rates = {(name, ranks): rate(experiment, plan) for ranks, folder in run.numbered("ranks-") for name, plan in schedules(folder).items()}
    if rates:
        table["learning_rate"] = [rates[key] for key in keys]
    found = {**execution.idle(run), **simulation.idle(run)}
    others = [key for key in SCORES if key in table][1:]
    shown = table[[name for name in COLUMNS if name in table and name not in others]].assign(idle_ranks=[found.get(key, 0) for key in keys])
    return believed(run, shown)


def resting(run: Run) -> pd.DataFrame:
    """What the answers of a simulation rest on, a row an assumption: what either end of its range makes of each strategy's epoch, and of
    how many times as fast as the baseline it is; no rows where nothing was assumed."""
    rows = [
        {"assumption": rest.assumption, "from": rest.low, "to": rest.high} | {one.strategy: _moves(one) for one in rest.strategies}
        for section in collect([run]).sections
        for rest in largest_effects(section)
    ]
    return pd.DataFrame(rows)


def _moves(one: StrategyEffect) -> Cell:
    middle, *ends = one.epoch_s
    epoch = " .. ".join(f"{100 * (end / middle - 1):+z.0f} %" for end in ends) if middle > 0 else "–"
    usual, *gains = one.speedup
    known = usual == usual
    found = {"epoch_s": ends, "speedup": gains if known else None}
    return Cell(found, epoch + (f", {number(gains[0], 3)} .. {number(gains[1], 3)} times as fast" if known else ""))


def assumed(table: pd.DataFrame, resting: pd.DataFrame) -> pd.DataFrame:
    """As JSON has both: each row of the most ranks with the assumptions that move it most."""
    most, found = table["ranks"].max(), []
    for name, ranks in zip(table["strategy"], table["ranks"], strict=True):
        known = [row for row in resting.to_dict("records") if ranks == most and isinstance(row.get(name), Cell)]
        found.append([{**{key: row[key] for key in ("assumption", "from", "to")}, **row[name].value} for row in known] or None)
    return table.assign(assumptions=pd.Series(found, index=table.index, dtype=object))


def believed(run: Run, table: pd.DataFrame) -> pd.DataFrame:
    """With a column `noise` that says of each row's ranks why it is not to be believed, where any is not; of operations their total's."""
    found = execution.noisy(run)
    if not found:
        return table
    whole = table["op"] == "TOTAL" if "op" in table else pd.Series(True, index=table.index)
    said = [found.get(int(ranks), "").partition(": ")[2] * bool(total) for ranks, total in zip(table["ranks"], whole, strict=True)]
    return table.assign(noise=said)


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
