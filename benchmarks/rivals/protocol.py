"""The protocol of every rival: the split, the events that are asked, their negatives and the figures of the scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chronoscale.datasets.arrays import Bool, Float32, Int32, Int64
from chronoscale.datasets.streams import negatives, ranking, splits
from chronoscale.datasets.streams.edgebank import batch_starts
from chronoscale.datasets.streams.events import EventStream


class Figures(NamedTuple):
    """Of `events` events: AP and AUC against one random negative each, MRR among the ranked ones. NaN where nothing was asked."""

    ap: float
    auc: float
    mrr: float
    events: int


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """What is asked of the events of `part`. The candidates of each, int32 [E, 2 + k]: its destination, a random negative, k mixed ones
    (-1 where there are fewer). known int64 [E]: events before its batch, which are all that may be read. new bool [E]: has a node that
    was not trained on."""

    part: range
    src: Int32
    candidates: Int32
    known: Int64
    new: Bool

    def figures(self, scores: Float32, among: Bool | None = None) -> Figures:
        """Of the scores, the shape of the candidates, or of those of events `among` them; candidates that are not there do not count."""
        scores = np.where(self.candidates < 0, -np.inf, scores)
        scores = scores if among is None else scores[among]
        if not len(scores):
            return Figures(math.nan, math.nan, math.nan, 0)
        positive, single, ranked = scores[:, 0], scores[:, 1:2], scores[:, 2:]
        unranked = (ranked == -np.inf).all(axis=1)  # also where none was asked for
        mrr = math.nan if unranked.all() else ranking.mean_reciprocal_rank(ranking.ranks(positive[~unranked], ranked[~unranked]))
        return Figures(ranking.average_precision(positive, single), ranking.roc_area(positive, single), mrr, len(scores))


@dataclass(frozen=True, slots=True, eq=False)
class Protocol:
    """70/15/15 in time. trained int64 [n]: numbers of the events that are trained on, all of the first part but those of hidden nodes;
    among int32 [D]: what their negatives are drawn from."""

    stream: EventStream
    batch_size: int
    trained: Int64
    among: Int32
    validation: Questions
    test: Questions

    @classmethod
    def of(cls, stream: EventStream, batch_size: int, ranked: int, hidden: float = 0.0, seed: int = 0) -> Protocol:
        """Validation asks for AP alone, test for `ranked` (0: none) too. `seed`: of hidden nodes and of the negatives of evaluation, which
        are the same whatever the seed of a training. Raises UserError as the splits and the negatives do."""
        split = splits.split_by_time(stream)
        inductive = splits.hide_nodes(stream, split, hidden, seed)
        trained = np.flatnonzero(inductive.training)

        def questions(part: range, mixed: int) -> Questions:
            here = slice(part.start, part.stop)
            columns = [stream.dst[here, None], negatives.evaluation_negatives(stream, split.train_end, part, 1, "random", seed).dst]
            if mixed:
                columns.append(negatives.evaluation_negatives(stream, split.train_end, part, mixed, "mixed", seed).dst)
            return Questions(
                part, stream.src[here], np.concatenate(columns, axis=1), batch_starts(part, batch_size), inductive.touches(stream, part)
            )

        among = negatives.destinations(stream.dst[trained], stream.num_nodes)
        return cls(stream, batch_size, trained, among, questions(split.validation, 0), questions(split.test, ranked))


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch of a rival's training. loss: mean of its batches; training, validation: seconds of each, alone."""

    loss: float
    training: float
    validation: float
    validation_ap: float


@dataclass(frozen=True, slots=True)
class Trained:
    """A rival's training. best: number of the epoch, from 0, that was tested; new: figures of test events with a node never trained on."""

    epochs: list[Epoch]
    best: int
    test: Figures
    new: Figures
