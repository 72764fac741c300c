"""Rivals of models: predictions that train no network, which a model has to beat. What one is called, what it does, and what it scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from chronoscale.datasets.scores import scores_present


class Rival(Protocol):
    """Prediction without a network, as tables and sentences know it.

    name: short and without an article, such as "same time yesterday". meaning: a sentence that says what is predicted, with the figures
    that were found or chosen for these data.
    """

    @property
    def name(self) -> str: ...

    @property
    def meaning(self) -> str: ...


@dataclass(frozen=True, slots=True)
class RivalScores:
    """Scores of a rival, a prediction that trains no network, beside which a model's stand.

    name, meaning: as of a `Rival`. scores: by key (`datasets.scores`), empty where there was nothing to score. steps: by key, a score for
    each of the steps that a window predicts, for families that predict several.
    """

    name: str
    meaning: str
    scores: Mapping[str, float]
    steps: Mapping[str, Sequence[float]] = field(default_factory=dict)


R = TypeVar("R", bound=Rival)


def choose_rival(candidates: Sequence[R], scored: Callable[[R], Mapping[str, float]]) -> R:
    """Return the candidate, one setting of a rival each, that is best by the first score that `scored` gives it; of equal ones, and where
    nothing is scored, the first."""
    results = [scored(candidate) for candidate in candidates]
    shown = scores_present(results)
    if not shown:
        return candidates[0]
    values = [result.get(shown[0].key, float("nan")) for result in results]
    best = shown[0].best(values)
    return candidates[values.index(best)] if best == best else candidates[0]
