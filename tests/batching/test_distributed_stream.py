"""A stream on several ranks: batches, negatives, contributions and what ranks exchange, against slow definitions."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_case import prepared, stream
from stream_search import NODES, earlier, sources

from chronoscale.batching.streams.partitioning.partition import SHARED, EventPartition
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.ranks.contributions import compute_contributions
from chronoscale.batching.streams.ranks.distributed_stream import DistributedStream
from chronoscale.batching.streams.ranks.distribution import RankAssignment, StreamDistribution
from chronoscale.batching.streams.ranks.local_negatives import local_training_negatives
from chronoscale.batching.streams.ranks.remote_reads import RowsByOwner
from chronoscale.batching.streams.sampling import neighbourhood
from chronoscale.batching.streams.sampling.boundary import Boundary
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.datasets.streams import draws
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.errors import UserError

Contribution = tuple[int, bool, list[int]]  # the event after which memory is written or -1, whether the node sends it, mails


def slow(
    source: IndexedStream, whole: range, holder: list[int], home: list[int] | None, newest: bool, delivers: int
) -> dict[tuple[int, int, int], Contribution]:
    """By holder, home and node."""
    stream = source.stream
    ends = {event: (int(stream.src[event]), int(stream.dst[event])) for event in whole}
    of = dict(zip(whole, holder, strict=True))
    contributions: dict[tuple[int, int, int], Contribution] = {}

    def entry(rank: int, node: int) -> tuple[int, int, int]:
        key = rank, rank if home is None else home[node], node
        contributions.setdefault(key, (-1, False, []))
        return key

    for node in range(stream.num_nodes):
        own = [event for event in whole if node in ends[event]]
        ranks = [None] if home is None or newest or home[node] != SHARED else sorted(set(holder))
        for rank in ranks:
            if some := [event for event in own if rank in (None, of[event])]:
                last = some[-1]
                mails = [] if delivers else [last]
                contributions[entry(of[last], node)] = (last, ends[last][0] == node, mails)
    if delivers:
        for event in whole:
            around = [earlier(stream, end, 0, whole.start)[-delivers:] for end in ends[event]]
            for node in sorted({*ends[event], *(other for other, _ in chain(*around))}):
                contributions[entry(of[event], node)][2].append(event)
    return contributions


@given(sources, st.data(), st.integers(1, 4), st.booleans(), st.integers(0, 3))
def test_contributions(source: IndexedStream, data: st.DataObject, ranks: int, newest: bool, delivers: int) -> None:
    """Of an iteration, wherever nodes are; a node's memory has one writer, or one a rank."""
    begin = data.draw(st.integers(0, len(source.stream) - 1))
    whole = range(begin, data.draw(st.integers(begin, len(source.stream))))
    replica = data.draw(st.booleans())
    holder = (
        [ranks - 1] * len(whole) if replica else data.draw(st.lists(st.integers(0, ranks - 1), min_size=len(whole), max_size=len(whole)))
    )
    home = None if replica else data.draw(st.lists(st.integers(SHARED, ranks - 1), min_size=NODES, max_size=NODES))
    places = None if home is None else np.array(home, np.int32)
    contributions = compute_contributions(source, whole, np.array(holder, np.int64), places, newest, delivers)
    expected = slow(source, whole, holder, home, newest, delivers)
    assert list(zip(contributions.holder.tolist(), contributions.home.tolist(), contributions.node.tolist(), strict=True)) == sorted(
        expected
    )
    values = [expected[key] for key in sorted(expected)]
    assert contributions.last.tolist() == [last for last, _, _ in values] and contributions.source.tolist() == [
        sends for _, sends, _ in values
    ]
    mails = [(place, event) for place, (_, _, events) in enumerate(values) for event in sorted(events)]
    assert list(zip(contributions.to.tolist(), contributions.event.tolist(), strict=True)) == mails
    counts = contributions.counts(ranks)
    for rank in range(ranks):
        own = [key for key in sorted(expected) if key[0] == rank]
        assert contributions.node[contributions.of(rank)].tolist() == [node for _, _, node in own]
        assert counts[rank].tolist() == [sum(at == place for _, at, _ in own) for place in range(SHARED, ranks)]
    counted = np.array([newest or home is None or home[node] != SHARED for node in contributions.node.tolist()], bool)
    written = contributions.node[(contributions.last >= 0) & counted]
    assert len(set(written.tolist())) == len(written)


