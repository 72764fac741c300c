"""Predictions of the test snapshots as tables: a row a node, or an edge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from chronoscale.batching.snapshots.links import LinkPairs
from chronoscale.datasets import store
from chronoscale.datasets.node_names import name_nodes
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.streams import ranking
from chronoscale.errors import UserError
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.training.training_end import PREDICTED_SNAPSHOTS, TEST
from chronoscale.records import read_array
from chronoscale.strategies.snapshots.tasks import SnapshotTask, task_of


def predictions(job: Job) -> Iterator[pd.DataFrame]:
    """Yield what a training's model predicted of each test snapshot, whose number is `snapshot`. Degrees: a row a node, the `value` of each
    number, as log(1 + degree), and its `truth`. Classes: a row a node, the `label` predicted, its `truth`, -1 for none. Links: a row an
    edge, `src`, `dst`, its `score`, that of a `negative`, and its `rank` among others.

    Raises UserError where training held out no test, has not come to its end, or ended before predictions were kept.
    """
    item, folder = job.items[0], Path(job.out) / PREDICTED_SNAPSHOTS
    if not (folder.parent / TEST).exists() or not folder.exists():
        raise UserError(
            f"{folder.parent}: no predictions of a test; training.test holds one out, and `chronoscale train` writes them at its end"
        )
    snapshots, task = store.load(Path(item.dataset)), task_of(item.hyper.task)
    if not isinstance(snapshots, SnapshotSequence):
        raise UserError(f"{item.dataset}: expected snapshots")
    pairs = LinkPairs(snapshots, item.hyper.held, item.hyper.links, item.hyper.seed) if task.pairs else None
    names = np.array(name_nodes(snapshots, range(snapshots.num_nodes)), object)
    for number in item.hyper.held.split(len(snapshots)).test:
        rows = snapshots.num_nodes if pairs is None else len(pairs.evaluated(number))
        (file, *_) = sorted(folder.glob(f"{number:06d}.*.npy")) or [folder / f"{number:06d}.npy"]  # of whichever rank
        predicted = read_array(file, np.float32 if pairs is None else np.float64, (rows, None), "predictions")
        table = _nodes(snapshots, task, number, predicted, names) if pairs is None else _edges(pairs.evaluated(number), predicted, names)
        yield pd.DataFrame({"snapshot": np.full(len(next(iter(table.values()))), number), **table})


def _nodes(
    snapshots: SnapshotSequence, task: SnapshotTask, number: int, predicted: NDArray[Any], nodes: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    if task.classifies:
        assert snapshots.classes is not None
        return {"node": nodes, "label": predicted.argmax(1), "truth": np.asarray(snapshots.classes, np.int64)}
    truth = task.goal(snapshots[number])
    degrees = [degree.__name__ for degree in task.predicted]
    columns = {"node": nodes}
    for at, degree in enumerate(degrees):
        ending = f"_{degree}" if len(degrees) > 1 else ""
        columns |= {f"value{ending}": predicted[:, at], f"truth{ending}": truth[:, at]}
    return columns


def _edges(pairs: NDArray[Any], scores: NDArray[Any], nodes: NDArray[Any]) -> dict[str, NDArray[Any]]:
    ranked, rank = np.isfinite(scores[:, 2:]).any(axis=1), np.full(len(pairs), np.nan)
    if ranked.any():
        rank[ranked] = ranking.ranks(scores[ranked, 0], scores[ranked, 2:])
    compared, negative = pairs[:, 2] >= 0, nodes[pairs[:, 2]]
    negative[~compared], negative_score = None, np.where(compared, scores[:, 1], np.nan)
    ends = {"src": nodes[pairs[:, 0]], "dst": nodes[pairs[:, 1]], "score": scores[:, 0]}
    return {**ends, "negative": negative, "negative_score": negative_score, "rank": rank}
