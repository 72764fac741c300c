"""Findings: what the numbers say, in sentences, and what they do not carry."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from chronoscale.reports.formats import around, number, seconds
from chronoscale.reports.report import Measured, Report, Setting
from chronoscale.reports.tables import speedup

REPEATS = 5  # the fewest that make a measured figure
WIDE = 0.1  # relative spread from which a measurement is unstable

ORIGIN = {
    "measured": "measured durations",
    "fitted": "durations fitted to a profile",
    "specified": "durations from a datasheet",
    "published": "published durations",
    "extrapolated": "durations extrapolated beyond a profile",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """Which strategy is fastest on `ranks` ranks: '`fastest` `how`'. `ratio`: over the baseline, or NaN. `clear`: beyond the spread."""

    setting: Setting
    ranks: int
    fastest: str
    how: str
    ratio: float
    clear: bool


def origin(sources: str) -> str:
    """Words for `Summary.sources`."""
    return " and ".join(ORIGIN.get(source, source) for source in sources.split(", ") if source) or "durations of unknown origin"


def evidence(runs: list[Measured]) -> str:
    """What statements about these runs stand on, a sentence a setting: executed or simulated, where, from which durations."""
    said = []
    for setting in dict.fromkeys(run.setting for run in runs):
        here = [run for run in runs if run.setting == setting]
        device = max(here, key=lambda run: run.ranks).summary.device.removeprefix("simulated ")
        if setting.kind == "simulated":
            sources = dict.fromkeys(source for run in here for source in run.summary.sources.split(", ") if source)
            said.append(f"Simulated with {origin(', '.join(sources))}: {device}.")
        else:
            repeats = sorted({run.summary.repeats for run in here})
            count = f"{repeats[0]}" if len(repeats) == 1 else f"{repeats[0]} to {repeats[-1]}"
            said.append(f"Executed on {device}, {count} repeat{'s' * (repeats != [1])}.")
    return " ".join(said)


def _epoch(run: Measured) -> str:
    return seconds(run.summary.epoch_s, run.summary.spread_s)


def _answer(report: Report, setting: Setting, ranks: int, runs: list[Measured]) -> Answer:
    ordered = sorted(runs, key=lambda run: run.summary.epoch_s)
    best, rest = ordered[0], ordered[1:]
    base = next((run for run in runs if run.strategy == report.baseline), None)
    ratio, margin = speedup(best, base) if base else (float("nan"), 0.0)
    if not rest:
        return Answer(setting, ranks, best.strategy, f"takes {_epoch(best)} an epoch; nothing to compare with.", ratio, False)
    next_best = rest[0]
    if next_best.summary.epoch_s - best.summary.epoch_s <= best.summary.spread_s + next_best.summary.spread_s:
        how = f"and {next_best.strategy} cannot be told apart: {_epoch(best)} and {_epoch(next_best)} an epoch."
        return Answer(setting, ranks, best.strategy, how, ratio, False)
    how = f"is fastest: {_epoch(best)} an epoch"
    if base is not None and best is not base:
        how += f", {around(ratio, margin)} times as fast as {base.strategy} ({_epoch(base)})."
    else:
        how += f", {around(*speedup(best, next_best))} times as fast as the next, {next_best.strategy} ({_epoch(next_best)})."
    return Answer(setting, ranks, best.strategy, how, ratio, True)


def answers(report: Report) -> list[Answer]:
    """One a setting and rank count, ascending."""
    return [_answer(report, setting, ranks, runs) for setting in report.settings for ranks, runs in report.within(setting).items()]


def headline(found: list[Answer], baseline: str) -> str:
    """One sentence over the answers of one setting; '' when they are too few to need one or say too little for one."""
    if len(found) < 2 or not all(answer.clear for answer in found):
        return ""
    spans = [(name, list(part)) for name, part in groupby(found, key=lambda answer: answer.fastest)]
    if len(spans) > 1:
        said = [f"{name}{' is fastest' * (not i)} {_ranks(part)}" for i, (name, part) in enumerate(spans)]
        return ", ".join(said) + "."
    ratios = [answer.ratio for answer in found if answer.ratio == answer.ratio and answer.ratio > 1]
    gain = f", {number(min(ratios), 3)} to {number(max(ratios), 3)} times as fast as {baseline}" if ratios else ""
    return f"{spans[0][0]} is fastest {_ranks(found)}{gain}."


def _ranks(part: list[Answer]) -> str:
    return f"on {part[0].ranks} rank{'s' * (part[0].ranks != 1)}" if len(part) == 1 else f"from {part[0].ranks} to {part[-1].ranks} ranks"


def cautions(report: Report) -> list[str]:
    """The report's notes, and what its own numbers warn of: few repeats, wide spread, durations that nothing on hand confirms."""
    found = list(report.notes)
    few = [run for run in report.runs if run.kind == "executed" and run.summary.repeats < REPEATS]
    if few:
        found.append(f"Fewer than {REPEATS} repeats: {_names(few)}.")
    wide = [run for run in report.runs if run.summary.epoch_s > 0 and run.summary.spread_s >= WIDE * run.summary.epoch_s]
    if wide:
        found.append(f"Spread of {WIDE:.0%} or more of the epoch: {_names(wide)}.")
    simulated = [run for run in report.runs if run.kind == "simulated"]
    for word in ("specified", "published", "extrapolated"):
        runs = [run for run in simulated if word in run.summary.sources]
        if runs:
            which = "all simulated figures" if len(runs) == len(simulated) else f"the simulated figures of {_names(runs)}"
            found.append(f"{ORIGIN[word].capitalize()}: {which}.")
    idle = [run for run in report.runs if run.summary.imbalance == float("inf")]
    if idle:
        found.append(f"At least one rank has no work (imbalance ∞): {_names(idle)}.")
    return found


def _names(runs: list[Measured]) -> str:
    by_strategy: dict[str, list[int]] = {}
    for run in runs:
        by_strategy.setdefault(run.strategy, []).append(run.ranks)
    same = len({tuple(ranks) for ranks in by_strategy.values()}) == 1
    said = [", ".join(by_strategy)] if same else list(by_strategy)
    return "; ".join(f"{name} on {_counts(ranks)}" for name, ranks in zip(said, by_strategy.values(), strict=False))


def _counts(ranks: list[int]) -> str:
    known = sorted(set(ranks))
    return f"{', '.join(map(str, known))} rank{'s' * (known != [1])}"
