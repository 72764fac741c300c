"""Redundancy of sampled batches against a slow reading of its definitions, and the rates of what is known by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.redundancy import Redundancy, RedundancyDefinition, measure_redundancy
from chronoscale.datasets.generate.events import RandomStream
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import UserError


def source(events: EventStream) -> IndexedStream:
    return IndexedStream(events, TCSR.of(events))


def stream(nodes: int, pairs: list[tuple[int, int]]) -> EventStream:
    src, dst = (np.array(end, np.int32) for end in zip(*pairs, strict=True))
    return EventStream(nodes, src, dst, np.arange(len(pairs)))


class Slow:
    """Table 1's definitions, id by id, by looking through all events for every root."""

    def __init__(self, events: EventStream, size: int, reading: RedundancyDefinition, negatives: np.ndarray | None = None) -> None:
        self.ends = list(zip(events.src.tolist(), events.dst.tolist(), strict=True))
        self.reading, self.negatives = reading, negatives
        starts = range(0, len(self.ends), size)
        self.found = {start: self.sampled(start, min(start + size, len(self.ends))) for start in starts}
        self.size = size

    def recent(self, node: int, before: int, fanout: int) -> list[tuple[int, int]]:
        """(neighbour, event), the latest first."""
        met = []
        for event in reversed(range(before)):
            if node in self.ends[event]:
                src, dst = self.ends[event]
                met.append((dst if node == src else src, event))
        return met[:fanout]

    def sampled(self, start: int, stop: int) -> tuple[list[int], list[int], list[int]]:
        span = range(start, stop)
        roots = [self.ends[e][0] for e in span] + [self.ends[e][1] for e in span]
        roots += [] if self.negatives is None else self.negatives[start:stop].ravel().tolist()
        nodes, edges, level, degrees = list(roots) if self.reading.roots else [], [], [(root, start) for root in roots], []
        for hop, fanout in enumerate(self.reading.fanouts):
            following = []
            for node, before in level:
                met = self.recent(node, before, fanout)
                degrees += [len(met)] if hop == 0 else []
                nodes += [other for other, _ in met]
                edges += [event for _, event in met]
                following += met
            level = following
        return nodes, edges, degrees

    def check(self, found: Redundancy, every: int = 1) -> None:
        chosen = list(self.found)[::every]
        for what in range(2):
            repeats = [1 - len(set(self.found[s][what])) / len(self.found[s][what]) for s in chosen if self.found[s][what]]
            assert found.repeat[what] == pytest.approx(np.mean(repeats) if repeats else math.nan, nan_ok=True)
            matches = []
            for start in chosen:
                later = start + self.reading.lag * self.size
                if later in self.found:
                    one, other = set(self.found[start][what]), set(self.found[later][what])
                    if one and other:
                        matches.append(len(one & other) / min(len(one), len(other)))
            assert found.match[what] == pytest.approx(np.mean(matches) if matches else math.nan, nan_ok=True)
        degrees = [degree for start in chosen for degree in self.found[start][2]]
        assert found.degree == pytest.approx(np.mean(degrees))
        assert found.degrees.sum() == len(degrees) and found.distribution.sum() == pytest.approx(1)
        some = [degree for degree in degrees if degree]
        assert found.degree_of_found == pytest.approx(np.mean(some) if some else math.nan, nan_ok=True)
        most = max(degrees)
        if most > 1:  # eq. 2, degree by degree
            rate = sum((degrees.count(d) / len(degrees)) * (most - d) / (most - 1) for d in set(degrees))
            assert found.unbalance == pytest.approx(rate)
        else:
            assert math.isnan(found.unbalance)


@given(
    st.integers(3, 9),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=40),
    st.integers(1, 7),
    st.lists(st.integers(1, 4), min_size=1, max_size=2),
    st.booleans(),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 2),
)
def test_rates_are_those_of_the_definitions(nodes, pairs, size, fanouts, roots, lag, every, negatives):
    events = stream(nodes, [(a % nodes, b % nodes) for a, b in pairs])
    reading = RedundancyDefinition(tuple(fanouts), roots, lag)
    others = np.random.default_rng(0).integers(nodes, size=(len(events), negatives), dtype=np.int32) if negatives else None
    given = None if others is None else lambda part: others[part.start : part.stop]
    found = measure_redundancy(source(events), BatchAssignment(range(len(events)), 1, size, every=every), reading, given)
    Slow(events, size, reading, others).check(found, every)


def test_rates_by_hand():
    # Batch 0 sees nothing. Batch 1: roots 0, 0, 1, 1 have (1: events 0, 1), twice, and (0: 0, 1), twice. Batch 2: roots 0, 2, 1, 3.
    events = stream(4, [(0, 1), (0, 1), (0, 1), (0, 1), (0, 1), (2, 3)])
    found = measure_redundancy(source(events), BatchAssignment(range(6), 1, 2), RedundancyDefinition((2,)))
    assert found.repeat.node == pytest.approx(np.mean([1 - 2 / 8, 1 - 2 / 4]))
    assert found.repeat.edge == pytest.approx(np.mean([1 - 2 / 8, 1 - 2 / 4]))
    assert (found.match.node, found.match.edge) == (1.0, 0.0)  # of batches 1 and 2; events 0, 1 and 2, 3
    assert found.degrees.tolist() == [4 + 2, 0, 4 + 2]
    assert (found.degree, found.degree_of_found, found.unbalance) == (1.0, 2.0, 1.0)


def test_the_last_batch_may_be_short_and_has_no_pair():
    events = RandomStream(20, 105, 40, seed=1).stream()
    found = measure_redundancy(source(events), BatchAssignment(range(105), 1, 10), RedundancyDefinition((3,)))
    assert found.degrees.sum() == 210
    Slow(events, 10, RedundancyDefinition((3,))).check(found)


def test_nothing_sampled_has_no_rates():
    found = measure_redundancy(source(stream(2, [(0, 1)])), BatchAssignment(range(1), 1, 10))
    assert all(math.isnan(rate) for rate in (*found.match, *found.repeat, found.unbalance, found.degree_of_found))
    assert found.degree == 0 and found.distribution[0] == 1


def test_every_batch_and_spaced_ones_agree_on_an_even_stream():
    events = RandomStream(200, 40_000, 400, seed=2).stream()
    whole, spaced = (measure_redundancy(source(events), BatchAssignment(range(20_000, 40_000), 1, 200, every=every)) for every in (1, 7))
    assert whole.repeat == pytest.approx(spaced.repeat, abs=0.02) and whole.match == pytest.approx(spaced.match, abs=0.04)


@pytest.mark.parametrize("wrong", [{"lag": 0}, {"fanouts": ()}, {"fanouts": (3, 0)}])
def test_readings_that_say_nothing_are_refused(wrong):
    with pytest.raises(UserError, match="expected fan-outs and a lag of at least 1, got"):
        RedundancyDefinition(**wrong)


@pytest.mark.parametrize("deal", [BatchAssignment(range(10), 2, 5), BatchAssignment(range(0), 1, 5)])
def test_deals_without_batches_of_one_rank_are_refused(deal):
    with pytest.raises(UserError, match=r"expected batches of one rank, got \d of \d"):
        measure_redundancy(source(stream(2, [(0, 1)] * 10)), deal)
