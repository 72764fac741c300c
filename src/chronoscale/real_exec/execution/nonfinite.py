"""Numbers that are not finite: training ends at the first one, on every rank alike."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from chronoscale.datasets.scores import scores_present
from chronoscale.errors import NotFiniteError

HELP = "a smaller training.learning_rate may help"


class NonFiniteValue(Exception):
    """A value of training that is not finite, raised by every rank at the same row; the interpreter makes the user's error of it.

    iteration: None after the last one. quantity: what it is, in words. own: whether it came from this rank, before ranks added up.
    """

    def __init__(self, iteration: int | None, quantity: str, own: bool = True) -> None:
        super().__init__(quantity)
        self.iteration = iteration
        self.quantity = quantity
        self.own = own


def require_finite(scores: Mapping[str, float], strategy: str, when: str) -> Mapping[str, float]:
    """Return a trained model's test scores, the same on all ranks, unchanged.

    Raises NotFiniteError for one that is not finite where it has to be.

    strategy: name of the schedule. when: which pass or epoch, for the message.
    """
    for score in scores_present([scores]):
        if not score.may_be_undefined and not isfinite(scores[score.key]):
            raise NotFiniteError(f"strategy '{strategy}', {when}: the test {score.title} is not finite; {HELP}")
    return scores
