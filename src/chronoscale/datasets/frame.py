"""Conversion of datasets to pandas, and with `frame(dataset).to_parquet(path)` to Parquet."""

from __future__ import annotations

import numpy as np
import pandas as pd

from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.store import Dataset
from chronoscale.datasets.streams.events import EventStream


def frame(dataset: Dataset) -> pd.DataFrame:
    """Convert a dataset to one pandas table.

    Snapshots: a row an edge, columns snapshot, src, dst and, if there are any, weight. Events: a row an event, columns src, dst, t and, if
    there are any, label and f0, f1, …. Signal: a row a step, columns `node` for one channel, else `node.channel`; missing readings are NaN.
    The features of nodes and the edges of a signal are not in the table.
    """
    if isinstance(dataset, SnapshotSequence):
        snapshot = np.repeat(np.arange(len(dataset), dtype=np.int32), np.diff(dataset.ptr))
        table = pd.DataFrame({"snapshot": snapshot, "src": dataset.src, "dst": dataset.dst})
        return table if dataset.weight is None else table.assign(weight=dataset.weight)
    if isinstance(dataset, EventStream):
        table = pd.DataFrame({"src": dataset.src, "dst": dataset.dst, "t": dataset.t})
        if dataset.labels is not None:
            table = table.assign(label=dataset.labels)
        if dataset.features is None:
            return table
        return pd.concat([table, pd.DataFrame(dataset.features).add_prefix("f")], axis=1)
    values = dataset.values if dataset.missing is None else np.where(dataset.missing, np.nan, dataset.values)
    channels = dataset.num_channels
    columns = [f"{n}" if channels == 1 else f"{n}.{c}" for n in range(dataset.num_nodes) for c in range(channels)]
    return pd.DataFrame(values.reshape(len(dataset), -1), columns=columns)
