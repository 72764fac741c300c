"""Tables: the numbers of a section, one DataFrame each. Values are as the metrics give them; formatting is in `formats`."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, NamedTuple, Protocol

import pandas as pd

from chronoscale.datasets.scores import SCORES, present
from chronoscale.reports.breakdown import PARTS, Breakdown
from chronoscale.reports.formats import Marked
from chronoscale.reports.marks import marks
from chronoscale.reports.measured import EXTRAPOLATED, Band, Measured
from chronoscale.reports.section import Section
from chronoscale.reports.sensitivity import assumptions
from chronoscale.strategies.evaluation.metrics import parallel_efficiency
from chronoscale.strategies.evaluation.ranking import StrategyPair, compare_pairs, rank_correlation
from chronoscale.strategies.schedule import Op

NAN = float("nan")
HEARD = {"sources": "durations"}
MEASURED = ("measured_ms", "spread_pct", "measured_ratio", "pair_spread", *SCORES)  # no prediction, also where others of a row are
ENDURED = ("training_s", "training_low_s", "training_high_s", "training_lost_s", "failures", "ended")
BANDS = ("epoch_low_s", "epoch_high_s", "speedup_low", "speedup_high")
RARE = (
    "rests_on",
    *BANDS,
    *ENDURED,
    "prepare_s",
    "gap",
    "host_bytes",
    "failed",
    "busiest_link",
)  # columns of families and strategies that have them


class Timed(Protocol):
    """Seconds of an epoch, and their spread."""

    @property
    def epoch_s(self) -> float: ...

    @property
    def spread_s(self) -> float: ...


def speedup(ours: Timed, theirs: Timed) -> tuple[float, float]:
    """How many times as fast as `theirs`, and the spread of that ratio: relative spreads added in quadrature."""
    if not (ours.epoch_s > 0 and theirs.epoch_s > 0):
        return NAN, NAN
    ratio = theirs.epoch_s / ours.epoch_s
    return ratio, 0.0 if ours is theirs else ratio * math.hypot(ours.spread_s / ours.epoch_s, theirs.spread_s / theirs.epoch_s)


def efficiency(curve: list[Measured]) -> dict[int, float]:
    """Parallel efficiency by rank count of one curve; NaN for an epoch of no length."""
    times = {run.ranks: run.summary.epoch_s for run in curve}
    known = parallel_efficiency({ranks: seconds for ranks, seconds in times.items() if seconds > 0})
    return {ranks: known.get(ranks, NAN) for ranks in times}


def _origin(section: Section, run: str) -> dict[str, str]:
    """What tells rows of one section from another's, wherever they are read."""
    setting = section.setting
    return {"run": run, "kind": setting.kind, "dataset": setting.fact("dataset"), "model": setting.fact("model"), **dict(section.apart)}


def _endured(run: Measured) -> tuple[float | str, ...]:
    """In the order of ENDURED."""
    found = run.endured
    return (NAN,) * 5 + ("",) if found is None else (found.training_s, found.low_s, found.high_s, found.lost_s, found.failures, found.told)


def comparison(section: Section) -> pd.DataFrame:
    """One row a result, ordered by ranks, strategy, run.

    speedup: over the section's baseline on the same ranks, NaN where it did not run. parallel_efficiency: against the curve's smallest run.
    Both NaN for a result that `failed`. rests_on: `marks`; epoch_low_s to speedup_high: `Band` of the draws; training_s to ended: of
    `endured`; prepare_s, scores, gap, host_bytes, busiest_link, failed: as in `Measured`. These are columns where any is known.
    Seconds and bytes as in `Summary`; efficiency and utilisation are shares of 1.
    """
    rows, shown = [], present(run.scores for run in section.runs)
    shares = {label: efficiency(section.curve(label)) for label in section.labels}
    for ranks, runs in section.by_ranks().items():
        for run in runs:
            base = None if run.failed else section.base(run)
            ratio, ratio_spread = speedup(run.summary, base.summary) if base else (NAN, NAN)
            found, faster = run.summary, run.faster(base) if base else Band()
            rows.append(
                {
                    "strategy": run.strategy,
                    "ranks": ranks,
                    **_origin(section, run.run),
                    "failed": run.failed,
                    "rests_on": marks(run),
                    "epoch_s": found.epoch_s,
                    "epoch_low_s": run.band.low,
                    "epoch_high_s": run.band.high,
                    "spread_s": found.spread_s if found.repeats > 1 else NAN,
                    "repeats": found.repeats,
                    "speedup": ratio,
                    "speedup_low": faster.low,
                    "speedup_high": faster.high,
                    "speedup_spread": ratio_spread if found.repeats > 1 and run is not base else NAN,
                    "parallel_efficiency": NAN if run.failed else shares[section.label(run)][ranks],
                    "prepare_s": run.prepare_s,
                    **dict(zip(ENDURED, _endured(run), strict=True)),
                    **{one.key: run.scores.get(one.key, NAN) for one in shown},
                    "gap": run.gap,
                    "imbalance": found.imbalance,
                    "utilisation": found.utilisation,
                    "h2d_bytes": found.h2d_bytes,
                    "host_bytes": run.host_bytes,
                    "collective_s": found.collective_s,
                    "busiest_link": run.busiest_link,
                    "sources": found.sources,
                    "device": found.device,
                }
            )
    table = pd.DataFrame(rows)
    unknown = [name for name in RARE if name in table and (table[name].isna() | (table[name] == 0) | (table[name] == "")).all()]
    return table.drop(columns=[*unknown, *(one.key for one in shown if table[one.key].isna().all())])


