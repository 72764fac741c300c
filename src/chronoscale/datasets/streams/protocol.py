"""Evaluation protocol of a stream: its split, the nodes hidden from training, and the negatives that test events are ranked against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from chronoscale.datasets.streams.negatives import NegativeKind
from chronoscale.errors import UserError, unknown

Task = Literal["link", "node"]


@dataclass(frozen=True, slots=True)
class PublishedNegatives:
    """Files of published negatives (TGB's pickles) that events are ranked against, of the test's and of the validation's; '' for none."""

    test: str = ""
    validation: str = ""


@dataclass(frozen=True, slots=True)
class Protocol:
    """Settings of how models are trained and evaluated on an event stream: its split, the nodes hidden from training, and evaluation's
    negatives.

    task: "link", events are predicted against destinations drawn at random; "node", the label of an event's source is predicted.

    train, validation: shares of the events, in time. hidden: share of the nodes that training never sees (TGN §5, its inductive setting).
    ranked: how many negatives each test event is ranked against, of a `kind` (TGB §4). seed: of hidden nodes and of the negatives of
    evaluation, which are the same for every training. published: negatives that take the place of those `ranked`; those of the validation
    are for the end of a training. Raises UserError for an unknown task or kind; shares are checked when there are events to split.
    """

    task: Task = "link"
    train: float = 0.70
    validation: float = 0.15
    hidden: float = 0.0
    ranked: int = 20
    kind: NegativeKind = "mixed"
    seed: int = 0
    published: PublishedNegatives = PublishedNegatives()

    def __post_init__(self) -> None:
        for meaning, value, valid in (("task", self.task, get_args(Task)), ("kind of negatives", self.kind, get_args(NegativeKind))):
            if value not in valid:
                raise unknown(meaning, value, valid)
        if self.ranked < 1:
            raise UserError(f"negatives that a test event is ranked against: expected 1 or more, got {self.ranked}")
