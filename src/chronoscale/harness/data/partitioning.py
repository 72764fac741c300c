"""Partitioning of an event stream by several partitioners, side by side."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from chronoscale.batching.streams.partitioning.partition import EventPartition
from chronoscale.batching.streams.partitioning.partitioner import NEIGHBOURS
from chronoscale.batching.streams.partitioning.policies import PARTITIONERS, find_partitioner
from chronoscale.batching.streams.partitioning.quality import PartitionQuality
from chronoscale.batching.streams.partitioning.remoteness import Remoteness
from chronoscale.batching.streams.partitioning.stream_partition import partition_stream
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.ranks.distribution import RankAssignment
from chronoscale.batching.streams.ranks.remote_reads import count_fetched_rows
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import UserError
from chronoscale.harness.data.opening import open_data
from chronoscale.harness.display.cell import Cell
from chronoscale.harness.keys.experiment import Data
from chronoscale.strategies.memshare.communication import RowBytes, StreamCut, estimate_communication, published_communication

ALL = "all"
THETAS = (0.1, 1.0)  # of remote neighbours, how many are sampled: MemShare's default share, and all
ESTIMATES = tuple(f"fetched at {theta:g}" for theta in THETAS)
DETAIL = ("shared", "remote", *ESTIMATES, "worst cut", "nodes", "events", "batches", "bytes", "digest")  # what JSON has besides
MEMORY_BYTES, FEATURE_BYTES = 400, 688  # of rows: 100 numbers of a node's memory; 172 of an event's features, where the stream has none


@dataclass(frozen=True, slots=True)
class Cutting:
    """Options of `chronoscale data partition`: how an event stream is cut, and how the cut is judged.

    shared: share of the nodes that all parts have. decay: of past events, by the stream's unit of time. batch: events a part in a batch.
    neighbours: of an event's end, for the rows that parts fetch from each other; 0: rows are not counted. widths: bytes of a row.
    """

    parts: int
    shared: float
    decay: float | None
    seed: int
    batch: int
    neighbours: int
    widths: RowBytes


def named(policies: Sequence[str]) -> list[str]:
    """Return the partitioners that `chronoscale data partition --policy` asks for, each once; "all" stands for all.

    Raises UserError for an unknown one.
    """
    if ALL in policies:
        return list(PARTITIONERS)
    for policy in policies:
        find_partitioner(policy)
    return list(dict.fromkeys(policies))


def events_of(name: str, seed: int) -> EventStream:
    """Open the event stream that `chronoscale data partition` is to cut, by catalogue name or path. Raises UserError where it is none."""
    exists = Path(name).exists()
    if not exists and (Path(name).suffix or len(Path(name).parts) > 1):
        raise UserError(f"{name}: no such file or folder")
    dataset = open_data(Data(path=(name,)) if exists else Data(name=name), seed)
    if not isinstance(dataset, EventStream):
        raise UserError(f"'{name}' is not a stream of events, which alone is cut into parts by event")
    return dataset


def row_bytes(stream: EventStream, node: int | None, edge: int | None) -> RowBytes:
    """Return the bytes of the rows that ranks fetch of a stream. node: of a node's row; None: its memory, MEMORY_BYTES, and the features
    that nodes have. edge: of an event's row; None: the features that events have, FEATURE_BYTES where they have none."""
    features, node_features = stream.features, stream.node_features
    own = MEMORY_BYTES + (0 if node_features is None else node_features.itemsize * node_features.shape[1])
    each = FEATURE_BYTES if features is None else features.itemsize * features.shape[1]
    return RowBytes(own if node is None else node, each if edge is None else edge, MEMORY_BYTES if node is None else node)


