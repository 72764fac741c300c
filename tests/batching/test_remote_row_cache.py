"""RemoteRowCache: against sets and versions of rows, batch after batch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.ranks.distributed_stream import DistributedStream
from chronoscale.batching.streams.ranks.distribution import StreamDistribution
from chronoscale.batching.streams.ranks.remote_row_cache import CacheSlots
from chronoscale.batching.streams.sampling import neighbourhood
from chronoscale.batching.streams.sampling.boundary import LocalPart
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.datasets.generate.events import RandomStream
from chronoscale.datasets.streams import draws
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.protocol import Protocol

RANKS, SIZE, FANOUT = 3, 40, 5
DATA = PreparedStream.of(EventStream.from_blocks(list(RandomStream(60, 900, 300, source_skew=0.9, destination_skew=0.9))), Protocol())


ids_of = st.sets(st.integers(0, 9), max_size=8)


@given(st.integers(1, 6), st.lists(st.tuples(ids_of, st.sets(st.integers(0, 9), max_size=3), ids_of), max_size=20))
def test_hits_are_what_was_written_and_not_invalidated_since(capacity: int, steps: list[tuple[set[int], set[int], set[int]]]) -> None:
    """A memory of slots that holds ids, and the version that each had when it came; of some an earlier version will do, and stays."""
    table, version = CacheSlots(10, capacity), dict.fromkeys(range(10), 0)
    contents: dict[int, tuple[int, int]] = {}
    for asked, dropped, old in steps:
        ids = np.array(sorted(asked), np.int32)
        there = {row for slot, (row, _) in contents.items() if table.slots[row] == slot}
        assert there == set(np.flatnonzero(table.slots >= 0).tolist())
        current = {row for slot, (row, of) in contents.items() if table.slots[row] == slot and of == version[row]}
        lookup = table.look_up(ids, np.isin(ids, list(old)) if old else None)
        for row, slot in zip(ids[lookup.hit].tolist(), lookup.slot[lookup.hit].tolist(), strict=True):
            assert contents[slot][0] == row and (contents[slot][1] == version[row] or row in old)
        assert set(ids[lookup.hit].tolist()) == asked & (current | there & old)
        new = lookup.slot[~lookup.hit]
        stored = new[new >= 0]
        assert len(set(stored.tolist())) == len(stored) and (stored < capacity).all()
        assert len(stored) or not len(new)
        contents |= {slot: (row, version[row]) for row, slot in zip(ids[~lookup.hit].tolist(), new.tolist(), strict=True) if slot >= 0}
        table.invalidate(np.array(sorted(dropped), np.int32))
        for row in dropped:
            version[row] += 1


def written(stream: EventStream, events: range, delivers: int) -> set[int]:
    """The ends of events, and the other ends of the latest `delivers` events that each of these had before."""
    ends = {int(node) for event in events for node in (stream.src[event], stream.dst[event])}
    nodes = set(ends)
    for node in ends:
        earlier = [event for event in range(events.start) if node in (stream.src[event], stream.dst[event])]
        for event in earlier[-delivers:] if delivers else []:
            nodes.add(int(stream.src[event] + stream.dst[event] - node))
    return nodes


@pytest.mark.parametrize("delivers", [0, 2])
def test_with_room_for_all_a_row_is_fetched_once_a_version(delivers: int) -> None:
    """Counted with sets: of a node after every iteration that writes it, of an event once."""
    sampling = Sampling((FANOUT,), delivers=delivers)
    cached, every = (DistributedStream(DATA, StreamDistribution("shared-nodes", cached_rows=rows), RANKS) for rows in (10**6, 0))
    work, without = (spreading.work(False, SIZE, sampling, 0, 1, True) for spreading in (cached, every))
    source, allotment, stream = cached.source(False), cached.assignment(range(DATA.training_events), SIZE), cached.source(False).stream
    assert allotment.parts is not None
    seed = draws.derive_key(DATA.protocol.seed, 0)
    version: dict[int, int] = {}
    had: list[dict[int, int]] = [{} for _ in range(RANKS)]
    seen: list[set[int]] = [set() for _ in range(RANKS)]
    nodes, edges = [], []
    for iteration in range(allotment.iterations):
        whole = allotment.batches.all_events(iteration)
        for rank in range(RANKS):
            own = allotment.rank_events(iteration, rank)
            away, events = set(), set()
            if own.size:
                roots = source.roots(own, cached.negatives(own, rank, 0, DATA.protocol.seed)[0], whole.start, sampling.sources)
                sampled = neighbourhood.sample(source.tcsr, stream.t, roots, sampling, seed, local_part=LocalPart(allotment.parts, rank))
                away = {int(node) for node in sampled.nodes if allotment.parts.node[node] != rank}
                events = {int(event) for event in sampled.edges if allotment.parts.event[event] != rank}
            nodes.append(sum(had[rank].get(node, -1) != version.get(node, 0) for node in away))
            edges.append(len(events - seen[rank]))
            had[rank] |= {node: version.get(node, 0) for node in away}
            seen[rank] |= events
        version |= dict.fromkeys(written(stream, whole, delivers), iteration + 1)
    assert work.asked_nodes.tolist() == nodes and work.asked_edges.tolist() == edges
    for kind in ("nodes", "edges"):
        asked, hits, fetched = getattr(work, f"asked_{kind}"), getattr(work, f"cached_{kind}"), getattr(without, f"asked_{kind}")
        assert np.array_equal(asked + hits, fetched) and hits.any() and not getattr(without, f"cached_{kind}").any()
        served = getattr(work, f"served_{kind}").reshape(-1, RANKS).sum(1)
        assert np.array_equal(served, asked.reshape(-1, RANKS).sum(1))