parts = st.builds(lambda first, count: range(first, first + count), st.integers(0, 20), st.integers(0, 60))


@given(parts, st.integers(1, 5), st.integers(1, 9), st.integers(0, 4), st.integers(1, 3), st.integers(0, 99))
def test_every_event_is_of_one_rank(part: range, ranks: int, size: int, limit: int, every: int, seed: int) -> None:
    """By parts those of the deal's iterations, by replicas each span's own; what is evaluated, the last replica has all of."""
    events = np.random.default_rng(seed).integers(0, ranks, part.stop).astype(np.int32)
    cut = RankAssignment(BatchAssignment(part, ranks, size, limit, every), EventPartition(np.zeros(3, np.int32), events, ranks))
    assert cut.iterations == cut.batches.iterations
    for i in range(cut.iterations):
        whole = cut.batches.all_events(i)
        own = [cut.rank_events(i, rank) for rank in range(ranks)]
        assert sorted(np.concatenate(own).tolist()) == list(whole) and cut.size(i) == len(whole)
        assert all(events[numbers].tolist() == [rank] * len(numbers) for rank, numbers in enumerate(own))
        assert all((np.diff(numbers) > 0).all() for numbers in own)
        assert {cut.before(i, rank) for rank in range(ranks)} == {whole.start}
    for whole_of_it in (False, True):
        spans = RankAssignment(BatchAssignment(part, ranks, size, limit, every), None, whole_of_it)
        seen = [list(chain(*(spans.rank_events(i, rank).tolist() for i in range(spans.iterations)))) for rank in range(ranks)]
        for i in range(spans.iterations):
            assert spans.size(i) == sum(len(spans.rank_events(i, rank)) for rank in range(ranks))
            assert all(spans.rank_events(i, rank).tolist()[:1] in ([], [spans.before(i, rank)]) for rank in range(ranks))
            assert max(len(spans.rank_events(i, rank)) for rank in range(ranks)) <= size
        flat = list(chain(*seen))
        assert flat == sorted(set(flat)) and set(flat) <= set(part)  # spans one after another
        if whole_of_it:
            assert not any(seen[:-1]) and (limit or every > 1 or flat == list(part))
        elif not limit and every == 1:
            assert flat == list(part) and max(map(len, seen)) - min(map(len, seen)) <= 1
            assert spans.iterations == cut.iterations


def spreads() -> dict[str, StreamDistribution]:
    return {
        "all": StreamDistribution("random", 0.25),
        "own": StreamDistribution("random", 0.25, newest=False, remote=0.3),
        "local": StreamDistribution("shared-nodes", 0.0, remote=0.0),
        "replicas": StreamDistribution("", newest=False),
    }


def case(tmp_path, task: str = "link", hidden: float = 0.0) -> PreparedStream:
    return PreparedStream.load(prepared(tmp_path, stream(seed=3, labels=True), task=task, hidden=hidden))