def row(stream: EventStream, policy: str, cutting: Cutting, folder: Path | None) -> dict[str, object]:
    """Cut an event stream by one partitioner, and return its row of the table of `chronoscale data partition`: column -> value.

    It says what is fetched and cut, how even the parts are, and how long it took; columns in DETAIL are for JSON. policy: the
    partitioner's name. folder: keeps the parts, and gives them if it has them; None: neither. Raises as `partition_stream`, and as
    `PartitionQuality.of`.
    """
    start = time.perf_counter()
    training = (cutting.batch, cutting.neighbours or NEIGHBOURS)
    parts = partition_stream(stream, cutting.parts, policy, cutting.shared, cutting.decay, cutting.seed, None, folder, *training)
    spent = time.perf_counter() - start
    division = PartitionQuality.of(stream, parts, cutting.batch)
    balance, (estimates, terms) = division.balance, _communication(stream, parts, cutting)
    mean, worst = (float(balance.mean()), float(balance.max())) if balance.size else (math.nan, math.nan)
    total = float(division.events.max() / division.events.mean()) if len(stream) else math.nan
    return {
        "policy": policy,
        **_fetched(stream, parts, cutting),
        "cut": _percent(division.cut_ratio),
        "total": Cell(total, _ratio(total).text, "events max/mean"),
        "batch": Cell(mean, _ratio(mean).text, "max/mean"),
        "worst": _ratio(worst),
        "s": Cell(spent, f"{spent:.2f}", "seconds"),
        "shared": division.shared,
        "remote": division.remote_ratio,
        **estimates,
        "worst cut": float(division.cut_ratios.max(initial=0.0)),
        "nodes": division.nodes.tolist(),
        "events": division.events.tolist(),
        "batches": {"max/mean": balance.tolist(), "cut": division.cut_ratios.tolist()},
        "bytes": terms,
        "digest": parts.digest,
    }


def _fetched(stream: EventStream, parts: EventPartition, cutting: Cutting) -> dict[str, object]:
    """Rows that ranks fetch in one pass over a partitioned stream, and their bytes."""
    if not cutting.neighbours:
        return {}
    assignment = RankAssignment(BatchAssignment(range(len(stream)), parts.count, cutting.batch), parts)
    rows = count_fetched_rows(IndexedStream(stream, TCSR.of(stream)), assignment, cutting.neighbours)
    fetched = rows.nodes * cutting.widths.node + rows.events * cutting.widths.edge
    return {
        "node rows": Cell(rows.nodes, f"{rows.nodes:,}"),
        "event rows": Cell(rows.events, f"{rows.events:,}"),
        "MB": Cell(fetched, f"{fetched / 1e6:,.1f}", "fetched bytes"),
    }


def _communication(stream: EventStream, parts: EventPartition, cutting: Cutting) -> tuple[dict[str, object], dict[str, object]]:
    """Bytes an event that are fetched at each of THETAS, and the terms of that, corrected and as published."""
    if not cutting.neighbours:
        return {}, {}
    remoteness = Remoteness.of(stream, parts, cutting.neighbours, cutting.parts * cutting.batch)
    columns: dict[str, object] = {}
    terms: dict[str, object] = {}
    for theta in THETAS:
        exact = estimate_communication(remoteness, cutting.widths, theta)
        printed = published_communication(StreamCut.of(remoteness), cutting.widths, cutting.neighbours, theta)
        columns[f"fetched at {theta:g}"] = exact.fetched / max(remoteness.events, 1)
        terms[f"{theta:g}"] = {
            variant: {name: value / max(remoteness.events, 1) for name, value in asdict(rows).items()}
            for variant, rows in (("exact", exact), ("as-published", printed))
        }
    return columns, terms


def by_part(row_of_policy: dict[str, object]) -> list[dict[str, object]]:
    """Return a row a part (its own nodes and events) for `chronoscale data partition`. row_of_policy: as `row` returns it."""
    nodes, events = row_of_policy["nodes"], row_of_policy["events"]
    assert isinstance(nodes, list) and isinstance(events, list)
    total = max(sum(events), 1)
    return [
        {"part": part, "own nodes": f"{own:,}", "events": f"{count:,}", "of all": f"{100 * count / total:.2f} %"}
        for part, (own, count) in enumerate(zip(nodes, events, strict=True))
    ]


def _percent(share: float) -> Cell:
    return Cell(share, "–" if math.isnan(share) else f"{100 * share:.1f} %")


def _ratio(number: float) -> Cell:
    return Cell(number, "–" if math.isnan(number) else f"{number:.2f}")
