"""Partitioned: a stream under several partitioners, side by side."""

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
from chronoscale.harness.cell import Cell
from chronoscale.harness.keys.experiment import Data
from chronoscale.harness.open import opened
from chronoscale.strategies.memshare.communication import RowBytes, StreamCut, estimate_communication, published_communication

ALL = "all"
DETAIL = ("worst cut", "nodes", "events", "batches", "bytes", "digest")  # what JSON has besides
THETAS = (0.1, 1.0)  # of remote neighbours, how many are sampled: MemShare's default share, and all


@dataclass(frozen=True, slots=True)
class Cutting:
    """What `partition_stream` is asked for, the events a part in a batch, and what estimates of communication are made for: neighbours of
    a root, 0 for none, and bytes of rows."""

    parts: int
    shared: float
    decay: float | None
    seed: int
    batch: int
    neighbours: int
    widths: RowBytes


def named(policies: Sequence[str]) -> list[str]:
    """Those asked for, each once; `all` is all. Raises UserError for one that there is not."""
    if ALL in policies:
        return list(PARTITIONERS)
    for policy in policies:
        find_partitioner(policy)
    return list(dict.fromkeys(policies))


def events_of(name: str, seed: int) -> EventStream:
    """A dataset by name or path. Raises UserError where it is none, or no stream."""
    there = Path(name).exists()
    if not there and (Path(name).suffix or len(Path(name).parts) > 1):
        raise UserError(f"{name}: no such file or folder")
    found = opened(Data(path=(name,)) if there else Data(name=name), seed)
    if not isinstance(found, EventStream):
        raise UserError(f"'{name}' is not a stream of events, which alone is cut into parts by event")
    return found


def row(stream: EventStream, policy: str, cutting: Cutting, folder: Path | None) -> dict[str, object]:
    """One partitioner: what it cuts, how even it is, how long it took; DETAIL by part and by batch. Raises as `partition_stream`, and as
    `PartitionQuality.of`."""
    start = time.perf_counter()
    made = partition_stream(stream, cutting.parts, policy, cutting.shared, cutting.decay, cutting.seed, folder=folder)
    spent = time.perf_counter() - start
    found = PartitionQuality.of(stream, made, cutting.batch)
    balance, (fetched, terms) = found.balance, _communication(stream, made, cutting)
    mean, worst = (float(balance.mean()), float(balance.max())) if balance.size else (math.nan, math.nan)
    return {
        "policy": policy,
        "shared": found.shared,
        "cut": _percent(found.cut_ratio),
        "remote": _percent(found.remote_ratio),
        "max/mean": _ratio(mean),
        "worst": _ratio(worst),
        **fetched,
        "seconds": Cell(spent, f"{spent:.2f}"),
        "worst cut": float(found.cut_ratios.max(initial=0.0)),
        "nodes": found.nodes.tolist(),
        "events": found.events.tolist(),
        "batches": {"max/mean": balance.tolist(), "cut": found.cut_ratios.tolist()},
        "bytes": terms,
        "digest": made.digest,
    }


def _communication(stream: EventStream, made: EventPartition, cutting: Cutting) -> tuple[dict[str, object], dict[str, object]]:
    """Bytes an event that are fetched at each of THETAS, and the terms of that, corrected and as published."""
    if not cutting.neighbours:
        return {}, {}
    found = Remoteness.of(stream, made, cutting.neighbours, cutting.parts * cutting.batch)
    columns: dict[str, object] = {}
    terms: dict[str, object] = {}
    for theta in THETAS:
        exact = estimate_communication(found, cutting.widths, theta)
        printed = published_communication(StreamCut.of(found), cutting.widths, cutting.neighbours, theta)
        columns[f"B, θ={theta:g}"] = Cell(each := exact.fetched / max(found.events, 1), f"{each:,.0f}", f"fetched at {theta:g}")
        terms[f"{theta:g}"] = {
            variant: {name: value / max(found.events, 1) for name, value in asdict(one).items()}
            for variant, one in (("exact", exact), ("as-published", printed))
        }
    return columns, terms


def by_part(found: dict[str, object]) -> list[dict[str, object]]:
    """A row a part."""
    nodes, events = found["nodes"], found["events"]
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
