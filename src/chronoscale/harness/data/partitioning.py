"""Partitioning of an event stream by several partitioners, side by side."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from chronoscale.batching.streams.partitioning.partition import EventPartition
from chronoscale.batching.streams.partitioning.policies import PARTITIONERS, find_partitioner
from chronoscale.batching.streams.partitioning.quality import PartitionQuality
from chronoscale.batching.streams.partitioning.remoteness import Remoteness
from chronoscale.batching.streams.partitioning.stream_partition import partition_stream
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError
from chronoscale.harness.data.opening import open_data
from chronoscale.harness.display.cell import Cell
from chronoscale.harness.keys.experiment import Data
from chronoscale.strategies.memshare.communication import RowBytes, StreamCut, estimate_communication, published_communication

ALL = "all"
DETAIL = ("worst cut", "nodes", "events", "batches", "bytes", "digest")  # what JSON has besides
THETAS = (0.1, 1.0)  # of remote neighbours, how many are sampled: MemShare's default share, and all


@dataclass(frozen=True, slots=True)
class Cutting:
    """Options of `chronoscale data partition`: how an event stream is cut, and how the cut is judged.

    shared: share of the nodes that all parts have. decay: of past events, by the stream's unit of time. batch: events a part in a batch.
    neighbours: of a root, for the estimate of bytes that parts send each other; 0: no estimate. widths: bytes of a row.
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


def row(stream: EventStream, policy: str, cutting: Cutting, folder: Path | None) -> dict[str, object]:
    """Cut an event stream by one partitioner, and return its row of the table of `chronoscale data partition`: column -> value.

    It says what is cut, how even the parts are, and how long it took; columns in DETAIL are for JSON. policy: the partitioner's name.
    folder: keeps the parts, and gives them if it has them; None: neither. Raises as `partition_stream`, and as `PartitionQuality.of`.
    """
    start = time.perf_counter()
    parts = partition_stream(stream, cutting.parts, policy, cutting.shared, cutting.decay, cutting.seed, folder=folder)
    spent = time.perf_counter() - start
    division = PartitionQuality.of(stream, parts, cutting.batch)
    balance, (fetched, terms) = division.balance, _communication(stream, parts, cutting)
    mean, worst = (float(balance.mean()), float(balance.max())) if balance.size else (math.nan, math.nan)
    return {
        "policy": policy,
        "shared": division.shared,
        "cut": _percent(division.cut_ratio),
        "remote": _percent(division.remote_ratio),
        "max/mean": _ratio(mean),
        "worst": _ratio(worst),
        **fetched,
        "seconds": Cell(spent, f"{spent:.2f}"),
        "worst cut": float(division.cut_ratios.max(initial=0.0)),
        "nodes": division.nodes.tolist(),
        "events": division.events.tolist(),
        "batches": {"max/mean": balance.tolist(), "cut": division.cut_ratios.tolist()},
        "bytes": terms,
        "digest": parts.digest,
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
        columns[f"B, θ={theta:g}"] = Cell(each := exact.fetched / max(remoteness.events, 1), f"{each:,.0f}", f"fetched at {theta:g}")
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
