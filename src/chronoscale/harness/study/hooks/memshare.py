"""MemShare: steps of spread streams, loads and cuts of partitions, neighbours across parts, volumes by eq. 25, and streams at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np

from chronoscale.batching.streams.partitioning.quality import PartitionQuality
from chronoscale.batching.streams.partitioning.remoteness import Remoteness
from chronoscale.batching.streams.partitioning.stream_partition import default_decay, partition_stream
from chronoscale.batching.streams.ranks.distributed_stream import DistributedStream
from chronoscale.batching.streams.ranks.distribution import StreamDistribution
from chronoscale.batching.streams.sampling.boundary import Boundary
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.datasets import catalogue
from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError
from chronoscale.harness.study.evaluation import of_paper
from chronoscale.harness.study.point import Points, StudyPoint
from chronoscale.harness.study.replay import Replayed
from chronoscale.harness.study.testbeds import spread_streams
from chronoscale.harness.study.testbeds.spread_streams import SpreadStreams, prepared, stream
from chronoscale.reports.published import published
from chronoscale.simulator import presets
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.memshare import communication
from chronoscale.strategies.memshare.communication import Communication, RowBytes, StreamCut
from chronoscale.strategies.streams.models import FP32
from chronoscale.strategies.workload import SharingHyper

PARTS, LEAST = 8, 20  # batches that a short real stream makes: its batches are then smaller
MOST = 200_000  # events of a real stream, the first
TERMS = tuple(one.name for one in fields(Communication) if one.name != "told")


def bed() -> SpreadStreams:
    """Return the paper's testbed."""
    found = of_paper("memshare")
    assert isinstance(found, SpreadStreams)
    return found


def spread(one: Replayed) -> dict[str, Any]:
    """Return the seconds and bytes of a step, as `spread_step`."""
    return spread_streams.spread_step(one)


def counts(dataset: str) -> dict[str, int]:
    """Return Table 2's counts and widths."""
    return bed().counts(dataset)


def machine() -> Cluster:
    """Return one machine of four A40."""
    return presets.scaled(presets.cluster("a40-10g"), 4)


def published_table(paper: str, number: int) -> Sequence[Mapping[str, Any]]:
    """Return the rows of another table of a paper."""
    return published(paper).tables[number].rows


def defaults() -> SharingHyper:
    """Return what ranks share where nothing is set."""
    return SharingHyper()


def label(gpus: int) -> str:
    """Return machines and GPUs as the paper has them: 2M8G; four GPUs a machine."""
    return f"{-(-gpus // 4)}M{gpus}G"


@cache
def real(name: str) -> EventStream:
    """Return the first events of a data set at hand, without features. Raises UserError where it is not there."""
    found = catalogue.load(name)
    if not isinstance(found, EventStream):
        raise UserError(f"dataset '{name}': expected a stream of events")
    return replace(found.span(0, min(MOST, len(found))), features=None, labels=None, node_features=None)


