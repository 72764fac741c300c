"""Tables: the numbers of a report, one DataFrame each. Values are as the metrics give them; formatting is in `formats`."""

from __future__ import annotations

import math

import pandas as pd

from chronoscale.reports.report import Measured, Report
from chronoscale.strategies.metrics import parallel_efficiency
from chronoscale.strategies.schedule import Op

NAN = float("nan")
RARE = ("prepare_s", "mae", "rmse", "mape", "gap", "host_bytes")  # columns of families and strategies that have them


def speedup(run: Measured, base: Measured) -> tuple[float, float]:
    """How many times as fast as `base`, and the spread of that ratio: relative spreads added in quadrature."""
    ours, theirs = run.summary, base.summary
    if not (ours.epoch_s > 0 and theirs.epoch_s > 0):
        return NAN, NAN
    ratio = theirs.epoch_s / ours.epoch_s
    return ratio, 0.0 if run is base else ratio * math.hypot(ours.spread_s / ours.epoch_s, theirs.spread_s / theirs.epoch_s)


def efficiency(curve: list[Measured]) -> dict[int, float]:
    """Parallel efficiency by rank count of one strategy in one setting; NaN for an epoch of no length."""
    times = {run.ranks: run.summary.epoch_s for run in curve}
    known = parallel_efficiency({ranks: seconds for ranks, seconds in times.items() if seconds > 0})
    return {ranks: known.get(ranks, NAN) for ranks in times}


def comparison(report: Report) -> pd.DataFrame:
    """One row a run, ordered by setting, ranks, strategy.

    speedup: over `report.baseline` on the same ranks in the same setting, NaN where it did not run. parallel_efficiency: against
    the strategy's smallest run in that setting. prepare_s, mae, rmse, mape, gap, host_bytes: as in `Measured`, columns where any is known.
    Seconds and bytes as in `Summary`; efficiency and utilisation are shares of 1.
    """
    rows = []
    for setting in report.settings:
        shares = {name: efficiency(report.curve(name, setting)) for name in report.strategies}
        for ranks, runs in report.within(setting).items():
            base = next((run for run in runs if run.strategy == report.baseline), None)
            for run in runs:
                ratio, ratio_spread = speedup(run, base) if base else (NAN, NAN)
                found = run.summary
                rows.append(
                    {
                        "strategy": run.strategy,
                        "ranks": ranks,
                        "kind": run.kind,
                        "epoch_s": found.epoch_s,
                        "spread_s": found.spread_s if found.repeats > 1 else NAN,
                        "repeats": found.repeats,
                        "speedup": ratio,
                        "speedup_spread": ratio_spread if found.repeats > 1 and run is not base else NAN,
                        "parallel_efficiency": shares[run.strategy][ranks],
                        "prepare_s": run.prepare_s,
                        "mae": run.mae,
                        "rmse": run.rmse,
                        "mape": run.mape,
                        "gap": run.gap,
                        "imbalance": found.imbalance,
                        "utilisation": found.utilisation,
                        "h2d_bytes": found.h2d_bytes,
                        "host_bytes": run.host_bytes,
                        "collective_s": found.collective_s,
                        "sources": found.sources,
                        "machine": setting.machine,
                        "device": found.device,
                    }
                )
    table = pd.DataFrame(rows)
    unknown = [name for name in RARE if name in table and (table[name].isna() | (table[name] == 0)).all()]
    return table.drop(columns=unknown)


def time_by_op(report: Report) -> pd.DataFrame:
    """Seconds in each operation, summed over ranks; one row a run, a column an operation, 0 where it does not occur."""
    ops = [op.name for op in Op if any(op.name in run.op_seconds.index for run in report.runs)]
    rows = [
        {"strategy": run.strategy, "ranks": ranks, "kind": run.kind, "machine": setting.machine}
        | {op: float(run.op_seconds.get(op, 0.0)) for op in ops}
        for setting in report.settings
        for ranks, runs in report.within(setting).items()
        for run in runs
    ]
    return pd.DataFrame(rows)


def fidelity(report: Report) -> pd.DataFrame:
    """The frames of `metrics.fidelity` under one another, with strategy and ranks in front."""
    frames = [frame.assign(strategy=strategy, ranks=ranks) for (strategy, ranks), frame in report.fidelity.items()]
    if not frames:
        return pd.DataFrame()
    table = pd.concat(frames, ignore_index=True)
    front = ["strategy", "ranks"]
    return table[front + [name for name in table.columns if name not in front]]


def stages(report: Report) -> pd.DataFrame:
    """The tables of training runs in stages under one another, the run in front."""
    frames = [run.table() for run in report.staged]
    frames = [frame.assign(run=run.name)[["run", *frame.columns]] for run, frame in zip(report.staged, frames, strict=True) if len(frame)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def tables(report: Report) -> dict[str, pd.DataFrame]:
    """Every table that has rows, by file name."""
    found = {"comparison": comparison(report), "time_by_op": time_by_op(report), "fidelity": fidelity(report), "stages": stages(report)}
    return {name: table for name, table in found.items() if len(table)}
