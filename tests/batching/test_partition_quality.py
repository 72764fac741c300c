"""How well parts divide a stream, against counts event by event."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.batching.streams.partitioning import quality as module
from chronoscale.batching.streams.partitioning.partition import SHARED, EventPartition
from chronoscale.batching.streams.partitioning.quality import PartitionQuality
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

events = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 2)), max_size=40)


def stream(given: list[tuple[int, int, int]]) -> tuple[EventStream, np.ndarray]:
    src, dst, part = (np.array([event[k] for event in given], np.int32) for k in range(3))
    return EventStream(6, src, dst, np.arange(len(given)), name="six"), part


@given(events, st.lists(st.integers(SHARED, 2), min_size=6, max_size=6), st.integers(1, 5), st.sampled_from([1, 7, 1 << 20]))
def test_counts_are_those_of_each_event(given: list[tuple[int, int, int]], node: list[int], batch: int, block: int) -> None:
    made, part = stream(given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        found = PartitionQuality.of(made, EventPartition(np.array(node, np.int32), part, 3), batch)
    batches = [given[at : at + 3 * batch] for at in range(0, len(given), 3 * batch)]
    assert found.loads.tolist() == [[sum(p == q for _, _, p in one) for q in range(3)] for one in batches]
    cut = [sum(SHARED not in (node[u], node[v]) and node[u] != node[v] for u, v, _ in one) for one in batches]
    remote = [sum(node[end] not in (SHARED, p) for u, v, p in one for end in (u, v)) for one in batches]
    assert found.cut.tolist() == cut and found.remote.tolist() == remote
    assert found.nodes.tolist() == [node.count(p) for p in range(3)] and found.shared == node.count(SHARED)
    assert found.events.tolist() == [sum(p == q for _, _, p in given) for q in range(3)]
    assert found.cut_ratios.tolist() == [cut[b] / len(one) for b, one in enumerate(batches)]
    if given:
        assert found.cut_ratio == sum(cut) / len(given) and found.remote_ratio == sum(remote) / (2 * len(given))
        whole = [b for b, one in enumerate(batches) if len(one) == len(batches[0])]
        assert found.balance.tolist() == [max(found.loads[b]) / (len(batches[b]) / 3) for b in whole]


def test_without_events() -> None:
    made, part = stream([])
    found = PartitionQuality.of(made, EventPartition(np.zeros(6, np.int32), part, 3), 4)
    assert math.isnan(found.cut_ratio) and math.isnan(found.remote_ratio) and found.balance.size == found.cut_ratios.size == 0


def test_what_is_refused() -> None:
    made, part = stream([(0, 1, 0)])
    with pytest.raises(UserError, match=r"^batch: expected at least 1 event a part, got 0$"):
        PartitionQuality.of(made, EventPartition(np.zeros(6, np.int32), part, 3), 0)
    with pytest.raises(UserError, match=r"^parts of 5 nodes and 1 events do not fit 'six', which has 6 and 1$"):
        PartitionQuality.of(made, EventPartition(np.zeros(5, np.int32), part, 3), 1)
