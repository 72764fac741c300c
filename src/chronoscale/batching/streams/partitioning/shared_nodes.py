"""Choice of the nodes that all parts share: those with most events."""

from __future__ import annotations

import numpy as np

from chronoscale.batching.streams.partitioning.partitioner import BLOCK
from chronoscale.datasets.arrays import Bool, release
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError


def most_active_nodes(stream: EventStream, share: float, trained: int | None = None) -> Bool:
    """Choose the nodes of a stream that all parts of its partition share, the round(share · N) of highest degree: a mask, bool [N]
    (MemShare §3.2). Of equal ones the lowest ids; none without events.

    Degree: ends of events, of the first `trained` ones (None: of all), so that what is tested on has no say. Raises UserError for a share
    outside [0, 1) and for `trained` outside 0..M.
    """
    if not 0 <= share < 1:
        raise UserError(f"shared: expected a share of the nodes, from 0 to below 1, got {share}")
    trained = len(stream) if trained is None else trained
    if not 0 <= trained <= len(stream):
        raise UserError(f"trained: expected 0..{len(stream)} events, got {trained}")
    shared = np.zeros(stream.num_nodes, np.bool_)
    if not (count := round(share * stream.num_nodes)):
        return shared
    degree = np.zeros(stream.num_nodes, np.int64)
    for begin in range(0, trained, BLOCK):
        for end in (stream.src, stream.dst):
            degree += np.bincount(end[begin : min(begin + BLOCK, trained)], minlength=stream.num_nodes)
            release(end)
    order = np.argsort(-degree, kind="stable")[:count]
    shared[order[degree[order] > 0]] = True
    return shared
