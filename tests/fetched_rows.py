"""Rows that the parts of a stream fetch from each other, counted from sets of its events: an oracle without code of the package."""

from __future__ import annotations

import numpy as np

SHARED = -1


def fetched_rows(ends: tuple[np.ndarray, np.ndarray], node: np.ndarray, event: np.ndarray, batch: int, fanout: int) -> tuple[int, int]:
    """Count rows of nodes and of events that parts fetch, each once a part's batch.

    ends: src and dst [M]; node [N]: the part of each node, or SHARED; event [M]: of each event; batch: events of all parts in a batch;
    fanout: latest events of a node that are read.
    """
    pairs, nodes, events = list(zip(*(column.tolist() for column in ends), strict=True)), 0, 0
    for first in range(0, len(pairs), batch):
        for part in sorted(set(event[first : first + batch].tolist())):
            roots = {v for e in range(first, min(first + batch, len(pairs))) if event[e] == part for v in pairs[e]}
            past = {e for v in roots for e in [e for e in range(first) if v in pairs[e]][-fanout:]}
            nodes += sum(node[v] not in (SHARED, part) for v in roots | {v for e in past for v in pairs[e]})
            events += sum(event[e] != part for e in past)
    return nodes, events
