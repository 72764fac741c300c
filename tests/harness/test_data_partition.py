"""`data partition`: what it says, keeps and refuses."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from command_line import command, one_line
from fetched_rows import fetched_rows

from chronoscale.batching.streams.partitioning.partition import EventPartition
from chronoscale.batching.streams.partitioning.quality import PartitionQuality
from chronoscale.batching.streams.partitioning.remoteness import Remoteness
from chronoscale.batching.streams.partitioning.stream_partition import partition_stream
from chronoscale.datasets import store
from chronoscale.datasets.streams.events import EventStream
from chronoscale.strategies.memshare.communication import RowBytes, StreamCut, estimate_communication, published_communication


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    src, dst = (generator.random((2, 900)) ** 3 * 40).astype(np.int32)
    store.save(tmp_path / "stream", EventStream(40, src, dst, np.arange(900), name="made"))
    return tmp_path / "stream"


def partition_rows(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[dict[str, object]]:
    capsys.readouterr()
    command("data", "partition", *arguments, "--json")
    rows: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return rows


def test_says_what_is_measured(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stream = store.load(folder)
    assert isinstance(stream, EventStream)
    settings = ("--parts", 4, "--shared", 0.2, "--decay", 0.5, "--seed", 3, "--batch", 20, "--neighbours", 3)
    settings += ("--node-bytes", 8, "--edge-bytes", 6)
    rows = partition_rows(capsys, folder, *settings, *("--policy", "random", "--policy", "restream", "--policy", "random"))
    assert [row["policy"] for row in rows] == ["random", "restream"]
    for row in rows:
        made = partition_stream(stream, 4, str(row["policy"]), 0.2, 0.5, 3, batch=20, neighbours=3)
        quality = PartitionQuality.of(stream, made, 20)
        assert (row["shared"], row["cut"], row["remote"]) == (8, quality.cut_ratio, quality.remote_ratio)
        assert (row["max/mean"], row["worst"]) == (quality.balance.mean(), quality.balance.max())
        assert row["batches"] == {"max/mean": quality.balance.tolist(), "cut": quality.cut_ratios.tolist()}
        assert row["worst cut"] == quality.cut_ratios.max()
        nodes, events = fetched_rows((stream.src, stream.dst), made.node, made.event, 80, 3)
        assert (row["node rows"], row["event rows"], row["fetched bytes"]) == (nodes, events, 8 * nodes + 6 * events)
        assert row["events max/mean"] == quality.events.max() / 225
        around = Remoteness.of(stream, made, 3, 80)
        for theta, key in ((0.1, "0.1"), (1.0, "1")):
            exact, printed = (
                estimate_communication(around, RowBytes(8, 6, 8), theta),
                published_communication(StreamCut.of(around), RowBytes(8, 6, 8), 3, theta),
            )
            assert row[f"fetched at {key}"] == exact.fetched / 900
            assert row["bytes"][key] == {  # type: ignore[index]
                variant: {name: value / 900 for name, value in asdict(one).items()}
                for variant, one in (("exact", exact), ("as-published", printed))
            }
        assert (row["nodes"], row["events"], row["digest"]) == (quality.nodes.tolist(), quality.events.tolist(), made.digest)


def test_tables_fit_a_terminal(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    command("data", "partition", folder.name, "--parts", 3)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["policy", "node", "rows", "event", "rows", "MB", "cut", "total", "batch", "worst", "s"]
    assert lines[2].split()[0] == "shared-nodes"
    assert [line.split()[0] for line in lines[4:]] == ["part", "0", "1", "2"]
    assert max(map(len, lines)) <= 80
    command("data", "partition", folder.name, "--parts", 3, "--neighbours", 0)
    assert capsys.readouterr().out.splitlines()[1].split() == ["policy", "cut", "total", "batch", "worst", "s"]


def test_bytes_are_the_widths_of_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of features that there are, else 172 numbers an event; of memory, 100 numbers a node, besides."""
    src, dst = np.random.default_rng(1).integers(0, 9, (2, 60)).astype(np.int32)
    bare = EventStream(9, src, dst, np.arange(60), name="bare")
    wide = EventStream(9, src, dst, np.arange(60), np.zeros((60, 3), np.float32), node_features=np.zeros((9, 2), np.float32), name="wide")
    for stream, node_bytes, event_bytes in ((bare, 400, 688), (wide, 408, 12)):
        store.save(tmp_path / stream.name, stream)
        (row,) = partition_rows(capsys, tmp_path / stream.name, "--parts", 2, "--batch", 5)
        nodes, events = row["node rows"], row["event rows"]
        assert isinstance(nodes, int) and isinstance(events, int) and nodes > 0 and events > 0
        assert row["fetched bytes"] == nodes * node_bytes + events * event_bytes


def test_keeps_parts(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = partition_rows(capsys, folder, "--parts", 3, "--out", tmp_path / "one")
    assert EventPartition.load(tmp_path / "one").digest == row["digest"]
    rows = partition_rows(capsys, folder, "--parts", 3, "--policy", "distgl", "--policy", "random", "--out", tmp_path / "two")
    assert [EventPartition.load(tmp_path / "two" / str(row["policy"])).digest for row in rows] == [row["digest"] for row in rows]
    command("data", "partition", folder, "--parts", 4, "--out", tmp_path / "one", expect=2)
    assert "parts of another stream or other settings" in one_line(capsys)


@pytest.mark.slow
def test_all_partitioners(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("dgl")
    rows = partition_rows(capsys, folder, "--parts", 3, "--policy", "all")
    assert [row["policy"] for row in rows] == ["shared-nodes", "metis", "distgl", "random", "restream"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--policy", "meti"), "unknown partitioner 'meti'; did you mean 'metis'?"),
        (("--shared", 1), "shared: expected a share of the nodes, from 0 to below 1, got 1.0"),
        (("--parts", 0), "parts: expected at least 1, got 0"),
        (("--batch", 0), "batch: expected at least 1 event a part, got 0"),
        (("--parts", 41, "--shared", 0), "41 parts of 'made': only 40 of its 40 nodes are not shared; expected at most as many parts"),
    ],
)
def test_what_is_refused(folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[object, ...], says: str) -> None:
    command("data", "partition", folder, *arguments, expect=2)
    assert one_line(capsys) == f"error: {says}"


def test_what_is_no_stream(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "city.yaml").write_text("{kind: traffic, sensors: 5, steps: 20}")
    command("data", "make", tmp_path / "city.yaml", tmp_path / "city")
    capsys.readouterr()
    command("data", "partition", tmp_path / "city", expect=2)
    assert one_line(capsys) == f"error: '{tmp_path / 'city'}' is not a stream of events, which alone is cut into parts by event"
    command("data", "partition", tmp_path / "none", expect=2)
    assert one_line(capsys) == f"error: {tmp_path / 'none'}: no such file or folder"
