"""Tables of a run's results, for the terminal and as JSON."""

from __future__ import annotations

from dataclasses import asdict

import pandas as pd

from chronoscale.datasets.scores import SCORES
from chronoscale.harness.display.cell import Cell
from chronoscale.harness.runs import passes, points
from chronoscale.harness.runs.assumed import assumed_of
from chronoscale.harness.runs.passes import load_schedules, with_noise
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import load_experiment
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.reports.breakdown import PARTS
from chronoscale.reports.numbers import number
from chronoscale.reports.report import Report
from chronoscale.reports.sensitivity import StrategyEffect, largest_effects
from chronoscale.reports.tables import FAILURE_COLUMNS, breakdown, comparison

COLUMNS = (
    "strategy", "ranks", "epoch_s", "epoch_low_s", "epoch_high_s", "spread_s", "prepare_s", "speedup", "speedup_low", "speedup_high",
    "parallel_efficiency", *FAILURE_COLUMNS, *SCORES, "gap", "imbalance", "utilisation",
    "learning_rate", "rests_on", "sources", "failed",
)  # fmt: skip


def comparison_table(run: Run, report: Report) -> pd.DataFrame:
    """Return the table that `chronoscale bench` and `simulate` print of a run: a row a strategy and number of ranks; of scores only the
    first.

    report: of the run alone, as `collect` returns it.
    """
    table = pd.concat([comparison(section) for section in report.sections], ignore_index=True)
    keys = [(str(name), int(ranks)) for name, ranks in zip(table["strategy"], table["ranks"], strict=True)]
    experiment = load_experiment(run)
    rate = workflow_of(experiment.family).rate
    rates = {
        (name, ranks): rate(experiment, plan) for ranks, folder in run.numbered("ranks-") for name, plan in load_schedules(folder).items()
    }
    if rates:
        table["learning_rate"] = [rates[key] for key in keys]
    idle = {**passes.idle_ranks(run), **points.idle_ranks(run)}
    others = [key for key in SCORES if key in table][1:]
    shown = table[[name for name in COLUMNS if name in table and name not in others]].assign(idle_ranks=[idle.get(key, 0) for key in keys])
    return with_noise(run, shown)


def assumption_table(report: Report) -> pd.DataFrame:
    """Return how a simulation's results depend on its assumptions, for `chronoscale simulate`: a row an assumption; none where none is
    made.

    Cells: each strategy's epoch, and its speed relative to the baseline, at either end of the assumption's range.
    """
    rows = [
        {"assumption": rest.assumption, "from": rest.low, "to": rest.high} | {moved.strategy: _moves(moved) for moved in rest.strategies}
        for section in report.sections
        for rest in largest_effects(section)
    ]
    return pd.DataFrame(rows)


def _moves(moved: StrategyEffect) -> Cell:
    middle, *ends = moved.epoch_s
    epoch = " .. ".join(f"{100 * (end / middle - 1):+z.0f} %" for end in ends) if middle > 0 else "–"
    usual, *gains = moved.speedup
    known = usual == usual
    values = {"epoch_s": ends, "speedup": gains if known else None}
    return Cell(values, epoch + (f", {number(gains[0], 3)} .. {number(gains[1], 3)} times as fast" if known else ""))


def with_assumptions(table: pd.DataFrame, resting: pd.DataFrame) -> pd.DataFrame:
    """Return a table of strategies for `chronoscale simulate --json` with a column more, `assumptions`: of each strategy on the most ranks,
    the assumptions that its epoch depends on most, and by how much.

    table: as `comparison_table` returns it. resting: as `assumption_table` does, one row an assumption, a column a strategy.
    """
    most = table["ranks"].max()
    assumptions = []
    for name, ranks in zip(table["strategy"], table["ranks"], strict=True):
        known = [row for row in resting.to_dict("records") if ranks == most and isinstance(row.get(name), Cell)]
        assumptions.append([{**{key: row[key] for key in ("assumption", "from", "to")}, **row[name].value} for row in known] or None)
    return table.assign(assumptions=pd.Series(assumptions, index=table.index, dtype=object))


def with_conclusions(run: Run, table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of strategies for `chronoscale simulate --json` with a column more, `conclusions`: of each strategy on the most ranks,
    the pairs in which it is the faster one, with the share of joint draws in which it is, the band of the ratio, and where it turns.

    table: as `comparison_table` returns it.
    """
    record = assumed_of(run)
    sentences = [
        [asdict(each) for each in record.conclusions if each.faster == name] if record and ranks == record.gpus else None
        for name, ranks in zip(table["strategy"], table["ranks"], strict=True)
    ]
    return table.assign(conclusions=pd.Series(sentences, index=table.index, dtype=object))


def breakdown_table(report: Report) -> pd.DataFrame:
    """Return where an epoch's time goes (computing, copies, …), which `chronoscale bench` and `train` print: seconds of a rank, and shares.

    A row a strategy and number of ranks, of a training also a stage; no rows where nothing ran.
    """
    frames = [frame for section in report.sections if len(frame := breakdown(section))]
    if not frames:
        return pd.DataFrame()
    table = pd.concat(frames, ignore_index=True)
    for part in [part for part in PARTS if part in table]:
        pairs = zip(table.pop(f"{part}_s"), table[part], strict=True)
        table[part] = pd.Series([_part(seconds, share) for seconds, share in pairs], dtype=object)
    return table[[name for name in ("stage", "strategy", "ranks", "epoch_s", *PARTS) if name in table]]


def _part(seconds: float, share: float) -> Cell:
    return Cell({"seconds": seconds, "share": share}, f"{number(seconds, 3)} s, {share:.0%}" if seconds else "–")


def with_planning(run: Run, table: pd.DataFrame) -> pd.DataFrame:
    """Return `comparison_table` for `chronoscale bench --json`: each row with the costs that its strategy planned with, null for none."""
    costs = passes.planning_costs(run)
    names = [costs.get((str(name), int(ranks))) for name, ranks in zip(table["strategy"], table["ranks"], strict=True)]
    return table.assign(planned_with=pd.Series(names, index=table.index, dtype=object))


def with_breakdowns(table: pd.DataFrame, parts: pd.DataFrame) -> pd.DataFrame:
    """Return a run's table for `--json` of `chronoscale bench` or `train`: each row with where its epoch's time goes, where that is known.

    parts: as `breakdown_table` returns it.
    """
    keys = [name for name in ("stage", "strategy", "ranks") if name in table and name in parts]
    known = {tuple(row[key] for key in keys): {part: row[part] for part in PARTS if part in row} for row in parts.to_dict("records")}
    breakdowns = [known.get(key) for key in zip(*(table[key] for key in keys), strict=True)] if keys else [None] * len(table)
    return table.assign(breakdown=pd.Series(breakdowns, index=table.index, dtype=object))
