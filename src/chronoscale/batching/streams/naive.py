"""Naive scores of the test or validation events: what predictors without training reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets.streams import ranking
from chronoscale.datasets.streams.edgebank import EdgeBank, batch_starts

Period = Literal["test", "validation"]


def naive_scores(data: PreparedStream, batch: int, period: Period = "test") -> Mapping[str, Mapping[str, float]]:
    """Score predictors without training on an event stream's test or validation events, which a model has to beat: scores by predictor and
    key, on the negatives that a model is scored with there.

    Of links: EdgeBank, which knows the events before each batch of `batch` events. Of labels: the one that most training events have.
    """
    part = data.split.test if period == "test" else data.split.validation
    if data.protocol.task == "node":
        return {"most frequent label": _labels(data, part)}
    events = data.whole.stream
    span = slice(part.start, part.stop)
    src, dst = np.asarray(events.src[span]), np.asarray(events.dst[span])
    uses = ("test", "ranked") if period == "test" else ("validation",)
    bank, known = EdgeBank(events), batch_starts(part, batch)
    others = np.concatenate([data.negatives(use).dst for use in uses], axis=1)
    positive, negative = (bank.scores(src, destinations, known) for destinations in (dst, others))
    return {"EdgeBank": ranking.link_scores(positive, negative, data.new[src] | data.new[dst])}


def _labels(data: PreparedStream, part: range) -> dict[str, float]:
    labels = data.whole.stream.labels
    assert labels is not None and data.training.stream.labels is not None
    most = np.bincount(data.training.stream.labels[: data.training_events])
    return {"accuracy": float((labels[part.start : part.stop] == most.argmax()).mean())}
