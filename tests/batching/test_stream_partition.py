"""Parts of a stream: what every partitioner holds to, and what is kept of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from chronoscale.batching.snapshots import partition
from chronoscale.batching.streams.partitioning import node_partitioners as metis_module
from chronoscale.batching.streams.partitioning import partitioner
from chronoscale.batching.streams.partitioning.partition import SHARED, EventPartition
from chronoscale.batching.streams.partitioning.policies import PARTITIONERS
from chronoscale.batching.streams.partitioning.shared_nodes import most_active_nodes
from chronoscale.batching.streams.partitioning.stream_partition import default_decay, partition_stream
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

NODES = 9


def stream(ends: list[tuple[int, int]], nodes: int = NODES, times: list[int] | None = None) -> EventStream:
    src, dst = (np.array([pair[k] for pair in ends], np.int32) for k in (0, 1))
    return EventStream(nodes, src, dst, np.arange(len(ends)) if times is None else np.array(times), name="a stream")


@pytest.fixture
def without_metis(monkeypatch: pytest.MonkeyPatch) -> None:
    """METIS takes half a second: in its place, nodes in order of their degrees, dealt out."""

    def dealt(src: np.ndarray, dst: np.ndarray, nodes: int, parts: int) -> np.ndarray:
        assert not (src == dst).any() and len(np.unique(src * nodes + dst)) == len(src)  # a simple graph
        degree = np.bincount(np.concatenate([src, dst]), minlength=nodes)
        labels = np.empty(nodes, np.int32)
        labels[np.argsort(-degree, kind="stable")] = np.arange(nodes) % parts
        return labels

    monkeypatch.setattr(metis_module, "metis_assignment", dealt)


ends = st.lists(st.tuples(st.integers(0, NODES - 2), st.integers(0, NODES - 2)), max_size=40)  # the last node has no events


@pytest.mark.usefixtures("without_metis")
@pytest.mark.parametrize("policy", PARTITIONERS)
@examples(40)
@given(ends, st.integers(1, 3), st.sampled_from([0.0, 0.1, 0.3, 0.6]), st.integers(0, 5), st.sampled_from([3, 1 << 20]))
def test_every_event_is_in_one_part_and_every_node_in_one_or_in_all(
    policy: str, pairs: list[tuple[int, int]], count: int, share: float, seed: int, block: int
) -> None:
    events = stream(pairs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitioner, "BLOCK", block)
        partition = partition_stream(events, count, policy, share, seed=seed)
    again = partition_stream(events, count, policy, share, seed=seed)
    assert (partition.event == again.event).all() and (partition.node == again.node).all() and partition.digest == again.digest
    assert partition.event.size == len(events) and partition.node.size == NODES and partition.count == count
    assert partition.shared.tolist() == np.flatnonzero(most_active_nodes(events, share)).tolist()
    assert all(sum(partition.here(p)[v] for p in range(count)) == (count if v in partition.shared else 1) for v in range(NODES))
    for u, v, part in zip(events.src, events.dst, partition.event, strict=True):
        parts = {int(partition.node[end]) for end in (u, v)}
        if policy in ("metis", "random") and parts != {SHARED}:
            assert part == (partition.node[u] if partition.node[u] != SHARED else partition.node[v])
        elif policy != "restream" and SHARED in parts and len(parts) == 2:
            assert {int(part)} == parts - {SHARED}
    if policy in ("shared-nodes", "distgl", "restream"):
        idle = np.setdiff1d(np.arange(NODES), np.concatenate([events.src, events.dst]))
        assert (partition.node[idle] == idle % count).all()


def test_shared_are_the_nodes_of_highest_degree() -> None:
    """Degrees 3, 3, 4, 2, 0: of five nodes, by share; of equal degree the lower id, none without events, none for what comes later."""
    events = stream([(0, 2), (1, 2), (0, 1), (0, 2), (1, 2), (3, 3)], 5)
    for share, nodes in ((0, []), (0.09, []), (0.2, [2]), (0.4, [0, 2]), (0.6, [0, 1, 2]), (0.99, [0, 1, 2, 3])):
        assert np.flatnonzero(most_active_nodes(events, share)).tolist() == nodes
    assert np.flatnonzero(most_active_nodes(events, 0.2, trained=3)).tolist() == [0]
    assert np.flatnonzero(most_active_nodes(events, 0.99, trained=1)).tolist() == [0, 2]


@pytest.mark.parametrize(
    ("begin", "dtype"), [(1_700_000_000, np.int64), (-(2**62), np.int64), (2**63 - 41, np.int64), (1_700_000_000, np.float64)]
)
def test_parts_do_not_depend_on_where_the_clock_begins(begin: int, dtype: type) -> None:
    generator = np.random.default_rng(3)
    src, dst = generator.integers(0, 8, (2, 200)).astype(np.int32)
    moved = np.sort(generator.integers(0, 40, 200))
    here, there = (EventStream(8, src, dst, (moved + by).astype(dtype)) for by in (0, begin))
    assert default_decay(here) == default_decay(there) == 1 / (moved[-1] - moved[0])
    one, other = (partition_stream(events, 3, shared=0.2) for events in (here, there))
    assert (one.event == other.event).all() and (one.node == other.node).all()


def test_times_from_end_to_end_of_int64() -> None:
    events = stream([(0, 1), (1, 2)], times=[-(2**63), 2**63 - 1])
    assert default_decay(events) == 1 / 2**64 and partition_stream(events, 2).event.size == 2


def test_decay_and_seed_matter() -> None:
    generator = np.random.default_rng(0)
    src, dst = generator.integers(0, 30, (2, 600)).astype(np.int32)
    events = EventStream(30, src, dst, np.arange(600))
    for key, values in (("decay", (0.0, 1.0)), ("seed", (0, 1))):
        policy = "random" if key == "seed" else "shared-nodes"
        one, other = (partition_stream(events, 4, policy, **{key: value}) for value in values)  # type: ignore[arg-type]
        assert (one.event != other.event).any() and one.digest != other.digest


def test_events_between_shared_nodes_are_dealt_at_random() -> None:
    src = np.zeros(4000, np.int32)
    events = EventStream(20, src, src + 1, np.arange(4000))
    partition = partition_stream(events, 4, "random", shared=0.1)
    assert partition.shared.tolist() == [0, 1]
    assert np.abs(np.bincount(partition.event, minlength=4) - 1000).max() < 120


@pytest.mark.usefixtures("without_metis")
@pytest.mark.parametrize("policy", PARTITIONERS)
def test_blocks_do_not_matter(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    src, dst = (generator.random((2, 500)) ** 4 * 30).astype(np.int32)
    events = EventStream(30, src, dst, np.arange(500))
    whole = partition_stream(events, 4, policy, shared=0.2)
    monkeypatch.setattr(partitioner, "BLOCK", 64)
    assert (partition_stream(events, 4, policy, shared=0.2).event == whole.event).all()


@pytest.mark.slow
def test_metis_cuts_little_where_little_is_needed() -> None:
    """Two cliques that meet twice, and a node that all meet, which is shared."""
    pytest.importorskip("dgl")
    pairs = [(u, v) for half in (range(0, 6), range(6, 12)) for u in half for v in half if u < v]
    events = stream([*pairs, *[(v, 12) for v in range(12)] * 2, *pairs, (3, 3), (0, 6), (1, 7)], 13)
    partition = partition_stream(events, 2, "metis", shared=0.08)
    assert partition.shared.tolist() == [12] and len(set(partition.node[:6])) == len(set(partition.node[6:12])) == 1
    assert sorted(np.bincount(partition.node[:12])) == [6, 6]
    assert (partition.event == partition.node[events.src]).all()


def test_kept_parts_are_those_made(tmp_path: Path) -> None:
    events = stream([(0, 1), (2, 3), (0, 3), (5, 5)])
    made, folder = partition_stream(events, 3, shared=0.1), tmp_path / "parts"
    saved = partition_stream(events, 3, shared=0.1, folder=folder)
    made.save(tmp_path / "other")
    for file in ("parts.json", "node.npy", "event.npy"):
        assert (folder / file).read_bytes() == (tmp_path / "other" / file).read_bytes()
    assert isinstance(saved.event, np.memmap) and saved.digest == made.digest and saved.origin == made.origin
    assert (saved.event == made.event).all() and (saved.node == made.node).all()
    stamp = (folder / "event.npy").stat().st_mtime_ns
    partition_stream(events, 3, shared=0.1, folder=folder)
    assert (folder / "event.npy").stat().st_mtime_ns == stamp
    with pytest.raises(
        UserError, match=r"parts\.json: not a readable record of parts \(these are parts of another stream or other settings: "
    ):
        partition_stream(events, 3, shared=0.2, folder=folder)
    with pytest.raises(UserError, match=r"parts\.json: .*another stream.*; delete the folder and cut the stream again$"):
        partition_stream(stream([(0, 1), (2, 3), (0, 3), (5, 6)]), 3, shared=0.1, folder=folder)
    with pytest.raises(UserError, match=r"other: already exists$"):
        made.save(tmp_path / "other")


def test_a_stream_without_events(tmp_path: Path) -> None:
    partition = partition_stream(stream([], 4), 2, folder=tmp_path / "parts")
    assert partition.event.size == 0 and partition.node.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("parts.json", None, r"parts\.json: no such file, a record of parts is expected; delete the folder"),
        ("parts.json", b"{", r"parts\.json: not a readable record of parts \("),
        ("node.npy", None, r"node\.npy: .*no such file"),
        ("event.npy", b"short", r"event\.npy: truncated or not a \.npy file"),
    ],
)
def test_damaged_files(tmp_path: Path, file: str, text: bytes | None, why: str) -> None:
    folder = tmp_path / "parts"
    partition_stream(stream([(0, 1), (2, 3)]), 2, folder=folder)
    (folder / file).unlink() if text is None else (folder / file).write_bytes(text)
    with pytest.raises(UserError, match=why):
        EventPartition.load(folder)


def test_changed_files(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    partition_stream(stream([(0, 1), (2, 3)]), 2, folder=folder)
    np.save(folder / "node.npy", np.full(NODES, 2, np.int32))
    with pytest.raises(
        UserError, match=r"parts\.json: not a readable record of parts \(EventPartition\.node: expected parts from -1 to 1, got 2 to 2\)"
    ):
        EventPartition.load(folder)
    np.save(folder / "node.npy", np.zeros(NODES + 1, np.int32))
    with pytest.raises(UserError, match=r"node\.npy: not a readable array of parts \(node\.npy: expected shape \(9\), got \(10,\)\)"):
        EventPartition.load(folder)
    meta = json.loads((folder / "parts.json").read_text())
    (folder / "parts.json").write_text(json.dumps({**meta, "origin": meta["origin"].replace("seed 0", "seed 1")}))
    with pytest.raises(UserError, match=r"parts\.json: not a readable record of parts \(its digest is not that of its settings\)"):
        EventPartition.load(folder)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"count": 0}, "parts: expected at least 1, got 0"),
        ({"policy": "shared-node"}, "unknown partitioner 'shared-node'; did you mean 'shared-nodes'?"),
        ({"shared": 1.0}, "shared: expected a share of the nodes, from 0 to below 1, got 1.0"),
        ({"shared": -0.1}, "shared: expected a share of the nodes, from 0 to below 1, got -0.1"),
        ({"shared": float("nan")}, "shared: expected a share of the nodes, from 0 to below 1, got nan"),
        ({"decay": -1.0}, "decay: expected a number of at least 0, got -1.0"),
        ({"decay": float("inf")}, "decay: expected a number of at least 0, got inf"),
        ({"trained": 5}, "trained: expected 0..3 events, got 5"),
        ({"count": 8, "shared": 0.3}, "8 parts of 'a stream': only 6 of its 9 nodes are not shared; expected at most as many parts"),
    ],
)
def test_what_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(UserError) as refused:
        partition_stream(stream([(0, 1), (2, 3), (0, 3)]), **{"count": 2, **given})  # type: ignore[arg-type]
    assert str(refused.value) == says


def test_metis_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "_METIS", "raise SystemExit('no METIS here')")
    with pytest.raises(Exception, match=r"could not cut 9 nodes into 2 parts: no METIS here"):
        partition_stream(stream([(0, 1), (2, 3)]), 2, "metis")
