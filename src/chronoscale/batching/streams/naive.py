"""Naive scores of the test events: what predictors without training reach."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets.streams import ranking
from chronoscale.datasets.streams.edgebank import EdgeBank, batch_starts


def naive_scores(data: PreparedStream, batch: int) -> Mapping[str, Mapping[str, float]]:
    """Score predictors without training on an event stream's test events, which a model has to beat: scores by predictor and key, on the
    negatives that a model is tested with.

    Of links: EdgeBank, which knows the events before each batch of `batch` events. Of labels: the one that most training events have.
    """
    if data.protocol.task == "node":
        return {"most frequent label": _labels(data)}
    events, part = data.whole.stream, data.split.test
    span = slice(part.start, part.stop)
    src, dst = np.asarray(events.src[span]), np.asarray(events.dst[span])
    random, ranked = data.negatives("test").dst, data.negatives("ranked").dst
    bank, known = EdgeBank(events), batch_starts(part, batch)
    positive, negative = (bank.scores(src, destinations, known) for destinations in (dst, np.concatenate([random, ranked], axis=1)))
    return {"EdgeBank": ranking.link_scores(positive, negative, data.new[src] | data.new[dst])}


def _labels(data: PreparedStream) -> dict[str, float]:
    labels, part = data.whole.stream.labels, data.split.test
    assert labels is not None and data.training.stream.labels is not None
    most = np.bincount(data.training.stream.labels[: data.training_events])
    return {"accuracy": float((labels[part.start : part.stop] == most.argmax()).mean())}
