"""Tables of a section's numbers, one DataFrame each. Values are as metrics give them; `table_formats` rounds them for readers."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, Protocol

import pandas as pd

from chronoscale.datasets.scores import scores_present
from chronoscale.reports.breakdown import PARTS, Breakdown
from chronoscale.reports.conclusions import conclusions
from chronoscale.reports.horizon import horizon_table
from chronoscale.reports.limitations import limitations
from chronoscale.reports.section import Section
from chronoscale.reports.sensitivity import assumptions
from chronoscale.reports.strategy_result import Band, StrategyResult
from chronoscale.strategies.evaluation.metrics import parallel_efficiency
from chronoscale.strategies.evaluation.ranking import StrategyPair, compare_pairs, rank_correlation
from chronoscale.strategies.schedule import Op

NAN = float("nan")
FAILURE_COLUMNS = ("training_s", "training_low_s", "training_high_s", "training_lost_s", "failures", "ended")
BANDS = ("epoch_low_s", "epoch_high_s", "speedup_low", "speedup_high")
RARE = (
    "rests_on",
    *BANDS,
    *FAILURE_COLUMNS,
    "prepare_s",
    "gap",
    "steps",
    "targets",
    "target_us",
    "peak_bytes",
    "host_bytes",
    "failed",
    "busiest_link",
)  # columns of families and strategies that have them


class Timed(Protocol):
    """Anything with the seconds of an epoch, and their spread."""

    @property
    def epoch_s(self) -> float: ...

    @property
    def spread_s(self) -> float: ...


def speedup(ours: Timed, theirs: Timed) -> tuple[float, float]:
    """Return the speed-up of ours over `theirs` that a report prints, and the spread of that ratio: relative spreads added in quadrature.

    NaN for epochs of no length.
    """
    if not (ours.epoch_s > 0 and theirs.epoch_s > 0):
        return NAN, NAN
    ratio = theirs.epoch_s / ours.epoch_s
    return ratio, 0.0 if ours is theirs else ratio * math.hypot(ours.spread_s / ours.epoch_s, theirs.spread_s / theirs.epoch_s)


def efficiency(curve: list[StrategyResult]) -> dict[int, float]:
    """Return the parallel efficiency of one strategy's results by number of ranks, of 1, for a report's table and chart.

    curve: results, ranks ascending, relative to the smallest. NaN for an epoch of no length.
    """
    times = {run.ranks: run.summary.epoch_s for run in curve}
    efficiencies = parallel_efficiency({ranks: seconds for ranks, seconds in times.items() if seconds > 0})
    return {ranks: efficiencies.get(ranks, NAN) for ranks in times}


def _origin_columns(section: Section, run: str) -> dict[str, str]:
    """Return the columns that tell rows of one section from another's, wherever they are read."""
    setting = section.setting
    return {
        "run": run,
        "kind": setting.kind,
        "dataset": setting.fact("dataset"),
        "model": setting.fact("model"),
        **dict(section.differences),
    }


def _failure_values(run: StrategyResult) -> tuple[float | str, ...]:
    """Return the values of FAILURE_COLUMNS, in their order."""
    summary = run.failure_summary
    if summary is None:
        return (NAN,) * 5 + ("",)
    return summary.training_s, summary.low_s, summary.high_s, summary.lost_s, summary.failures, summary.ending


