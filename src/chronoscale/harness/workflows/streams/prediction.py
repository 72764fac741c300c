"""Predictions of a test of an event stream as tables: a row an event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets.arrays import Float32
from chronoscale.datasets.node_names import name_nodes
from chronoscale.datasets.streams import ranking
from chronoscale.errors import UserError
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.training.training_end import PREDICTED, TEST
from chronoscale.records import read_array

EVENTS = 1 << 18  # that are in memory together


def predictions(job: Job) -> Iterator[pd.DataFrame]:
    """Yield what a training's model predicted of its test events, some at a time: `event`, its number in the stream, `src` and `dst` by
    name, `time`; of links its `score`, which is higher for likelier ones, the `negative` it was compared with and that one's score, and,
    where it was ranked, its `rank` among the other negatives (1: above all; ties count half); of labels the `label` predicted, its `truth`,
    and the `score` of each.

    Raises UserError where training has not come to its end, or ended before predictions were kept, and for a damaged file.
    """
    folder, data = Path(job.out), PreparedStream.load(Path(job.items[0].dataset))
    if not (folder / PREDICTED).exists() or not (folder / TEST).exists():
        raise UserError(f"{folder}: no predictions of a test; `chronoscale train` writes them once its last epoch is over")
    part, events = data.split.test, data.whole.stream
    logits = read_array(folder / PREDICTED, np.float32, (len(part), None), "predictions of a test")
    names = np.array(name_nodes(events, range(events.num_nodes)), object)
    for begin in range(part.start, part.stop, EVENTS):
        block = range(begin, min(begin + EVENTS, part.stop))
        span, rows = slice(block.start, block.stop), slice(block.start - part.start, block.stop - part.start)
        ends = {"src": names[events.src[span]], "dst": names[events.dst[span]]}
        table = {"event": np.arange(block.start, block.stop), **ends, "time": np.asarray(events.t[span])}
        scored = _labels(data, span, logits[rows]) if data.protocol.task == "node" else _links(data, rows, logits[rows], names)
        yield pd.DataFrame({**table, **scored})


def _labels(data: PreparedStream, span: slice, logits: Float32) -> dict[str, NDArray[Any]]:
    labels = data.whole.stream.labels
    assert labels is not None
    scores = {f"score_{label}": logits[:, label] for label in range(logits.shape[1])}
    return {"label": logits.argmax(1), "truth": np.asarray(labels[span]), **scores}


def _links(data: PreparedStream, rows: slice, logits: Float32, names: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the columns of links; nothing (None, NaN) where an event has no negative."""
    negatives = data.negatives_of_evaluation("test", rows)
    scores = np.where(negatives >= 0, logits[:, 1:], -np.inf).astype(np.float64)
    compared, ranked = negatives[:, 0] >= 0, np.isfinite(scores[:, 1:]).any(axis=1)
    rank = np.full(len(logits), np.nan)
    if ranked.any():
        rank[ranked] = ranking.ranks(logits[ranked, 0].astype(np.float64), scores[ranked, 1:])
    negative: NDArray[Any] = names[negatives[:, 0]]
    negative[~compared] = None
    return {"score": logits[:, 0], "negative": negative, "negative_score": np.where(compared, scores[:, 0], np.nan), "rank": rank}