def time_by_op(section: Section) -> pd.DataFrame:
    """Seconds in each operation, summed over ranks; one row a result, a column an operation, 0 where it does not occur."""
    ops = [op.name for op in Op if any(op.name in run.op_seconds.index for run in section.runs)]
    rows = [
        {"strategy": run.strategy, "ranks": ranks, **_origin(section, run.run), "sources": run.summary.sources}
        | {op: float(run.op_seconds.get(op, 0.0)) for op in ops}
        for ranks, runs in section.by_ranks().items()
        for run in runs
    ]
    return pd.DataFrame(rows)


def breakdown(section: Section) -> pd.DataFrame:
    """What epochs are made of, one row a result or stage of training: seconds of a rank in each part, and their shares of the epoch, of 1;
    0 where a part does not occur."""
    rows: list[tuple[dict[str, Any], Breakdown]] = [
        ({"strategy": run.strategy, "ranks": ranks, **_origin(section, run.run), "sources": run.summary.sources}, run.breakdown)
        for ranks, runs in section.by_ranks().items()
        for run in runs
        if run.op_seconds.sum() > 0
    ]
    for run in section.staged:
        for stage, found in run.breakdowns.items():
            whose = {"strategy": run.stages[stage][-1].strategy, "ranks": run.ranks, **_origin(section, run.name), "stage": stage}
            rows.append((whose, found))
    shown = [part for part in PARTS if any(part in found.seconds for _, found in rows)]
    return pd.DataFrame(
        [
            {**whose, "epoch_s": found.epoch_s}
            | {f"{part}_s": found.seconds.get(part, 0.0) for part in shown}
            | {part: found.share(part) for part in shown}
            for whose, found in rows
        ]
    )


def fidelity(section: Section) -> pd.DataFrame:
    """Predictions against what was measured, under one another: the frames of `fidelity.fidelity`, whose they are in front."""
    frames = []
    for runs in section.by_ranks().values():
        for run in runs:
            if run.prediction is not None:
                whose: dict[str, Any] = {"strategy": run.strategy, "ranks": run.ranks, **_origin(section, run.run)}
                frames.append(run.prediction.frame.assign(**whose, costs=run.prediction.costs, sources=run.prediction.sources))
    if not frames:
        return pd.DataFrame()
    table = pd.concat(frames, ignore_index=True)
    front = ["strategy", "ranks", *_origin(section, "")]
    return table[front + [name for name in table.columns if name not in front]]


def predicted(section: Section) -> dict[tuple[str, int], list[Measured]]:
    """Sound results that were replayed, by run and number of ranks: what a run measured in turn compares best."""
    found: dict[tuple[str, int], list[Measured]] = {}
    for ranks, runs in section.by_ranks(section.sound).items():
        for run in runs:
            if run.prediction is not None:
                found.setdefault((run.run, ranks), []).append(run)
    return found


def order(section: Section) -> pd.DataFrame:
    """Each pair of strategies that one run has measured and predicted: which is faster, by how much, and whether the prediction agrees
    (`ranking.Pair`); kendall_tau: over all strategies on as many ranks. No rows where there are no two."""
    rows: list[dict[str, Any]] = []
    for (name, ranks), runs in predicted(section).items():
        ranked = [run.ranked for run in runs if run.ranked is not None]
        whose = {"ranks": ranks, **_origin(section, name), "kendall_tau": rank_correlation(ranked)}
        rows += [{"faster": pair.faster, "slower": pair.slower, **whose, **_ratios(pair)} for pair in compare_pairs(ranked)]
    return pd.DataFrame(rows)


