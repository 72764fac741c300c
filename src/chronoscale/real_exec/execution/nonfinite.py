"""Numbers that are not finite: training ends at the first one, on every rank alike."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from chronoscale.datasets.scores import scores_present
from chronoscale.errors import NotFiniteError

HELP = "a smaller training.learning_rate may help"


class NonFiniteValue(Exception):
    """A value of training that is not finite, which every rank sees at the same row.

    iteration: None after the last one. what: the value, in words. own: whether it came from this rank, before ranks added up.
    """

    def __init__(self, iteration: int | None, quantity: str, own: bool = True) -> None:
        super().__init__(quantity)
        self.iteration = iteration
        self.quantity = quantity
        self.own = own


def require_finite(scores: Mapping[str, float], strategy: str, when: str) -> Mapping[str, float]:
    """Return test scores, the same on all ranks. Raises NotFiniteError for a score that is not finite where it has to be."""
    for score in scores_present([scores]):
        if not score.may_be_undefined and not isfinite(scores[score.key]):
            raise NotFiniteError(f"strategy '{strategy}', {when}: the test {score.title} is not finite; {HELP}")
    return scores
