"""Target of a comparison: the score on validation that trainings have to reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.scores import Score
from chronoscale.errors import UserError, unknown
from chronoscale.harness.keys.compare import SHARE
from chronoscale.strategies.costs import Floats

NAIVE = "naive"


@dataclass(frozen=True, slots=True)
class Target:
    """Score on validation that trainings have to reach. why: where it comes from, in words."""

    score: Score
    value: float
    why: str

    def met(self, value: float) -> bool:
        """Return whether a score reaches the target: it is as good, or better."""
        return value == self.value or self.score.beats(value, self.value)

    def __str__(self) -> str:
        return f"validation {self.score.describe(self.value)}"


def resolve(asked: Mapping[str, float] | str, score: Score, best: Mapping[str, Floats], naive: Mapping[str, float]) -> Target:
    """Return the target that an experiment's `compare.target` asks for.

    best: strategy -> each seed's best score, float64 [seeds]. naive: score of predictions without a model, by name. Raises UserError where
    a strategy is not among those compared, and where a target rests on naive predictions and there are none.
    """
    if isinstance(asked, Mapping) and SHARE not in asked:
        return Target(score, asked[score.key], "as the experiment asks")
    medians = {name: reached_by_half(values, score) for name, values in best.items()}
    if isinstance(asked, str) and asked != NAIVE:
        if asked not in medians:
            raise UserError(f"compare.target: {unknown('strategy', asked, [*medians, NAIVE])}")
        if not np.isfinite(medians[asked]):
            raise UserError(f"compare.target: fewer than half of {asked}'s trainings have a finite score; name another target")
        return Target(score, medians[asked], f"what {asked} reaches, by half of its seeds")
    known = {name: value for name, value in naive.items() if np.isfinite(value)}
    if not known:
        raise UserError(f"compare.target: this task has no prediction without a model; name a score, such as {{{score.key}: …}}")
    start = score.best(known.values())
    rival = next(name for name, value in known.items() if value == start)
    if asked == NAIVE:
        return Target(score, start, f"that of the best prediction without a model, the {rival}")
    assert isinstance(asked, Mapping)
    reached = score.best(medians.values())
    leader = next((name for name, value in medians.items() if value == reached), "")
    if not score.beats(reached, start):
        return Target(score, start, f"that of the {rival} without a model, which no strategy beats")
    value = (1 - asked[SHARE]) * start + asked[SHARE] * reached
    return Target(score, value, f"{asked[SHARE]:.0%} of the way from the {rival} without a model ({start:.4g}) to {leader} ({reached:.4g})")


def reached_by_half(values: Floats, score: Score) -> float:
    """Return the best score of `chronoscale compare` that half of the seeds' trainings reach; NaN where fewer have a finite one.

    values: each seed's score, float64 [seeds]. score: says which way is better.
    """
    better_first = np.sort(values if score.better == "lower" else -values)  # NaN last
    return abs(float(better_first[(len(values) - 1) // 2]))
