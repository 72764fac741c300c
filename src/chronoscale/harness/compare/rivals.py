"""Rivals in a comparison: whether strategies beat what needs no training, by all of their seeds, by some or by none."""

from __future__ import annotations

from collections.abc import Sequence

from chronoscale.harness.compare.outcome import Comparison, StrategyOutcome, listed
from chronoscale.harness.compare.target import reached_by_half


def rival_sentences(result: Comparison) -> list[str]:
    """Say which strategies do not beat the best prediction without a model on validation, and which cannot be told from it: those of which
    some seeds beat it and some do not. [] where all beat it by all seeds, and where no such prediction is known."""
    score, start = result.score, result.score.best(result.naive.values())
    if start != start:
        return []
    rival = f"the {next(name for name, value in result.naive.items() if value == start)} without a model"
    wins = {one.label: [score.beats(value, start) for value in one.best(score)] for one in result.outcomes}
    beaten = [one for one in result.outcomes if not any(wins[one.label])]
    tied = [one for one in result.outcomes if any(wins[one.label]) and not all(wins[one.label])]
    if len(beaten) == len(result.outcomes):
        return [f"No strategy beats {rival}: validation {score.describe(start)}{_nearest(result, beaten)}."]
    sentences = []
    if beaten:
        verb = "does" if len(beaten) == 1 else "do"
        labels = listed([one.label for one in beaten])
        sentences.append(f"{labels} {verb} not beat {rival}: validation {score.describe(start)}{_nearest(result, beaten)}.")
    if tied:
        verb = "is" if len(tied) == 1 else "are"
        counts = listed([f"{one.label} ({sum(wins[one.label])} of {len(wins[one.label])} seeds beat it)" for one in tied])
        sentences.append(f"Not told apart from {rival}, validation {score.describe(start)}, {verb} {counts}.")
    return sentences


def _nearest(result: Comparison, outcomes: Sequence[StrategyOutcome]) -> str:
    """Return the score that half of the seeds of the best of some strategies reach, a clause; '' where none is finite."""
    score = result.score
    reached = {one.label: reached_by_half(one.best(score), score) for one in outcomes}
    best = score.best(reached.values())
    label = next((label for label, value in reached.items() if value == best), "")
    return f" against {score.describe(best).removeprefix(score.title).strip()} of {label}" if label else ""
