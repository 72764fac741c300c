"""Soundness: training ends at the first number that is not finite."""

from __future__ import annotations

HELP = "a smaller training.learning_rate may help"


class Unsound(Exception):
    """A number is not finite, and every rank sees it at the same row. iteration: None after the last. own: whether it came from this rank,
    before ranks added up."""

    def __init__(self, iteration: int | None, what: str, own: bool = True) -> None:
        super().__init__(what)
        self.iteration, self.what, self.own = iteration, what, own
