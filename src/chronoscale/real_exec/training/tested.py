"""Tested: scores of a test, refused where they are not finite."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from chronoscale.datasets.scores import scores_present
from chronoscale.errors import NotFiniteError
from chronoscale.real_exec.training.soundness import HELP


def checked(scores: Mapping[str, float], strategy: str, when: str) -> Mapping[str, float]:
    """The scores, the same on all ranks. Raises NotFiniteError for one that is undefined and must not be."""
    for score in scores_present([scores]):
        if not score.may_be_undefined and not isfinite(scores[score.key]):
            raise NotFiniteError(f"strategy '{strategy}', {when}: the test {score.title} is not finite; {HELP}")
    return scores
