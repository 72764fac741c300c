"""Soundness: training ends at the first number that is not finite."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from chronoscale.datasets.scores import present
from chronoscale.errors import NotFiniteError

HELP = "a smaller training.learning_rate may help"


class NonFiniteValue(Exception):
    """A number is not finite, and every rank sees it at the same row. iteration: None after the last. own: whether it came from this rank,
    before ranks added up."""

    def __init__(self, iteration: int | None, what: str, own: bool = True) -> None:
        super().__init__(what)
        self.iteration, self.what, self.own = iteration, what, own


def require_finite(scores: Mapping[str, float], strategy: str, when: str) -> Mapping[str, float]:
    """The scores, the same on all ranks. Raises NotFiniteError for one that is undefined and must not be."""
    for score in present([scores]):
        if not score.may_be_undefined and not isfinite(scores[score.key]):
            raise NotFiniteError(f"strategy '{strategy}', {when}: the test {score.title} is not finite; {HELP}")
    return scores
