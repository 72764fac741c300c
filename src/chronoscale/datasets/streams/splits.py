"""Splits: which events of a stream are trained on, validated on and tested on, and which nodes training never sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.arrays import Bool, Int32
from chronoscale.datasets.streams import draws
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

HIDDEN_SHARE = 0.1  # share of the nodes that TGN hides


@dataclass(frozen=True, slots=True)
class EventSplit:
    """Split of an event stream in time: events 0 .. train_end - 1 are trained on, train_end .. validation_end - 1 validated on,
    validation_end .. events - 1 tested on. Raises UserError where a part has no event."""

    train_end: int
    validation_end: int
    events: int

    def __post_init__(self) -> None:
        if not 0 < self.train_end < self.validation_end < self.events:
            counts = f"{len(self.train)} to train, {len(self.validation)} to validate, {len(self.test)} to test"
            raise UserError(f"a split needs events in every part, got {counts}; other fractions, or finer times, may give them")

    @property
    def train(self) -> range:
        return range(self.train_end)

    @property
    def validation(self) -> range:
        return range(self.train_end, self.validation_end)

    @property
    def test(self) -> range:
        return range(self.validation_end, self.events)


def split_by_time(events: EventStream, train: float = 0.70, validation: float = 0.15) -> EventSplit:
    """Split an event stream by time: the first share `train` of its events, the next `validation`, and the remaining ones to test; events
    of one time stay together, on the earlier side.

    A part ends with all events up to the quantile of the times, as in TGN's and TGB's public code (Rossi et al. 2020, §5; Huang et al.
    2023, §4), so that no event is evaluated at a time that was trained on. Raises UserError for fractions that leave nothing, of the range
    or of the events.
    """
    if not (train > 0 and validation > 0 and train + validation < 1):
        raise UserError(f"fractions of a split: expected two positive numbers with a sum below 1, got {train} and {validation}")
    if len(events) == 0:
        raise UserError("a stream without events cannot be split")
    # The quantile lies between two events in time order and below the later one unless both have one time: what is no later than it is
    # what is no later than the earlier one. Thus no time is rounded to float64, as nanoseconds would be.
    boundaries = [int(fraction * (len(events) - 1)) for fraction in (train, train + validation)]
    ends = np.searchsorted(events.t, events.t[boundaries], side="right")
    return EventSplit(int(ends[0]), int(ends[1]), len(events))


@dataclass(frozen=True, slots=True, eq=False)
class InductiveSplit:
    """Split of an event stream in which some nodes are hidden from training, to test on nodes that a model has not seen.

    hidden bool [N]: drawn; no event of theirs is trained on. new bool [N]: nodes without a training event: the hidden ones, those that only
    appear later, and those that met only hidden nodes. training bool [train_end]: events that are trained on.
    """

    hidden: Bool
    new: Bool
    training: Bool

    def touches(self, events: EventStream, part: range) -> Bool:
        """Return which of the events `part` have a node at either end that is new to training: a mask, bool [len(part)]."""
        span = slice(part.start, part.stop)
        inductive: Bool = self.new[events.src[span]] | self.new[events.dst[span]]
        return inductive


def hide_nodes(events: EventStream, split: EventSplit, share: float = HIDDEN_SHARE, seed: int = 0) -> InductiveSplit:
    """Hide int(`share` x nodes that have events) nodes of an event stream from training, drawn by `seed` among those that have an event
    after training.

    As TGN's public code does (Rossi et al. 2020, §5: "nodes never observed during training"): validation and test share the new nodes.
    Raises UserError if there are not so many nodes, no training event is left, the split is of a stream of another length, or the seed is
    negative.
    """
    if not 0 <= share < 1:
        raise UserError(f"share of hidden nodes: expected 0 or more and below 1, got {share}")
    if split.events != len(events):
        raise UserError(f"the split is of {split.events} events, the stream has {len(events)}")
    src, dst = events.src[: split.train_end], events.dst[: split.train_end]
    early = _node_mask(src, dst, events.num_nodes)
    late = _node_mask(events.src[split.train_end :], events.dst[split.train_end :], events.num_nodes)
    count, candidates = int(share * np.count_nonzero(early | late)), np.flatnonzero(late)
    if count > candidates.size:
        raise UserError(f"{count} nodes are to be hidden, only {candidates.size} have an event after training")
    hidden = np.zeros(events.num_nodes, np.bool_)
    hidden[np.random.default_rng(draws.derive_key(seed)).choice(candidates, count, replace=False)] = True
    training = ~(hidden[src] | hidden[dst])
    if not training.any():
        raise UserError(f"hiding {count} nodes leaves no event to train on; hide fewer")
    new = early | late
    new[src[training]] = False
    new[dst[training]] = False
    return InductiveSplit(hidden, new, training)


def _node_mask(src: Int32, dst: Int32, num_nodes: int) -> Bool:
    """Return a mask of the nodes that have one of these events: bool [num_nodes]."""
    mask = np.zeros(num_nodes, np.bool_)
    mask[src] = True
    mask[dst] = True
    return mask