@pytest.mark.sample(32)
@pytest.mark.parametrize("hidden", [0.0, 0.2])
@pytest.mark.parametrize("validates", [False, True])
@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("name", spreads())
@pytest.mark.parametrize("edges", [False, True])
def test_work(tmp_path, name: str, ranks: int, validates: bool, hidden: float, edges: bool) -> None:
    """Batch by batch, from sets of what is sampled and dictionaries of who computes what; read back from the folder alike."""
    data, spread = case(tmp_path, hidden=hidden), spreads()[name]
    made, size, source = DistributedStream(data, spread, ranks), 4, data.whole if validates else data.training
    bounded = Boundary(0.5, 0.1) if name == "own" else None
    sampling = Sampling((3, 2), delivers=2 * (name == "all"), boundary=bounded)
    work = made.work(validates, size, sampling, 0, 1, edges)
    allotment = made.assignment(data.split.validation if validates else range(data.training_events), size, validates=validates)
    assert len(work) == allotment.iterations * ranks
    cut = made.parts
    numbers = np.arange(len(source.stream)) if source.numbers is None else source.numbers
    seed = draws.derive_key(0, draws.FIXED_EPOCH if validates else 0)
    for i in range(allotment.iterations):
        requests: list[list[tuple[set[int], set[int]]]] = []
        for rank in range(ranks):
            at, own = i * ranks + rank, allotment.rank_events(i, rank)
            assert work.events[at] == own.size
            requests.append([(set(), set())] * ranks)
            if not own.size:
                assert not (work.roots[at] or work.targets[at].any() or work.nodes[at] or work.asked_nodes[at] or work.asked_edges[at])
                continue
            others = data.negatives_of(True, 0, 0)(own) if validates else made.negatives(own, rank, 0, 0)[0]
            roots = source.roots(own, others, allotment.before(i, rank))
            sampled = neighbourhood.sample(source.tcsr, source.stream.t, roots, sampling, seed, local_part=made.local_part(validates, rank))
            (tree,) = sampled.trees
            assert work.roots[at] == roots[0].size == 3 * own.size
            assert work.targets[at].tolist() == [len(level) for level in tree.levels]
            assert work.sampled[at].tolist() == [int(hop.there.sum()) for hop in tree.hops]
            nodes, events = set(sampled.nodes.tolist()), {int(numbers[event]) for event in sampled.edges}
            assert (work.nodes[at], work.edges[at]) == (len(nodes), len(events))
            if cut is not None:
                requests[-1] = [
                    ({n for n in nodes if cut.node[n] == q != rank}, {e for e in events if edges and cut.event[e] == q != rank})
                    for q in range(ranks)
                ]
        for rank in range(ranks):
            at = i * ranks + rank
            assert (work.asked_nodes[at], work.asked_edges[at]) == tuple(sum(len(one[k]) for one in requests[rank]) for k in (0, 1))
            assert (work.served_nodes[at], work.served_edges[at]) == tuple(sum(len(one[rank][k]) for one in requests) for k in (0, 1))
        ranks_of = (
            [(allotment.batches.all_events(i), None)]
            if cut is not None
            else [(allotment.rank_events(i, rank), rank) for rank in range(ranks)]
        )
        keys: list[tuple[int, int, int]] = []
        for events, rank in ranks_of:
            some = range(int(events[0]), int(events[-1]) + 1) if len(events) else range(0)
            holder = [int(cut.event[numbers[event]]) if cut is not None else rank for event in some]
            home = None if cut is None else cut.node.tolist()
            keys += slow(source, some, holder, home, spread.newest, sampling.delivers)  # type: ignore[arg-type]
        for rank in range(ranks):
            at = i * ranks + rank
            own_keys = [(holder, home) for holder, home, _ in keys if holder == rank]
            assert work.computed[at] == len(own_keys) and work.shared[at] == own_keys.count((rank, SHARED))
            assert work.sent[at] == sum(home not in (rank, SHARED) for _, home in own_keys)
            come = sum(home == rank != holder for holder, home, _ in keys)
            assert work.come[at] == come and work.everywhere[at] == sum(home == SHARED for _, home, _ in keys)
            assert work.settled[at] == come + own_keys.count((rank, rank)) + (0 if spread.newest else work.shared[at])
    again = DistributedStream(PreparedStream.load(tmp_path / "prepared"), spread, ranks).work(validates, size, sampling, 0, 1, edges)
    assert all((getattr(work, field) == getattr(again, field)).all() for field in work.__slots__)


@given(st.lists(st.integers(SHARED, 3), max_size=20), st.integers(0, 3))
def test_rows_stand_by_where_they_are(home: list[int], rank: int) -> None:
    """Own and shared ones first, in their order; then those of each other rank."""
    by_owner = RowsByOwner(np.arange(100, 100 + len(home)), np.array(home, np.int64), rank, 4)
    near = [k for k, at in enumerate(home) if at in (rank, SHARED)]
    away = [k for other in range(4) if other != rank for k, at in enumerate(home) if at == other]
    assert by_owner.order.tolist() == near + away and by_owner.ids.tolist() == [100 + k for k in near + away]
    assert by_owner.own == len(near) and by_owner.asked.tolist() == [100 + k for k in away]
    assert by_owner.counts.tolist() == [0 if other == rank else home.count(other) for other in range(4)]


