"""MemShare's communication model: its terms, and how near it is to what the sampler finds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from parted_stream import WIDTHS, PartedStream, fetched, once, slots

from chronoscale.batching.streams.partitioning.partition import SHARED
from chronoscale.batching.streams.partitioning.remoteness import HOT, Remoteness, partition_negatives
from chronoscale.batching.streams.partitioning.stream_partition import partition_stream
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.ranks.distributed_stream import DistributedStream
from chronoscale.batching.streams.ranks.distribution import StreamDistribution
from chronoscale.batching.streams.sampling import neighbourhood
from chronoscale.batching.streams.sampling.boundary import LocalPart
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.datasets.generate.events import RandomStream
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import UserError
from chronoscale.strategies.memshare.communication import (
    RowBytes,
    StreamCut,
    estimate_communication,
    published_communication,
    recommended_share,
    variance_bound,
)

COLUMNS = ("roots", "away", "slots", "edges", "nodes")


def power_law(seed: int, items: int = 0, events: int = 12_000) -> EventStream:
    return RandomStream(600, events, 3_000, items, 0.95, 0.95, seed=seed).stream()


def case(stream: EventStream, policy: str, count: int, share: float, remote: float = 1.0) -> PartedStream:
    parts = partition_stream(stream, count, policy, share, None, 0)
    return PartedStream(IndexedStream(stream, TCSR.of(stream)), parts, 50, 10, remote)


def test_the_equation_by_hand() -> None:
    """|E| 100, E_k 40, λ 0.3, λ̂ 0.5, n 10, θ 0.1, m 4, η 0.2; d_n 8, d_e 6, d_mem 4."""
    communication = published_communication(StreamCut(4, 100, 40, 0.3, 0.5), RowBytes(8, 6, 4), 10, 0.1, 0.2)
    assert (communication.hot_nodes, communication.hot_edges) == pytest.approx((8 * 10 * 0.1 * 0.5 * 40 * 0.8, 6 * 10 * 0.1 * 0.5 * 40))
    assert (communication.cold_nodes, communication.cold_edges) == pytest.approx(
        (8 * 0.3 * (10 * 0.1 * 160 + 100), 6 * 10 * 0.1 * 0.3 * 160)
    )
    assert communication.memory == pytest.approx(4 * 3 * 0.2 * 40) and communication.negatives == 0
    assert communication.total == pytest.approx(128 + 624 + 120 + 288 + 96) and communication.fetched == pytest.approx(
        communication.total - 96
    )
    assert published_communication(StreamCut(4, 100, 40, 0.3, 0.5), RowBytes(8, 6, 4), 10, 7.0) == published_communication(
        StreamCut(4, 100, 40, 0.3, 0.5), RowBytes(8, 6, 4), 10, 1
    )


def test_nothing_costs_nothing() -> None:
    empty = np.empty(0, np.int32)
    parts = partition_stream(stream := EventStream(3, empty, empty, np.empty(0, np.int64)), 2, "random", 0.0, None, 0)
    remoteness = Remoteness.of(stream, parts, 5, 4)
    assert (
        published_communication(StreamCut.of(remoteness), WIDTHS, 5, 0.5).total
        == estimate_communication(remoteness, WIDTHS, 0.5).total
        == 0
    )


def test_cut_is_that_of_the_stream() -> None:
    one = case(power_law(0), "shared-nodes", 4, 0.1)
    remoteness, stream = one.remoteness(), one.source.stream
    cut, home = StreamCut.of(remoteness), one.parts.node
    ends = np.stack([home[stream.src], home[stream.dst]])
    assert cut.hot_ends == np.count_nonzero(ends == SHARED) and cut.remote == remoteness.edges[HOT] / remoteness.slots[HOT]
    assert cut.cut == np.count_nonzero((ends[0] != ends[1]) & (ends != SHARED).all(0)) / len(stream)
    assert StreamCut.of(remoteness, 0.25).remote == 0.25


@pytest.mark.sample(2)
@pytest.mark.parametrize("policy", ["shared-nodes", "distgl", "random"])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("remote", [1.0, 0.2])
@pytest.mark.parametrize("count", [2, 8])
def test_with_all_neighbours_it_is_what_the_sampler_finds(policy: str, share: float, remote: float, count: int) -> None:
    parted = case(power_law(count, 200 * (share == 0.2), 4000), policy, count, share, remote)
    remoteness, sampled = parted.remoteness(), slots(parted, 1.0)
    assert {name: getattr(remoteness, name).tolist() for name in COLUMNS} == {name: getattr(sampled, name).tolist() for name in COLUMNS}
    assert remoteness.cut == sampled.cut


@pytest.mark.sample(2)
@pytest.mark.parametrize("theta", [0.1, 0.5])
@pytest.mark.parametrize("share", [0.0, 0.1])
@pytest.mark.parametrize(("count", "policy"), [(2, "shared-nodes"), (8, "shared-nodes"), (8, "distgl")])
def test_it_is_within_a_tenth(policy: str, count: int, share: float, theta: float) -> None:
    """Of what the sampler finds, each neighbour and root by itself, mean of a few draws: a root's coins are the same in each of its events.
    Of what is fetched and synchronised, each row once a batch, it is a bound."""
    for seed, items in ((0, 0), (1, 300)):
        one = case(power_law(seed, items), policy, count, share)
        communication = estimate_communication(one.remoteness(), WIDTHS, theta)
        drawn = [estimate_communication(slots(one, theta, coins), WIDTHS, 1.0) for coins in range(4)]
        assert fetched(communication) == pytest.approx(np.mean([fetched(each) for each in drawn]), rel=0.1)
        assert communication.negatives == pytest.approx(np.mean([each.negatives for each in drawn]), rel=0.1)
        work = once(one, theta)
        assert WIDTHS.node * work.asked_nodes.sum() + WIDTHS.edge * work.asked_edges.sum() < drawn[0].fetched
        assert WIDTHS.memory * (count - 1) * work.shared.sum() <= communication.memory


@pytest.mark.parametrize("theta", [0.3, 1.0])
def test_what_is_fetched_is_each_row_once(theta: float) -> None:
    """A batch's different nodes and events that other ranks have, and who has them."""
    one = case(power_law(3), "shared-nodes", 4, 0.1)
    work, source, parts = once(one, theta), one.source, one.parts
    served = np.zeros((len(work) // 4, 2, 4), np.int64)
    for at in range(len(work)):
        iteration, rank = divmod(at, 4)
        own = one.allotment.rank_events(iteration, rank)
        roots = source.roots(own, one.others(own)[:, None], one.allotment.before(iteration, rank))
        sampled = neighbourhood.sample(source.tcsr, source.stream.t, roots, one.sampling(theta, False), local_part=LocalPart(parts, rank))
        nodes = {int(node) for node in sampled.nodes if parts.node[node] not in (SHARED, rank)}
        edges = {int(event) for event in sampled.edges if parts.event[event] != rank}
        assert (work.asked_nodes[at], work.asked_edges[at]) == (len(nodes), len(edges))
        for what, homes in enumerate(([parts.node[node] for node in nodes], [parts.event[event] for event in edges])):
            np.add.at(served[iteration, what], homes, 1)
    assert np.array_equal(served[:, 0].ravel(), work.served_nodes) and np.array_equal(served[:, 1].ravel(), work.served_edges)


@pytest.mark.parametrize("remote", [0.0, 0.3, 1.0])
def test_negatives_are_those_that_ranks_draw(remote: float) -> None:
    data = PreparedStream.of(power_law(5), Protocol(seed=2))
    spreading = DistributedStream(data, StreamDistribution("shared-nodes", 0.1, remote=remote), 3)
    whole = spreading.parts
    assert whole is not None
    stream, parts = data.whole.stream.span(0, data.training_events), replace(whole, event=whole.event[: data.training_events])
    drawn = partition_negatives(stream, parts, remote, seed=2)(np.arange(data.training_events))
    for rank in range(3):
        own = np.flatnonzero(parts.event == rank)
        assert np.array_equal(drawn[own], spreading.negatives(own, rank, 0, 2)[0][:, 0])


def test_variance_bound() -> None:
    assert variance_bound(0.25, 0.5, 2.0, 3.0) == pytest.approx(0.75 * 3 + 0.25 * 7 / 0.5)
    assert variance_bound(0.0, 0.1, 2.0, 3.0) == 3
    with pytest.raises(UserError, match=r"^theta: expected more than 0, got 0$"):
        variance_bound(0.5, 0, 1, 1)


def test_recommended_share() -> None:
    assert recommended_share(3.0) == pytest.approx(0.46**2)
    assert recommended_share(2.5) == pytest.approx(0.46**3)
    with pytest.raises(UserError, match=r"^exponent: expected a power law's of more than 2, got 2$"):
        recommended_share(2)
