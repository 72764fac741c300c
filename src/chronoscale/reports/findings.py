"""Findings: what the numbers of a section say, in sentences, and what they do not carry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from chronoscale.reports.formats import around, number, seconds
from chronoscale.reports.marks import REPEATS, idle
from chronoscale.reports.measured import EXTRAPOLATED, Measured
from chronoscale.reports.report import Report
from chronoscale.reports.section import Section
from chronoscale.reports.tables import predicted, speedup
from chronoscale.strategies.evaluation.ranking import compare_pairs, rank_correlation

WIDE = 0.1  # relative spread from which a measurement is unstable
TIE = 0.01  # of the epoch: what is closer is a tie, however small the spread

ORIGIN = {
    "measured": "measured durations",
    "fitted": "durations fitted to a profile",
    "specified": "durations from a datasheet",
    "published": "published durations",
    EXTRAPOLATED: "durations extrapolated beyond a profile",
}


class Epoch(NamedTuple):
    """A strategy's epoch on so many ranks; of several runs the middle, and a spread that holds them all. idle: ranks without work, in
    words."""

    strategy: str
    epoch_s: float
    spread_s: float
    idle: str = ""

    def __str__(self) -> str:
        return seconds(self.epoch_s, self.spread_s)


@dataclass(frozen=True, slots=True)
class Answer:
    """Which strategies lead on `ranks` ranks, in the section's order: one is fastest, several tie.

    how: the rest of the sentence, without its full stop. ratio: of the slowest leader over the baseline; NaN without one, or where it
    leads. alone: nothing to compare with.
    """

    ranks: int
    leaders: tuple[str, ...]
    how: str
    ratio: float
    alone: bool = False

    @property
    def names(self) -> str:
        return _and(self.leaders)


def origin(sources: str) -> str:
    """Words for `Summary.sources`."""
    return " and ".join(ORIGIN.get(source, source) for source in sources.split(", ") if source) or "durations of unknown origin"


def evidence(runs: Sequence[Measured]) -> str:
    """What statements about these results of one section stand on: executed or simulated, where, from which durations."""
    if not runs:
        return ""
    device = max(runs, key=lambda run: run.ranks).summary.device.removeprefix("simulated ")
    if runs[0].kind == "simulated":
        sources = dict.fromkeys(source for run in runs for source in run.summary.sources.split(", ") if source)
        return f"Simulated with {origin(', '.join(sources))}: {device}."
    repeats = sorted({run.summary.repeats for run in runs})
    count = f"{repeats[0]}" if len(repeats) == 1 else f"{repeats[0]} to {repeats[-1]}"
    return f"Executed on {device}, {count} repeat{'s' * (repeats != [1])}."


def basis(section: Section, others: Sequence[Section]) -> str:
    """What a claim about a simulation stands on, said in the same sentence: its fidelity, as far as the same work was executed and replayed
    with the same costs; '' for what was executed."""
    if section.kind == "executed":
        return ""
    weak = ", durations extrapolated" if any(run.extrapolated for run in section.sound) else ""
    same = [other for other in others if other.kind == "executed" and other.setting.work == section.setting.work]
    known = [run for other in same for run in other.sound if run.prediction and run.prediction.costs == section.setting.fact("costs")]
    errors = [run.prediction.error_pct for run in known if run.prediction and math.isfinite(run.prediction.error_pct)]
    if not errors:
        return f"simulated{weak}, not validated"
    low, high = (f"{end:+.1f}".replace("-", "−") for end in (min(errors), max(errors)))
    off = f"{low} %" if low == high else f"{low} to {high} %"
    return f"simulated{weak}, validated: epochs {off} off those executed on {_counts([run.ranks for run in known])}"


def answers(section: Section) -> list[Answer]:
    """One a rank count, ascending, of what did not fail."""
    return [_answer(section, ranks, _epochs(runs)) for ranks, runs in section.by_ranks(section.sound).items()]


def _epochs(runs: Sequence[Measured]) -> list[Epoch]:
    found = []
    for name in dict.fromkeys(run.strategy for run in runs):
        same, most = [run.summary for run in runs if run.strategy == name], max(run.idle for run in runs if run.strategy == name)
        low, high = min(one.epoch_s - one.spread_s for one in same), max(one.epoch_s + one.spread_s for one in same)
        alone = same[0] if len(same) == 1 else None
        middle, spread = (alone.epoch_s, alone.spread_s) if alone else ((low + high) / 2, (high - low) / 2)
        found.append(Epoch(name, middle, spread, idle(same[0].ranks, most)))
    return found


def _tied(best: Epoch, other: Epoch) -> bool:
    return other.epoch_s - best.epoch_s <= max(best.spread_s + other.spread_s, TIE * best.epoch_s)


def _answer(section: Section, ranks: int, found: list[Epoch]) -> Answer:
    best = min(found, key=lambda one: one.epoch_s)
    leaders = [one for one in found if _tied(best, one)]
    names = tuple(one.strategy for one in leaders)
    base = next((one for one in found if one.strategy == section.baseline and one not in leaders), None)
    without = "".join(f"; {one.idle} under {one.strategy}" for one in found if one.idle and (one in leaders or one is base))
    if len(found) == 1:
        return Answer(ranks, names, f"takes {best} an epoch; nothing to compare with{without}", float("nan"), alone=True)
    slowest = max(leaders, key=lambda one: one.epoch_s)
    ratio, margin = speedup(slowest, base) if base else (float("nan"), 0.0)
    how = f"is fastest: {best} an epoch" if len(leaders) == 1 else f"tie: {_and([str(one) for one in leaders])} an epoch"
    if base is not None:
        how += f", {around(ratio, margin)} times as fast as {base.strategy} ({base})"
    elif len(leaders) == 1:
        following = min((one for one in found if one is not best), key=lambda one: one.epoch_s)
        how += f", {around(*speedup(best, following))} times as fast as the next, {following.strategy} ({following})"
    return Answer(ranks, names, how + without, ratio)


def sentence(answer: Answer, stands_on: str) -> str:
    """An answer's words after its leaders' names."""
    return f"{answer.how} ({stands_on})." if stands_on else f"{answer.how}."


def headline(section: Section, stands_on: str) -> str:
    """One sentence over a section: where it was found, who is fastest or ties on which ranks, and what the claim stands on; '' for none."""
    found = answers(section)
    if not found:
        return ""
    if len(found) == 1:
        claim = f"on {_counts([found[0].ranks])}, {found[0].names} {found[0].how}"
    elif all(answer.alone for answer in found) and len({answer.leaders for answer in found}) == 1:
        claim = f"{found[0].names} has nothing to compare with"
    else:
        spans = [(one, list(part)) for one, part in groupby(found, key=lambda answer: (answer.names, _verb(answer)))]
        verbs = ["", *(verb for (_, verb), _ in spans)]
        said = [f"{name}{f' {verb}' * (verb != before)} {_ranks(part)}" for before, ((name, verb), part) in zip(verbs, spans, strict=False)]
        ratios = [answer.ratio for answer in found]
        wins = all(ratio > 1 for ratio in ratios)  # NaN is no win
        ends = list(dict.fromkeys(number(end, 3) for end in (min(ratios), max(ratios)))) if wins else []
        claim = ", ".join(said) + (f", {' to '.join(ends)} times as fast as {section.baseline}" if ends else "")
    return f"{section.title}: {claim} ({stands_on})." if stands_on else f"{section.title}: {claim}."


def _verb(answer: Answer) -> str:
    return "runs alone" if answer.alone else "is fastest" if len(answer.leaders) == 1 else "tie"


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _ranks(part: list[Answer]) -> str:
    return f"on {_counts([part[0].ranks])}" if len(part) == 1 else f"from {part[0].ranks} to {part[-1].ranks} ranks"


def ordered(section: Section) -> str:
    """How many pairs of strategies were predicted in the order that they were measured in; '' where no two were predicted."""
    said = []
    for (name, ranks), runs in predicted(section).items():
        ranked = [run.ranked for run in runs if run.ranked is not None]
        if found := compare_pairs(ranked):
            whose = f"{name}, {_counts([ranks])}" if len({run for run, _ in predicted(section)}) > 1 else _counts([ranks])
            decided = [pair for pair in found if pair.order in ("right", "wrong")]
            right, tau = sum(pair.order == "right" for pair in decided), number(rank_correlation(ranked), 2)
            alike = sum(pair.order == "predicted alike" for pair in found)
            left = f", {rest} not told apart by the repeats" if (rest := len(found) - len(decided) - alike) else ""
            left += f", {alike} predicted alike" if alike else ""
            said.append(f"on {whose} {right} of {len(decided)} pairs right{left} (Kendall’s τ {tau})")
    return f"Order of strategies: {'; '.join(said)}." if said else ""


def cautions(report: Report) -> list[str]:
    """The report's notes, and what its own numbers warn of, section by section."""
    found = list(report.notes)
    for section in report.sections:
        front = f"{section.title}: " if len(report.sections) > 1 else ""
        found += [f"{front}{said}" for said in _cautions(section)]
    return found