@pytest.mark.parametrize("hidden", [0.0, 0.2])
@pytest.mark.parametrize("variant", ["exact", "as-published"])
def test_negatives_are_those_of_the_ranks_own_nodes(tmp_path, hidden: float, variant: str) -> None:
    data = case(tmp_path, hidden=hidden)
    events = np.arange(0, data.training_events, 2)
    for remote in (0.0, 0.3, 1.0):
        made = DistributedStream(data, StreamDistribution("shared-nodes", 0.2, remote=remote), 3, variant)
        assert made.parts is not None
        for rank in range(3):
            drawn, weight = made.negatives(events, rank, 4, 7)
            if remote == 1:
                assert weight is None and (drawn == data.negatives_of_training(events, 4, 7)).all()
                continue
            local = np.array([node for node in data.among.tolist() if made.parts.node[node] in (rank, SHARED)], np.int32)
            dst = data.training.stream.dst[events]
            arguments = dst, events, data.among, local, remote
            expected = local_training_negatives(*arguments, seed=7, epoch=4, variant=variant)  # type: ignore[arg-type]
            assert weight is not None and (drawn == expected[0]).all() and (weight == expected[1]).all()
            if not remote:
                usual = (set(local.tolist()) - {own} or set(data.among.tolist()) for own in dst.tolist())
                assert all(node in few for node, few in zip(drawn[:, 0].tolist(), usual, strict=True))
    replicas = DistributedStream(data, StreamDistribution("", remote=0.3), 3)
    assert replicas.negatives(events, 1, 0, 0)[1] is None


def test_labels_have_no_negatives(tmp_path) -> None:
    made = DistributedStream(case(tmp_path, task="node"), StreamDistribution("random", 0.2, remote=0.3), 3)
    drawn, weight = made.negatives(np.arange(5), 1, 0, 0)
    assert drawn.shape == (5, 0) and weight is None


@pytest.mark.parametrize("hidden", [0.0, 0.2])
def test_training_events_have_numbers_of_their_own(tmp_path, hidden: float) -> None:
    """Where nodes are hidden; parts are of the whole stream, and kept with it."""
    data = case(tmp_path, hidden=hidden)
    made = DistributedStream(data, StreamDistribution("random", 0.2), 3)
    whole, trained = made.parts_of(True), made.parts_of(False)
    assert whole is made.parts and whole is not None and trained is not None
    numbers = data.training.numbers
    assert (numbers is not None) == bool(hidden)
    expected = whole.event if numbers is None else whole.event[numbers]
    assert (trained.event == expected).all() and len(trained.event) == len(data.training.stream)
    assert (trained.node == whole.node).all()
    for rank in range(3):
        seat = made.local_part(False, rank)
        assert seat is not None and (seat.parts.event == expected).all() and seat.rank == rank
        assert (made.here(rank) == ((whole.node == rank) | (whole.node == SHARED))).all()
    (folder,) = (data.folder / "parts").iterdir()  # type: ignore[operator]
    again = DistributedStream(PreparedStream.load(tmp_path / "prepared"), StreamDistribution("random", 0.2), 3).parts
    assert again is not None and (again.node == whole.node).all() and (again.event == whole.event).all()
    in_memory = DistributedStream(
        PreparedStream.of(stream(seed=3, labels=True), Protocol(ranked=3, hidden=hidden)), StreamDistribution("random", 0.2), 3
    ).parts
    assert in_memory is not None and (in_memory.event == whole.event).all()
    (folder / "event.npy").write_bytes((folder / "event.npy").read_bytes()[:-4])
    with pytest.raises(UserError, match=r"event\.npy"):
        _ = DistributedStream(PreparedStream.load(tmp_path / "prepared"), StreamDistribution("random", 0.2), 3).parts


def test_replicas_have_everything(tmp_path) -> None:
    made = DistributedStream(case(tmp_path), StreamDistribution(""), 4)
    assert isinstance(made, DistributedStream) and made.parts is None and made.local_part(False, 1) is None and made.here(2).all()


def test_more_parts_than_nodes(tmp_path) -> None:
    with pytest.raises(UserError, match="10 parts of 'small': only 9 of its 9 nodes are not shared; expected at most as many parts"):
        _ = DistributedStream(case(tmp_path), StreamDistribution("random"), 10).parts
    with pytest.raises(UserError, match="unknown partition"):
        _ = replace(DistributedStream(case(tmp_path / "again"), StreamDistribution("randomly"), 2)).parts
