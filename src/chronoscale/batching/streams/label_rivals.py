"""Rivals of models that predict the labels of events' sources: the most frequent label, and the latest that is known of the source."""

from __future__ import annotations

import numpy as np

from chronoscale.batching.rivals.links.counts import EventIndex
from chronoscale.batching.rivals.rival import RivalScores
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets.arrays import Float64, Int64
from chronoscale.datasets.streams import ranking

LABELS = 2  # of which there are scores for an AUC


def score_label_rivals(data: PreparedStream, known: Int64, part: range) -> list[RivalScores]:
    """Score predictions of the labels of the events `part`, without a network: accuracy and, where there are two kinds of labels, AUC.

    known int64 [len(part)]: the number of events that each prediction may read.
    """
    events, trained = data.whole.stream, data.training.stream.labels
    assert events.labels is not None and trained is not None
    labels = np.asarray(events.labels)
    counts = np.bincount(trained[: data.training_events])
    most, share = int(counts.argmax()), float(counts[1:2].sum() / max(counts.sum(), 1))
    source = np.asarray(events.src[part.start : part.stop]).astype(np.int64)
    newest = EventIndex(np.asarray(events.src).astype(np.int64)).newest(source, known)
    latest = np.where(newest >= 0, labels[newest], most)
    truth, two = labels[part.start : part.stop], int(labels.max()) + 1 == LABELS
    rivals = (
        ("most frequent label", "the label that most events of training have", np.full(len(part), most), np.full(len(part), share)),
        (
            "latest label of the node",
            "the label of the source's last event before the batch, else the most frequent one",
            latest,
            np.where(newest >= 0, latest, share),
        ),
    )
    return [RivalScores(name, meaning, _scores(guess, rank, truth, two)) for name, meaning, guess, rank in rivals]


def _scores(guess: Int64, rank: Float64, truth: Int64, two: bool) -> dict[str, float]:
    scores = {"accuracy": float((guess == truth).mean())}
    if two and 0 < truth.sum() < truth.size:
        scores["auc"] = ranking.label_roc_area(rank, truth)
    return scores
