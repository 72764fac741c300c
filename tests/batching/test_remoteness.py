"""What of a stream and its recent neighbours is in other parts, against counts root by root."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.batching.streams.partitioning import remoteness as module
from chronoscale.batching.streams.partitioning.partition import SHARED, EventPartition
from chronoscale.batching.streams.partitioning.remoteness import Remoteness
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

events = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 2)), max_size=40)


def stream(given: list[tuple[int, int, int]]) -> tuple[EventStream, np.ndarray]:
    src, dst, part = (np.array([event[k] for event in given], np.int32) for k in range(3))
    return EventStream(6, src, dst, np.arange(len(given)), name="six"), part


@given(
    events,
    st.lists(st.integers(SHARED, 2), min_size=6, max_size=6),
    st.integers(1, 4),
    st.integers(1, 9),
    st.sampled_from([1, 7, 1 << 20]),
    st.none() | st.lists(st.integers(0, 5), min_size=40, max_size=40),
)
def test_counts_are_those_of_each_root(
    given: list[tuple[int, int, int]], node: list[int], n: int, batch: int, block: int, told: list[int] | None
) -> None:
    made, part = stream(given)
    others = None if told is None else lambda events: np.array(told, np.int32)[events]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        found = Remoteness.of(made, EventPartition(np.array(node, np.int32), part, 3), n, batch, others)
    expected = {name: [0, 0, 0] for name in ("roots", "away", "slots", "edges", "nodes")}
    for number, (u, v, p) in enumerate(given):
        for root, kind in [(u, node[u] != SHARED), (v, node[v] != SHARED), *([] if told is None else [(told[number], 2)])]:
            expected["roots"][kind] += 1
            expected["away"][kind] += node[root] not in (SHARED, p)
            past = [(where, dst if src == root else src) for src, dst, where in given[: number - number % batch] if root in (src, dst)]
            for where, other in past[-n:]:
                expected["slots"][kind] += 1
                expected["edges"][kind] += where != p
                expected["nodes"][kind] += node[other] not in (SHARED, p)
    assert {name: getattr(found, name).tolist() for name in expected} == expected
    assert found.cut == sum(SHARED not in (node[u], node[v]) and node[u] != node[v] for u, v, _ in given)
    assert (found.events, found.parts, found.neighbours) == (len(given), 3, n)


def test_what_is_refused() -> None:
    made, part = stream([(0, 1, 0)])
    parts = EventPartition(np.zeros(6, np.int32), part, 3)
    for n, batch in ((0, 1), (1, 0)):
        with pytest.raises(UserError, match=rf"^expected at least 1 neighbour and batches of at least 1 event, got {n} and {batch}$"):
            Remoteness.of(made, parts, n, batch)
    with pytest.raises(UserError, match=r"^parts of 5 nodes and 1 events do not fit 'six', which has 6 and 1$"):
        Remoteness.of(made, EventPartition(np.zeros(5, np.int32), part, 3), 1, 1)