def comparison(section: Section) -> pd.DataFrame:
    """Return a report's main table: one row a result, ordered by ranks, strategy, run.

    steps, targets, target_us: of the optimiser in an epoch, what they train on, and the epoch's microseconds for each of these.
    speedup: over the section's baseline on the same ranks, NaN where it did not run or trains otherwise. parallel_efficiency: against
    the curve's smallest run. Both NaN for a result that `failed`. rests_on: limitations; epoch_low_s to speedup_high: 5 % and 95 % of
    the draws; training_s to ended: of a training whose devices fail; prepare_s, scores, gap, host_bytes, busiest_link, failed: as in
    `StrategyResult`. These are columns where any is known. Seconds and bytes as in `Summary`; efficiency and utilisation are shares of
    1.
    """
    rows, scores = [], scores_present(run.scores for run in section.runs)
    shares = {label: efficiency(section.curve(label)) for label in section.labels}
    for ranks, runs in section.by_ranks().items():
        for run in runs:
            base = None if run.failed else section.base(run)
            ratio, ratio_spread = speedup(run.summary, base.summary) if base else (NAN, NAN)
            summary, faster = run.summary, run.speedup_band(base) if base else Band()
            rows.append(
                {
                    "strategy": run.strategy,
                    "ranks": ranks,
                    **_origin_columns(section, run.run),
                    "failed": run.failed,
                    "rests_on": limitations(run),
                    "epoch_s": summary.epoch_s,
                    "epoch_low_s": run.band.low,
                    "epoch_high_s": run.band.high,
                    "spread_s": summary.spread_s if summary.repeats > 1 else NAN,
                    "repeats": summary.repeats,
                    "steps": run.steps or NAN,
                    "targets": run.targets or NAN,
                    "target_us": run.target_us,
                    "speedup": ratio,
                    "speedup_low": faster.low,
                    "speedup_high": faster.high,
                    "speedup_spread": ratio_spread if summary.repeats > 1 and run is not base else NAN,
                    "parallel_efficiency": NAN if run.failed else shares[section.label(run)][ranks],
                    "prepare_s": run.prepare_s,
                    **dict(zip(FAILURE_COLUMNS, _failure_values(run), strict=True)),
                    **{score.key: run.scores.get(score.key, NAN) for score in scores},
                    "gap": run.gap,
                    "imbalance": summary.imbalance,
                    "utilisation": summary.utilisation,
                    "h2d_bytes": summary.h2d_bytes,
                    "peak_bytes": run.peak_bytes,
                    "host_bytes": run.host_bytes,
                    "collective_s": summary.collective_s,
                    "busiest_link": run.busiest_link,
                    "sources": summary.sources,
                    "device": summary.device,
                }
            )
    table = pd.DataFrame(rows)
    unknown = [name for name in RARE if name in table and (table[name].isna() | (table[name] == 0) | (table[name] == "")).all()]
    return table.drop(columns=[*unknown, *(score.key for score in scores if table[score.key].isna().all())])


def time_by_op(section: Section) -> pd.DataFrame:
    """Return a report's table of seconds in each operation, summed over ranks.

    One row a result, a column an operation, 0 where it does not occur.
    """
    ops = [op.name for op in Op if any(op.name in run.op_seconds.index for run in section.runs)]
    rows = [
        {"strategy": run.strategy, "ranks": ranks, **_origin_columns(section, run.run), "sources": run.summary.sources}
        | {op: float(run.op_seconds.get(op, 0.0)) for op in ops}
        for ranks, runs in section.by_ranks().items()
        for run in runs
    ]
    return pd.DataFrame(rows)


def breakdown(section: Section) -> pd.DataFrame:
    """Return a report's table of what epochs' time goes to (sampling, transfers, layers, ...), one row a result or stage of training.

    Mean seconds of a rank in each part, and their shares of the epoch (of 1); 0 where a part does not occur.
    """
    rows: list[tuple[dict[str, Any], Breakdown]] = [
        ({"strategy": run.strategy, "ranks": ranks, **_origin_columns(section, run.run), "sources": run.summary.sources}, run.breakdown)
        for ranks, runs in section.by_ranks().items()
        for run in runs
        if run.op_seconds.sum() > 0
    ]
    for run in section.staged:
        for stage, breakdown_ in run.breakdowns.items():
            origin = {"strategy": run.stages[stage][-1].strategy, "ranks": run.ranks, **_origin_columns(section, run.name), "stage": stage}
            rows.append((origin, breakdown_))
    parts = [part for part in PARTS if any(part in breakdown_.seconds for _, breakdown_ in rows)]
    return pd.DataFrame(
        [
            {**origin, "epoch_s": breakdown_.epoch_s}
            | {f"{part}_s": breakdown_.seconds.get(part, 0.0) for part in parts}
            | {part: breakdown_.share(part) for part in parts}
            for origin, breakdown_ in rows
        ]
    )


def fidelity(section: Section) -> pd.DataFrame:
    """Return a report's table of the simulator's predictions against what was measured, by operation, with strategy and run in front."""
    frames = []
    for runs in section.by_ranks().values():
        for run in runs:
            if run.prediction is not None:
                origin: dict[str, Any] = {"strategy": run.strategy, "ranks": run.ranks, **_origin_columns(section, run.run)}
                frames.append(run.prediction.frame.assign(**origin, costs=run.prediction.costs, sources=run.prediction.sources))
    if not frames:
        return pd.DataFrame()
    table = pd.concat(frames, ignore_index=True)
    front = ["strategy", "ranks", *_origin_columns(section, "")]
    return table[front + [name for name in table.columns if name not in front]]


def predicted_by_run(section: Section) -> dict[tuple[str, int], list[StrategyResult]]:
    """Return the results of a report's section that were executed and also replayed by the simulator, by run and number of ranks.

    What one run measured in turn compares best. Results that failed are left out.
    """
    by_run: dict[tuple[str, int], list[StrategyResult]] = {}
    for ranks, runs in section.by_ranks(section.comparable).items():
        for run in runs:
            if run.prediction is not None:
                by_run.setdefault((run.run, ranks), []).append(run)
    return by_run


