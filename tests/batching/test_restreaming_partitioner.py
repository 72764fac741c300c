"""The restreaming partitioner: of its passes the one that fetches least counts, within its balance."""

from __future__ import annotations

from math import ceil
from pathlib import Path

import numpy as np
import pytest
from fetched_rows import fetched_rows
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from chronoscale.batching.streams.partitioning.partition import SHARED
from chronoscale.batching.streams.partitioning.partitioner import PartitionRequest
from chronoscale.batching.streams.partitioning.restreaming_partitioner import RestreamingPartitioner
from chronoscale.batching.streams.partitioning.stream_partition import partition_stream
from chronoscale.cuda_ext.scheduling.restream import RestreamSettings
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

NODES = 9
TINY = RestreamSettings(batch=3, fanout=2, batch_slack=0.4, total_slack=0.2)


def cut(stream: EventStream, parts: int, shared: list[int], cutter: RestreamingPartitioner) -> tuple[np.ndarray, np.ndarray]:
    """Return the parts of nodes and of events."""
    blocks: list[np.ndarray] = []
    mask = np.isin(np.arange(stream.num_nodes), shared)
    node = cutter(PartitionRequest(stream, parts, mask, 0.0, 0, cutter.settings.batch, cutter.settings.fanout), blocks.append)
    return node, np.concatenate([np.empty(0, np.int32), *blocks])


def fetched(stream: EventStream, node: np.ndarray, event: np.ndarray, parts: int) -> float:
    """Return the bytes that parts fetch under TINY."""
    nodes, events = fetched_rows((stream.src, stream.dst), node, event, 3 * parts, 2)
    return 400.0 * nodes + 688.0 * events


def power_law(events: int, nodes: int, seed: int = 0) -> EventStream:
    src, dst = (np.random.default_rng(seed).random((2, events)) ** 3 * nodes).astype(np.int32)
    return EventStream(nodes, src, dst, np.arange(events) + 1_700_000_000)


@examples(30)
@given(
    st.lists(st.tuples(st.integers(0, NODES - 2), st.integers(0, NODES - 2)), max_size=50),
    st.integers(1, 4),
    st.sets(st.integers(0, NODES - 1), max_size=3),
)
def test_more_passes_never_fetch_more(pairs: list[tuple[int, int]], parts: int, shared: set[int]) -> None:
    src, dst = (np.array([pair[k] for pair in pairs], np.int32) for k in (0, 1))
    stream, bytes_of = EventStream(NODES, src, dst, np.zeros(len(pairs), np.int64)), []
    for passes in (1, 2, 4):
        node, event = cut(stream, parts, sorted(shared), RestreamingPartitioner(passes, TINY))
        bytes_of.append(fetched(stream, node, event, parts))
        assert np.flatnonzero(node == SHARED).tolist() == sorted(shared) and event.size == len(pairs)
        idle = np.setdiff1d(np.setdiff1d(np.arange(NODES), np.concatenate([src, dst])), sorted(shared))
        assert (node[idle] == idle % parts).all()
        for at in range(0, event.size, 3 * parts):
            batch = event[at : at + 3 * parts]
            assert np.bincount(batch, minlength=parts).max() <= ceil(1.4 * batch.size / parts)
        assert np.bincount(event, minlength=parts).max() <= 1.2 * event.size / parts + 2
    assert bytes_of == sorted(bytes_of, reverse=True)


def test_the_pass_that_fetches_least_counts() -> None:
    """Of single passes, each begun where the one before ended, as `RestreamPass` has them."""
    stream, better = power_law(600, 40), 0
    for seed in range(4):
        stream = power_law(600, 40, seed)
        bytes_of = [fetched(stream, *cut(stream, 3, [], RestreamingPartitioner(passes, TINY)), 3) for passes in range(1, 7)]
        assert bytes_of == sorted(bytes_of, reverse=True)
        better += bytes_of[-1] < bytes_of[0]
    assert better == 4


def test_groups_that_never_meet_fetch_nothing() -> None:
    """Two groups of six nodes and a hub that all meet, which is shared; ends of events come in one batch from both."""
    draw = np.random.default_rng(5)
    group = draw.integers(0, 2, 900)
    src, dst = draw.integers(0, 6, (2, 900)) + 6 * group
    dst[::7] = 12
    stream = EventStream(13, src.astype(np.int32), dst.astype(np.int32), np.arange(900))
    settings = RestreamSettings(batch=30, fanout=3, event_bytes=0.0, pressure=1.0, batch_slack=0.6, total_slack=0.2)
    node, event = cut(stream, 2, [12], RestreamingPartitioner(5, settings))
    assert len(set(node[:6])) == len(set(node[6:12])) == 1 and node[0] != node[6]
    assert (event == node[stream.src]).all()


def test_times_do_not_matter() -> None:
    stream = power_law(4000, 60)
    there = EventStream(60, stream.src, stream.dst, np.full(4000, 2**62))
    one, other = (partition_stream(events, 4, "restream", 0.1) for events in (stream, there))
    assert (one.event == other.event).all() and (one.node == other.node).all()


def test_parts_are_made_for_a_training(tmp_path: Path) -> None:
    """Its batches are balanced; parts that are kept for another are refused; others do not ask."""
    stream = power_law(3000, 60)
    for batch in (10, 300):
        event = partition_stream(stream, 3, "restream", batch=batch).event
        loads = [np.bincount(event[at : at + 3 * batch], minlength=3).max() for at in range(0, 3000, 3 * batch)]
        assert max(loads) <= ceil(1.05 * batch)
    partition_stream(stream, 3, "restream", folder=tmp_path / "parts", batch=10, neighbours=4)
    for other in ({"batch": 11, "neighbours": 4}, {"batch": 10, "neighbours": 5}):
        with pytest.raises(UserError, match=r"these are parts of another stream or other settings: .*, for batches of 10 and 4 neighbours"):
            partition_stream(stream, 3, "restream", folder=tmp_path / "parts", **other)
    assert partition_stream(stream, 3, batch=10).origin == partition_stream(stream, 3).origin


def test_a_node_alone_and_fewer_nodes_than_parts() -> None:
    stream = EventStream(1, np.zeros(20, np.int32), np.zeros(20, np.int32), np.arange(20))
    node, event = cut(stream, 3, [], RestreamingPartitioner(3, TINY))
    assert 0 <= node[0] < 3 and np.bincount(event, minlength=3).max() <= 1.2 * 20 / 3 + 2
    node, event = cut(EventStream(2, stream.src[:1], stream.src[:1], np.zeros(1)), 4, [0], RestreamingPartitioner())
    assert node.tolist() == [SHARED, 1] and event.tolist() == [0]


def test_no_pass_is_refused() -> None:
    with pytest.raises(UserError, match=r"^restreaming: 0 passes; expected at least 1$"):
        RestreamingPartitioner(0)
