"""Answer: what another process has computed of a task, with the warnings that it gave."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from chronoscale.errors import ChronoscaleWarning

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Answer(Generic[R]):
    """Result of one task of a sweep, on its way from the process that computed it. warnings: the texts that were given meanwhile."""

    result: R
    warnings: tuple[str, ...] = ()

    def received(self) -> R:
        """Give the warnings in this process, and return the result."""
        for text in self.warnings:
            warnings.warn(text, ChronoscaleWarning, stacklevel=2)
        return self.result


def answer(judge: Callable[[T], R], task: T) -> Answer[R]:
    """Compute a task of a sweep in a process that has nobody to warn. Raises what `judge` raises."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ChronoscaleWarning)
        result = judge(task)
    texts = [str(warning.message) for warning in caught if issubclass(warning.category, ChronoscaleWarning)]
    return Answer(result, tuple(dict.fromkeys(texts)))
