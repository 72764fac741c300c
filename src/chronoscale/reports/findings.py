"""Findings: sentences about the numbers of a section, and cautions about what the numbers cannot show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from chronoscale.reports.limitations import REPEATS, idle_ranks
from chronoscale.reports.numbers import around, number, seconds
from chronoscale.reports.report import Report
from chronoscale.reports.section import Section
from chronoscale.reports.strategy_result import EXTRAPOLATED, StrategyResult
from chronoscale.reports.tables import predicted_by_run, speedup
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


class EpochTime(NamedTuple):
    """Time of a strategy's epoch on one number of ranks, with its spread, as a report's sentences compare it.

    Of several runs it is the middle, with a spread that covers them all. idle: ranks without work, in words.
    """

    strategy: str
    epoch_s: float
    spread_s: float
    idle: str = ""

    def __str__(self) -> str:
        return seconds(self.epoch_s, self.spread_s)


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of a report to which strategies are fastest on `ranks` ranks: one leads, or several tie.

    leaders: their names, in the section's order. how: the sentence after the names, without its full stop. ratio: speed-up of the slowest
    leader over the baseline; NaN without one, or where it leads.
    among: the strategies that train alike, in the section's order, whose epochs alone are compared. others: there are results that train
    otherwise.
    """

    ranks: int
    leaders: tuple[str, ...]
    how: str
    ratio: float
    among: tuple[str, ...]
    others: bool = False

    @property
    def alone(self) -> bool:
        """Whether there is nothing to compare with."""
        return len(self.among) == 1

    @property
    def names(self) -> str:
        return _and(self.leaders)


def describe_sources(sources: str) -> str:
    """Return in words where the durations of a result come from, for sentences of a report.

    sources: names such as 'fitted, specified', with commas (`Summary.sources`).
    """
    return " and ".join(ORIGIN.get(source, source) for source in sources.split(", ") if source) or "durations of unknown origin"


def evidence(runs: Sequence[StrategyResult]) -> str:
    """Return the sentence of a report that says what its results rest on: executed or simulated, on what device, from which durations.

    runs: results of one section.
    """
    if not runs:
        return ""
    device = max(runs, key=lambda run: run.ranks).summary.device.removeprefix("simulated ")
    if runs[0].kind == "simulated":
        sources = dict.fromkeys(source for run in runs for source in run.summary.sources.split(", ") if source)
        return f"Simulated with {describe_sources(', '.join(sources))}: {device}."
    repeats = sorted({run.summary.repeats for run in runs})
    count = f"{repeats[0]}" if len(repeats) == 1 else f"{repeats[0]} to {repeats[-1]}"
    return f"Executed on {device}, {count} repeat{'s' * (repeats != [1])}."


def basis(section: Section, others: Sequence[Section]) -> str:
    """Return the clause of a report that says how far a simulated claim has been validated; '' for executions.

    Such as 'simulated, not validated'. It is validated as far as the same work was executed, and replayed with the same costs, in one of
    the report's `others`.
    """
    if section.kind == "executed":
        return ""
    extrapolated = ", durations extrapolated" if any(run.extrapolated for run in section.comparable) else ""
    executed = [other for other in others if other.kind == "executed" and other.setting.work == section.setting.work]
    validated = [
        run for other in executed for run in other.comparable if run.prediction and run.prediction.costs == section.setting.fact("costs")
    ]
    errors = [run.prediction.error_pct for run in validated if run.prediction and math.isfinite(run.prediction.error_pct)]
    if not errors:
        return f"simulated{extrapolated}, not validated"
    low, high = (f"{end:+.1f}".replace("-", "−") for end in (min(errors), max(errors)))
    off = f"{low} %" if low == high else f"{low} to {high} %"
    return f"simulated{extrapolated}, validated: epochs {off} off those executed on {_counts([run.ranks for run in validated])}"


def answers(section: Section) -> list[Answer]:
    """Return who is fastest in a report's section: an answer for each number of ranks, ascending, and each group of strategies that train
    alike; results that failed are left out."""
    all_answers = []
    for ranks, runs in section.by_ranks(section.comparable).items():
        groups = section.alike(runs)
        all_answers += [_answer(section, ranks, _epochs(group), others=len(groups) > 1) for group in groups]
    return all_answers


def _epochs(runs: Sequence[StrategyResult]) -> list[EpochTime]:
    """Return the epoch of each strategy on one rank count; several runs of one are merged."""
    epochs = []
    for name in dict.fromkeys(run.strategy for run in runs):
        summaries = [run.summary for run in runs if run.strategy == name]
        most_idle = max(run.idle_ranks for run in runs if run.strategy == name)
        low = min(summary.epoch_s - summary.spread_s for summary in summaries)
        high = max(summary.epoch_s + summary.spread_s for summary in summaries)
        single = summaries[0] if len(summaries) == 1 else None
        middle, spread = (single.epoch_s, single.spread_s) if single else ((low + high) / 2, (high - low) / 2)
        epochs.append(EpochTime(name, middle, spread, idle_ranks(summaries[0].ranks, most_idle)))
    return epochs