def at_hand(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the real streams that are at hand, and a line for each that is not."""
    found, absent = list[str](), list[str]()
    for name in names:
        try:
            real(name)
            found.append(name)
        except UserError as error:
            absent.append(f"Skipped: {error}.")
    return found, absent


def events_of(dataset: str, divisor: int) -> EventStream:
    """Return a stand-in divided by so many, or a real stream where that is 0."""
    return stream(bed(), dataset, divisor) if divisor else real(dataset)


def length(dataset: str, divisor: int) -> tuple[int, int]:
    """Return the events and nodes of a stream."""
    found = events_of(dataset, divisor)
    return len(found), found.num_nodes


def part_size(dataset: str, divisor: int, batch: int) -> int:
    """Return events a part in a batch: the paper's, in step with the stand-in's size; of real data as many as make LEAST batches."""
    return max(batch // divisor, 50) if divisor else int(min(batch, len(real(dataset)) // (PARTS * LEAST)))


def degrees(events: EventStream) -> Int64:
    """Return the ends of events of each node, int64 [N]."""
    return np.bincount(events.src, minlength=events.num_nodes) + np.bincount(events.dst, minlength=events.num_nodes)


def hot_share(events: EventStream, share: float = 0.1) -> float:
    """Return the share of all ends of events at the nodes of highest degree."""
    ordered = np.sort(degrees(events))[::-1]
    return float(ordered[: round(share * ordered.size)].sum() / max(ordered.sum(), 1))


def stand_ins(divisors: Mapping[str, int]) -> str:
    """Say what stands for the data."""
    shares = ", ".join(f"{name} {hot_share(events_of(name, divisor)):.0%}" for name, divisor in divisors.items())
    sizes, apart = ", ".join(f"{name} by {divisor}" for name, divisor in divisors.items()), bed().apart["gdelt"]
    gdelt = f" GDELT's has {apart} times fewer events a node than GDELT, and its pairs are assumed." if "gdelt" in divisors else ""
    return (
        f"Stand-ins are generated: Table 2's nodes and events divided alike ({sizes}), sources and destinations by Zipf's law of exponent "
        f"{bed().skew}, so that the hottest tenth of the nodes has of all ends: {shares}.{gdelt} They have no communities, so that no cut "
        "finds what METIS finds in real data."
    )


def sizes(point: StudyPoint) -> dict[str, float]:
    """Return nodes and events of a stand-in, and the share of ends at its hottest tenth."""
    made = events_of(point.dataset, point.setting("divisor"))
    return {"nodes": made.num_nodes, "events": len(made), "hot": hot_share(made)}


def division(point: StudyPoint) -> dict[str, Any]:
    """Return loads of eight parts, hot nodes by what trains: of whole batches most and mean, of every batch most over mean; what is cut."""
    events = events_of(point.dataset, point.setting("divisor"))
    cut = partition_stream(events, PARTS, point.setting("policy"), point.setting("shared"), trained=int(bed().trains * len(events)))
    found = PartitionQuality.of(events, cut, point.setting("size"))
    whole = found.loads[found.loads.sum(1) == found.loads[0].sum()]
    ends = {"most": [float(value) for value in whole.max(1)], "mean": [float(value) for value in whole.mean(1)]}
    return {**ends, "balance": [float(value) for value in found.balance], "cut": float(found.cut_ratio)}


def neighbours(point: StudyPoint) -> dict[str, float]:
    """Return neighbours of a root by a way to sample across eight parts, and what it asks of other ranks."""
    of, data = dict(point.settings), prepared(bed(), point.dataset, point.setting("divisor"))
    every = max(data.training_events // (PARTS * of["size"] * of["steps"]), 1)
    decay = default_decay(data.whole.stream)
    ways = {
        "recent": None,
        "decay": Boundary(of["theta"], decay, True),
        "decay, not completed": Boundary(of["theta"], decay, False),  # what is left of the most recent neighbours
        "local": Boundary(0.0, decay, True),
    }
    sampling = Sampling((bed().fanout[point.dataset],), boundary=ways[of["way"]])
    work = DistributedStream(data, StreamDistribution(shared=of["shared"]), PARTS).work(False, of["size"], sampling, 0, every, True)
    figures = {"neighbours": work.sampled, "events asked of other ranks": work.asked_edges, "nodes asked of them": work.asked_nodes}
    return {what: float(found.sum()) / float(work.roots.sum()) for what, found in figures.items()}


def volumes(point: StudyPoint) -> dict[str, Any]:
    """Return bytes an event and kind, as eq. 25 has it and with each ratio taken of what it multiplies; widths of GDELT, memory of §5.1."""
    of, events, known = dict(point.settings), events_of(point.dataset, point.setting("divisor")), counts("gdelt")
    widths = RowBytes(FP32 * (known["node_width"] + bed().width), FP32 * known["edge_width"], FP32 * bed().width)
    found = Remoteness.of(events, partition_stream(events, PARTS, "shared-nodes", of["shared"]), bed().fanout["gdelt"], PARTS * of["size"])
    slots = found.slots.sum() / found.roots.sum()
    eq25 = communication.published_communication(StreamCut.of(found), widths, slots, of["theta"], of["sent"])
    ways = {
        "eq. 25": eq25,
        "each ratio of what it multiplies": communication.estimate_communication(found, widths, of["theta"], of["sent"]),
    }

    def a_event(one: Communication) -> dict[str, float]:
        return {term: float(getattr(one, term) / len(events)) for term in TERMS} | {"total": float(one.total / len(events))}

    return {"ways": {how: a_event(one) for how, one in ways.items()}, "nodes": float((eq25.hot_nodes + eq25.cold_nodes) / eq25.total)}


def recommended(beta: float) -> float:
    """Return the share of shared nodes of least variance, by the text's formula."""
    return communication.recommended_share(beta)


def accuracy_gains(rival: str, model: str) -> dict[str, float]:
    """Return printed gains of test AP over a strategy, on all data sets and numbers of GPUs that both have: columns of a row."""
    found = {(line["gpus"], line["strategy"], line["model"]): line for line in published("memshare").tables[3].rows if "model" in line}
    each = [
        float(str(mine[name])) - float(str(theirs[name]))
        for (gpus, strategy, kind), theirs in found.items()
        if (strategy, kind) == (rival, model) and (mine := found.get((gpus, "memshare", model)))
        for name in ("lastfm", "wikitalk", "stackof", "gdelt")
    ]
    return {"published_low": min(each), "published_mean": float(np.mean(each)), "published_high": max(each)}


def seconds(points: Points, rivals: Sequence[str]) -> list[dict[str, Any]]:
    """Return simulated seconds, a line each data set, model and number of GPUs, a column each strategy; NaN where it does not run."""
    lines: dict[tuple[str, str, int], dict[str, Any]] = {}
    for one in points:
        empty = {"dataset": one.dataset, "model": one.model, "gpus": one.gpus, **dict.fromkeys(rivals, float("nan"))}
        lines.setdefault((one.dataset, one.model, one.gpus), empty)[one.strategy] = one.spread["epoch_s"]
    return list(lines.values())
