"""Predictions of a test of an event stream as a table: a row an event."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets.node_names import name_nodes
from chronoscale.datasets.streams import ranking
from chronoscale.errors import UserError
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.training.training_end import PREDICTED


def predictions(job: Job) -> pd.DataFrame:
    """Return what a training's model predicted of its test events: `event`, its number in the stream, `src` and `dst` by name, `time`; of
    links its `score`, which is higher for likelier ones, the `negative` it was compared with and that one's score, and, where it was
    ranked, its `rank` among the other negatives (1: above all; ties count half); of labels the `label` predicted, its `truth`, and the
    `score` of each.

    Raises UserError where training has not come to its end, or ended before predictions were kept.
    """
    path, data = Path(job.out) / PREDICTED, PreparedStream.load(Path(job.items[0].dataset))
    if not path.exists():
        raise UserError(f"{path.parent}: no predictions of a test; `chronoscale train` writes them once its last epoch is over")
    logits, part, events = np.load(path), data.split.test, data.whole.stream
    span = slice(part.start, part.stop)
    names = np.array(name_nodes(events, range(events.num_nodes)))
    ends = {"src": names[events.src[span]], "dst": names[events.dst[span]]}
    table = {"event": np.arange(part.start, part.stop), **ends, "time": np.asarray(events.t[span])}
    if data.protocol.task == "node":
        assert events.labels is not None
        of_labels = {f"score_{label}": logits[:, label] for label in range(logits.shape[1])}
        return pd.DataFrame({**table, "label": logits.argmax(1), "truth": events.labels[span], **of_labels})
    negatives = np.concatenate([data.negatives("test").dst, data.negatives("ranked").dst], axis=1)
    scores = np.where(negatives >= 0, logits[:, 1:], -np.inf).astype(np.float64)
    table |= {"score": logits[:, 0], "negative": np.where(negatives[:, 0] >= 0, names[negatives[:, 0]], ""), "negative_score": scores[:, 0]}
    ranked = np.isfinite(scores[:, 1:]).any(axis=1)
    rank = np.full(len(part), np.nan)
    rank[ranked] = ranking.ranks(logits[ranked, 0].astype(np.float64), scores[ranked, 1:])
    return pd.DataFrame({**table, "rank": rank})