def _tied(best: EpochTime, other: EpochTime) -> bool:
    """Return whether two epochs differ by no more than their spreads, or by less than TIE."""
    return other.epoch_s - best.epoch_s <= max(best.spread_s + other.spread_s, TIE * best.epoch_s)


def _answer(section: Section, ranks: int, epochs: list[EpochTime], others: bool) -> Answer:
    """Return which of the strategies lead on `ranks` ranks. others: there are results that train otherwise."""
    best = min(epochs, key=lambda epoch: epoch.epoch_s)
    leaders = [epoch for epoch in epochs if _tied(best, epoch)]
    names = tuple(epoch.strategy for epoch in leaders)
    base = next((epoch for epoch in epochs if epoch.strategy == section.baseline and epoch not in leaders), None)
    without = "".join(f"; {epoch.idle} under {epoch.strategy}" for epoch in epochs if epoch.idle and (epoch in leaders or epoch is base))
    if len(epochs) == 1:
        why = "no other trains on the same" if others else "nothing to compare with"
        return Answer(ranks, names, f"takes {best} an epoch; {why}{without}", float("nan"), names, others)
    slowest = max(leaders, key=lambda epoch: epoch.epoch_s)
    ratio, margin = speedup(slowest, base) if base else (float("nan"), 0.0)
    how = f"is fastest: {best} an epoch" if len(leaders) == 1 else f"tie: {_and([str(epoch) for epoch in leaders])} an epoch"
    if base is not None:
        how += f", {around(ratio, margin)} times as fast as {base.strategy} ({base})"
    elif len(leaders) == 1:
        following = min((epoch for epoch in epochs if epoch is not best), key=lambda epoch: epoch.epoch_s)
        how += f", {around(*speedup(best, following))} times as fast as the next, {following.strategy} ({following})"
    return Answer(ranks, names, how + without, ratio, tuple(epoch.strategy for epoch in epochs), others)


def sentence(answer: Answer, stands_on: str) -> str:
    """Return the sentence of a report that follows the leaders' names: how fast they are, and in brackets what the claim stands on."""
    return f"{answer.how} ({stands_on})." if stands_on else f"{answer.how}."


def headline(section: Section, stands_on: str) -> str:
    """Return the sentence at a report's top for one section: who is fastest or ties on which ranks; '' without results.

    stands_on: what the claim rests on (`basis`), put in brackets.

    Epochs are compared among strategies that train on the same; where there are several such groups, each has its clause, and nobody
    leads over all.
    """
    all_answers = answers(section)
    if not all_answers:
        return ""
    if not any(answer.others for answer in all_answers):
        claim = _claim(section, all_answers)
    else:
        groups = dict.fromkeys(answer.among for answer in all_answers if not answer.alone)
        claims = [f"of {_and(among)}, {_claim(section, [answer for answer in all_answers if answer.among == among])}" for among in groups]
        alone = list(dict.fromkeys(name for answer in all_answers if answer.alone for name in answer.among))
        apart = f"{_and(alone)} {'train' if len(alone) > 1 else 'trains'} on other steps or targets" if alone else ""
        parts = "; ".join(filter(None, [*claims, apart]))
        claim = f"epochs compare only where the same steps train on the same targets: {parts}"
    return f"{section.title}: {claim} ({stands_on})." if stands_on else f"{section.title}: {claim}."


def _claim(section: Section, all_answers: list[Answer]) -> str:
    """Return who leads among strategies that train alike, over all rank counts."""
    if len(all_answers) == 1:
        return f"on {_counts([all_answers[0].ranks])}, {all_answers[0].names} {all_answers[0].how}"
    if all(answer.alone for answer in all_answers) and len({answer.leaders for answer in all_answers}) == 1:
        return f"{all_answers[0].names} has nothing to compare with"
    spans = [(key, list(part)) for key, part in groupby(all_answers, key=lambda answer: (answer.names, _verb(answer)))]
    verbs = ["", *(verb for (_, verb), _ in spans)]
    claims = [f"{name}{f' {verb}' * (verb != before)} {_ranks(part)}" for before, ((name, verb), part) in zip(verbs, spans, strict=False)]
    ratios = [answer.ratio for answer in all_answers]
    wins = all(ratio > 1 for ratio in ratios)  # NaN is no win
    ends = list(dict.fromkeys(number(end, 3) for end in (min(ratios), max(ratios)))) if wins else []
    return ", ".join(claims) + (f", {' to '.join(ends)} times as fast as {section.baseline}" if ends else "")


def _verb(answer: Answer) -> str:
    return "runs alone" if answer.alone else "is fastest" if len(answer.leaders) == 1 else "tie"


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _ranks(part: list[Answer]) -> str:
    return f"on {_counts([part[0].ranks])}" if len(part) == 1 else f"from {part[0].ranks} to {part[-1].ranks} ranks"


