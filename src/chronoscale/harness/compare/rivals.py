"""Rivals in a comparison: whether strategies beat what needs no training, by all of their seeds, by some or by none."""

from __future__ import annotations

from collections.abc import Mapping

from chronoscale.datasets.scores import Score
from chronoscale.harness.compare.outcome import listed
from chronoscale.harness.compare.target import reached_by_half
from chronoscale.strategies.costs import Floats


def rival_sentences(score: Score, naive: Mapping[str, float], best: Mapping[str, Floats]) -> list[str]:
    """Say which strategies do not beat the best prediction without a model on validation, and which cannot be told from it: those of which
    some seeds beat it and some do not. [] where all beat it by all seeds, and where no such prediction is known.

    naive: score of each prediction without a model. best: strategy's label -> each seed's best score, float64 [seeds].
    """
    start = score.best(naive.values())
    if start != start:
        return []
    rival = f"the {next(name for name, value in naive.items() if value == start)} without a model"
    wins = {label: [score.beats(value, start) for value in values] for label, values in best.items()}
    beaten = [label for label, won in wins.items() if not any(won)]
    tied = [f"{label} ({sum(won)} of {len(won)} seeds beat it)" for label, won in wins.items() if any(won) and not all(won)]
    sentences = []
    if beaten:
        who = "No strategy beats" if len(beaten) == len(best) else f"{listed(beaten)} {'does' if len(beaten) == 1 else 'do'} not beat"
        nearest = _nearest(score, {label: best[label] for label in beaten})
        sentences.append(f"{who} {rival}: validation {score.describe(start)}{nearest}.")
    if tied:
        against = f"Not told apart from {rival}, validation {score.describe(start)},"
        sentences.append(f"{against} {'is' if len(tied) == 1 else 'are'} {listed(tied)}.")
    return sentences


def _nearest(score: Score, best: Mapping[str, Floats]) -> str:
    """Return the score that half of the seeds of the best of some strategies reach, a clause; '' where none is finite."""
    reached = {label: reached_by_half(values, score) for label, values in best.items()}
    value = score.best(reached.values())
    label = next((label for label, one in reached.items() if one == value), "")
    return f" against {score.describe(value).removeprefix(score.title).strip()} of {label}" if label else ""