def order(section: Section) -> pd.DataFrame:
    """Return a report's table of pairs of strategies: which is faster, by how much, and whether the simulator predicted so.

    Of pairs that one run has measured and predicted. kendall_tau: over all strategies on as many ranks. No rows where there are no two.
    """
    rows: list[dict[str, Any]] = []
    for (name, ranks), runs in predicted_by_run(section).items():
        ranked = [run.ranked for run in runs if run.ranked is not None]
        origin = {"ranks": ranks, **_origin_columns(section, name), "kendall_tau": rank_correlation(ranked)}
        rows += [{"faster": pair.faster, "slower": pair.slower, **origin, **_ratios(pair)} for pair in compare_pairs(ranked)]
    return pd.DataFrame(rows)


def _ratios(pair: StrategyPair) -> dict[str, Any]:
    return {"measured_ratio": pair.measured, "pair_spread": pair.spread, "predicted_ratio": pair.predicted, "order": pair.order}


def coverage(section: Section) -> pd.DataFrame:
    """Return a report's table of what the comparisons of predictions with measurements cover, one row a result."""
    rows = []
    for (name, ranks), runs in predicted_by_run(section).items():
        for run in runs:
            if (prediction := run.prediction) is not None:
                fields = asdict(prediction.coverage)
                texts = {key: ", ".join(value) if isinstance(value, tuple) else value for key, value in fields.items()}
                rows.append({"strategy": run.strategy, "ranks": ranks, **_origin_columns(section, name), **texts})
    table = pd.DataFrame(rows)
    return table.drop(columns=[key for key in ("unmeasured", "unpredicted", "unsampled") if key in table and (table[key] == "").all()])


def stages(section: Section) -> pd.DataFrame:
    """Return a report's table of the stages of its training runs, the run in front."""
    frames = [frame.assign(**_origin_columns(section, run.name), ranks=run.ranks) for run in section.staged if len(frame := run.table())]
    if not frames:
        return pd.DataFrame()
    table = pd.concat(frames, ignore_index=True)
    front = [*_origin_columns(section, ""), "ranks"]
    return table[front + [name for name in table.columns if name not in front]]


def test_scores(section: Section) -> pd.DataFrame:
    """Return a report's table of scores on the test period: a trained model's, and those of its rivals that its run has tested.

    tested_epoch: the epoch whose model was tested.
    """
    scores = scores_present(values for run in section.staged for values in run.tested.values())
    rows = [
        {
            **_origin_columns(section, run.name),
            "ranks": run.ranks,
            "tested_epoch": run.tested_epoch,
            "predictor": name,
            **{score.key: values.get(score.key, NAN) for score in scores},
        }
        for run in section.staged
        for name, values in run.tested.items()
    ]
    return pd.DataFrame(rows)


def horizon(section: Section) -> pd.DataFrame:
    """Return a report's table of forecasters' errors at each step ahead, of test and validation: a row a run and step."""
    frames = [
        horizon_table(run.horizon, run.rivals).assign(**_origin_columns(section, run.name), ranks=run.ranks) for run in section.staged
    ]
    table = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    front = [*_origin_columns(section, ""), "ranks"]
    return table[front + [name for name in table.columns if name not in front]] if len(table) else table


def links(section: Section) -> pd.DataFrame:
    """Return a report's table of the simulated network's busiest links, of each result on the most ranks.

    Bytes that crossed a link, and its mean use (of 1).
    """
    most = max((run.ranks for run in section.runs), default=0)
    rows = []
    for run in section.runs:
        if run.ranks == most:
            origin = {"strategy": run.strategy, "ranks": run.ranks, **_origin_columns(section, run.run)}
            rows += [origin | {"link": link.link, "link_bytes": link.bytes, "mean_use": link.utilisation} for link in run.links]
    return pd.DataFrame(rows)


TABLES = {
    "comparison": comparison,
    "conclusions": conclusions,
    "assumptions": assumptions,
    "links": links,
    "time_by_op": time_by_op,
    "breakdown": breakdown,
    "fidelity": fidelity,
    "order": order,
    "coverage": coverage,
    "stages": stages,
    "errors": test_scores,
    "horizon": horizon,
}


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Return every table of a report's section that has rows, by name."""
    by_name = {name: make(section) for name, make in TABLES.items()}
    return {name: table for name, table in by_name.items() if len(table)}