def order_sentence(section: Section) -> str:
    """Return the sentence of a report on how many pairs of strategies the simulator predicted in the order in which they were measured.

    '' where no two were predicted.
    """
    sentences = []
    for (name, ranks), runs in predicted_by_run(section).items():
        ranked = [run.ranked for run in runs if run.ranked is not None]
        if strategy_pairs := compare_pairs(ranked):
            place = f"{name}, {_counts([ranks])}" if len({run for run, _ in predicted_by_run(section)}) > 1 else _counts([ranks])
            decided = [pair for pair in strategy_pairs if pair.order in ("right", "wrong")]
            right, tau = sum(pair.order == "right" for pair in decided), number(rank_correlation(ranked), 2)
            predicted_alike = sum(pair.order == "predicted alike" for pair in strategy_pairs)
            left = f", {rest} too close for the repeats to decide" if (rest := len(strategy_pairs) - len(decided) - predicted_alike) else ""
            left += f", {predicted_alike} predicted alike" if predicted_alike else ""
            sentences.append(f"on {place} {right} of {len(decided)} pairs right{left} (Kendall’s τ {tau})")
    return f"Predicted order of strategies: {'; '.join(sentences)}." if sentences else ""


def cautions(report: Report) -> list[str]:
    """Return the warnings of a report: its own notes, then what its numbers cannot show, section by section.

    Such as few repeats, wide spreads, durations that no measurement confirms, and ranks without work.
    """
    notes = list(report.notes)
    for section in report.sections:
        front = f"{section.title}: " if len(report.sections) > 1 else ""
        notes += [f"{front}{caution}" for caution in _cautions(section)]
    return notes


def _cautions(section: Section) -> list[str]:
    """List the caveats of a section: results that are not compared, few repeats, wide spread, durations that no measurement confirms."""
    notes = [f"{section.label(run)} on {_counts([run.ranks])} is not compared: {run.failed}." for run in section.runs if run.failed]
    notes += [f"{run.name} is not compared: {run.failed}." for run in section.staged if run.failed]
    if len({run.strategy for run in section.comparable if not run.mathematics}) > 1:
        notes.append("What these epochs train on was not recorded, so that they may be of unlike work: compare them with care.")
    few = [run for run in section.runs if run.kind == "executed" and run.summary.repeats < REPEATS]
    if few:
        notes.append(
            f"Fewer than {REPEATS} repeats, too few to tell a difference from noise: {_names(section, few)}. Set `repeats` higher."
        )
    wide = [run for run in section.runs if run.summary.epoch_s > 0 and run.summary.spread_s >= WIDE * run.summary.epoch_s]
    if wide:
        notes.append(f"Spread of {WIDE:.0%} or more of the epoch, so smaller differences mean nothing: {_names(section, wide)}.")
    simulated = [run for run in section.runs if run.kind == "simulated"]
    for word in ("specified", "published", EXTRAPOLATED):
        runs = [run for run in simulated if word in run.summary.sources]
        if runs:
            which = "all simulated figures" if len(runs) == len(simulated) else f"the simulated figures of {_names(section, runs)}"
            notes.append(f"{ORIGIN[word].capitalize()}, which no measurement here confirms: {which}.")
    for (_, ranks), replayed in predicted_by_run(section).items():
        ranked = [run.ranked for run in replayed if run.ranked is not None]
        for pair in (pair for pair in compare_pairs(ranked) if pair.order == "wrong"):
            notes.append(
                f"Predicted in the wrong order on {_counts([ranks])}: {pair.slower} takes {pair.measured:.3f} times as long as "
                f"{pair.faster}, predicted {pair.predicted:.3f} times. Do not choose between them by simulation."
            )
        covered = [(section.label(run), run.prediction.coverage) for run in replayed if run.prediction is not None]
        notes += [f"{label} on {_counts([ranks])}: {coverage}." for label, coverage in covered if not coverage.whole]
    without = [run for run in section.runs if run.summary.imbalance == float("inf")]
    if without:
        notes.append(f"At least one rank has no work (imbalance ∞): {_names(section, without)}. Fewer ranks would do.")
    return notes


def _names(section: Section, runs: list[StrategyResult]) -> str:
    """Return the labels of results with their rank counts, in words."""
    by_label: dict[str, list[int]] = {}
    for run in runs:
        by_label.setdefault(section.label(run), []).append(run.ranks)
    same_ranks = len({tuple(ranks) for ranks in by_label.values()}) == 1
    groups = [", ".join(by_label)] if same_ranks else list(by_label)
    return "; ".join(f"{name} on {_counts(ranks)}" for name, ranks in zip(groups, by_label.values(), strict=False))


def _counts(ranks: Sequence[int]) -> str:
    """Return rank counts in words."""
    counts = sorted(set(ranks))
    return f"{', '.join(map(str, counts))} rank{'s' * (counts != [1])}"