def _cautions(section: Section) -> list[str]:
    """Results that are not compared, few repeats, wide spread, durations that nothing on hand confirms."""
    found = [f"Not compared, {run.failed}: {section.label(run)} on {_counts([run.ranks])}." for run in section.runs if run.failed]
    found += [f"Not compared, {run.failed}: {run.name}." for run in section.staged if run.failed]
    few = [run for run in section.runs if run.kind == "executed" and run.summary.repeats < REPEATS]
    if few:
        found.append(f"Fewer than {REPEATS} repeats: {_names(section, few)}.")
    wide = [run for run in section.runs if run.summary.epoch_s > 0 and run.summary.spread_s >= WIDE * run.summary.epoch_s]
    if wide:
        found.append(f"Spread of {WIDE:.0%} or more of the epoch: {_names(section, wide)}.")
    simulated = [run for run in section.runs if run.kind == "simulated"]
    for word in ("specified", "published", EXTRAPOLATED):
        runs = [run for run in simulated if word in run.summary.sources]
        if runs:
            which = "all simulated figures" if len(runs) == len(simulated) else f"the simulated figures of {_names(section, runs)}"
            found.append(f"{ORIGIN[word].capitalize()}: {which}.")
    for (_, ranks), joined in predicted(section).items():
        ranked = [run.ranked for run in joined if run.ranked is not None]
        for pair in (pair for pair in compare_pairs(ranked) if pair.order == "wrong"):
            found.append(
                f"Predicted in the wrong order on {_counts([ranks])}: {pair.slower} takes {pair.measured:.3f} times as long as "
                f"{pair.faster}, predicted {pair.predicted:.3f} times."
            )
        covered = [(section.label(run), run.prediction.coverage) for run in joined if run.prediction is not None]
        found += [f"{label} on {_counts([ranks])}: {known}." for label, known in covered if not known.whole]
    without = [run for run in section.runs if run.summary.imbalance == float("inf")]
    if without:
        found.append(f"At least one rank has no work (imbalance ∞): {_names(section, without)}.")
    return found


def _names(section: Section, runs: list[Measured]) -> str:
    by_label: dict[str, list[int]] = {}
    for run in runs:
        by_label.setdefault(section.label(run), []).append(run.ranks)
    same = len({tuple(ranks) for ranks in by_label.values()}) == 1
    said = [", ".join(by_label)] if same else list(by_label)
    return "; ".join(f"{name} on {_counts(ranks)}" for name, ranks in zip(said, by_label.values(), strict=False))


def _counts(ranks: Sequence[int]) -> str:
    known = sorted(set(ranks))
    return f"{', '.join(map(str, known))} rank{'s' * (known != [1])}"