def _ratios(pair: StrategyPair) -> dict[str, Any]:
    return {"measured_ratio": pair.measured, "pair_spread": pair.spread, "predicted_ratio": pair.predicted, "order": pair.order}


def coverage(section: Section) -> pd.DataFrame:
    """What predictions and measurements were compared on (`fidelity.Coverage`), one row a result."""
    rows = []
    for (name, ranks), runs in predicted(section).items():
        for run in runs:
            if (prediction := run.prediction) is not None:
                found = asdict(prediction.coverage)
                texts = {key: ", ".join(value) if isinstance(value, tuple) else value for key, value in found.items()}
                rows.append({"strategy": run.strategy, "ranks": ranks, **_origin(section, name), **texts})
    table = pd.DataFrame(rows)
    return table.drop(columns=[key for key in ("unmeasured", "unpredicted", "unsampled") if key in table and (table[key] == "").all()])


def stages(section: Section) -> pd.DataFrame:
    """The tables of training runs under one another, the run in front."""
    frames = [frame.assign(**_origin(section, run.name), ranks=run.ranks) for run in section.staged if len(frame := run.table())]
    if not frames:
        return pd.DataFrame()
    table = pd.concat(frames, ignore_index=True)
    front = [*_origin(section, ""), "ranks"]
    return table[front + [name for name in table.columns if name not in front]]


def tested(section: Section) -> pd.DataFrame:
    """Scores of tests: a trained model's, and beside it those of the naive ways that its run has tested. tested_epoch:
    whose model was."""
    shown = present(found for run in section.staged for found in run.tested.values())
    rows = [
        {
            **_origin(section, run.name),
            "ranks": run.ranks,
            "tested_epoch": run.tested_epoch,
            "predictor": name,
            **{one.key: found.get(one.key, NAN) for one in shown},
        }
        for run in section.staged
        for name, found in run.tested.items()
    ]
    return pd.DataFrame(rows)


def links(section: Section) -> pd.DataFrame:
    """One row a link, the busiest ones of each result on the most ranks: bytes that crossed it, and its mean use (of 1)."""
    most = max((run.ranks for run in section.runs), default=0)
    rows = []
    for run in section.runs:
        if run.ranks == most:
            named = {"strategy": run.strategy, "ranks": run.ranks, **_origin(section, run.run)}
            rows += [named | {"link": one.link, "link_bytes": one.bytes, "mean_use": one.utilisation} for one in run.links]
    return pd.DataFrame(rows)


TABLES = {
    "comparison": comparison,
    "assumptions": assumptions,
    "links": links,
    "time_by_op": time_by_op,
    "breakdown": breakdown,
    "fidelity": fidelity,
    "order": order,
    "coverage": coverage,
    "stages": stages,
    "errors": tested,
}


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Every table that has rows, by name."""
    found = {name: make(section) for name, make in TABLES.items()}
    return {name: table for name, table in found.items() if len(table)}


class Reading(NamedTuple):
    """A table as a reader wants it: the columns that tell its rows apart, and in words what is the same in all of them. marked: numbers
    that rest on extrapolated durations."""

    table: pd.DataFrame
    same: str
    marked: Marked


def reading(section: Section, table: pd.DataFrame) -> Reading:
    """Columns of text, and the repeats, that are the same in several rows are said once; what the section's title says is not repeated."""
    weak = [EXTRAPOLATED in str(value) for value in table["sources"]] if "sources" in table else []
    texts = [str(name) for name in table.columns if not pd.api.types.is_numeric_dtype(table[name]) or name == "repeats"]
    kept = {"strategy", "op", "assumption", "link", "rests_on", "faster", "slower", *(["sources"] if any(weak) else [])}
    known = {"kind", "dataset", "model", "device", *(name for name, _ in section.apart)}
    same = [name for name in texts if name not in kept and table[name].nunique(dropna=False) == 1]
    alike = [name for name in same if len(table) > 1 or name in known]
    said = [f"{HEARD.get(name, name)} {table[name].iloc[0]}" for name in alike if name not in known and table[name].iloc[0] != ""]
    numbers = [str(name) for name in table.columns if pd.api.types.is_float_dtype(table[name]) and name not in MEASURED]
    marked = frozenset(
        (row, name) for row, is_weak in enumerate(weak) for name in numbers if is_weak and not pd.isna(table[name].iloc[row])
    )
    spare = [f"{part}_s" for part in PARTS if part in table]  # what their shares of the epoch say
    empty = [str(name) for name in table.columns if table[name].isna().all()]
    shown = table.drop(columns=list(dict.fromkeys([*alike, *empty, *spare])))
    return Reading(shown, f"In all rows: {', '.join(said)}." if said else "", marked)
