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
from chronoscale.strategies.streams.spread.sent_share import SentShare, typical_share
from chronoscale.strategies.workload import SharingHyper

PARTS, LEAST = 8, 20  # batches that a short real stream makes: its batches are then smaller
MOST = 200_000  # events of a real stream, the first
TERMS = tuple(one.name for one in fields(Communication) if one.name != "negatives")


def bed() -> SpreadStreams:
    """Return the testbed of MemShare's studies: generated event streams with hot nodes, on several machines."""
    bed = of_paper("memshare")
    assert isinstance(bed, SpreadStreams)
    return bed


def spread(replayed: Replayed) -> dict[str, Any]:
    """Return the simulated seconds and bytes of an optimiser step, a metric of MemShare's studies.

    `step_s`, `epoch_s`, `stages` (seconds by stage), and bytes of rows `fetched` from other ranks, `returned` to them, and `spoken` (of
    shared hot nodes); means of ranks.
    """
    return spread_streams.spread_step(replayed)


def counts(dataset: str) -> dict[str, int]:
    """Return nodes, edges, node_width and edge_width (features) that MemShare's Table 2 prints of a data set, for its studies."""
    return bed().counts(dataset)


def machine() -> Cluster:
    """Return one simulated machine of four A40, as in MemShare, for notes of its studies."""
    return presets.scaled(presets.cluster("a40-10g"), 4)


def published_table(paper: str, number: int) -> Sequence[Mapping[str, Any]]:
    """Return the printed rows of a table of any paper, for MemShare's Figure 9.

    paper: its key, such as 'memshare'. number: of the table.
    """
    return published(paper).tables[number].rows


def defaults() -> SharingHyper:
    """Return how MemShare's ranks share the memory of hot nodes where a study sets nothing."""
    return SharingHyper()


def assumed_sent() -> SentShare:
    """Return what share of the changes of shared nodes MemShare is taken to send where a study sets nothing: stand-ins have no curve."""
    return typical_share(defaults().alpha)


def label(gpus: int) -> str:
    """Return machines and GPUs as MemShare's figures write them, such as '2M8G', at four GPUs a machine."""
    return f"{-(-gpus // 4)}M{gpus}G"


@cache
def real(dataset: str) -> EventStream:
    """Return the first 200,000 events of an installed data set, without features or labels, for MemShare's studies of real streams.

    Raises UserError where it is not installed or no event stream.
    """
    events = catalogue.load(dataset)
    if not isinstance(events, EventStream):
        raise UserError(f"dataset '{dataset}': expected a stream of events")
    return replace(events.span(0, min(MOST, len(events))), features=None, labels=None, node_features=None)


def at_hand(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split names into real event streams that are installed, and a note for each that is not.

    For MemShare's Figures 2, 3, 5 and 7.
    """
    present, absent = list[str](), list[str]()
    for name in names:
        try:
            real(name)
            present.append(name)
        except UserError as error:
            absent.append(f"Skipped: {error}.")
    return present, absent


def events_of(dataset: str, divisor: int) -> EventStream:
    """Return the events that MemShare's studies partition: the generated stand-in of a data set, or the real stream where `divisor` is 0.

    divisor: how many times fewer nodes and events the stand-in has than Table 2 prints.
    """
    return stream(bed(), dataset, divisor) if divisor else real(dataset)


def length(dataset: str, divisor: int) -> tuple[int, int]:
    """Return (events, nodes) of a generated stand-in of MemShare's studies, or of the real stream where `divisor` is 0.

    divisor: how many times fewer nodes and events the stand-in has than Table 2 prints.
    """
    events = events_of(dataset, divisor)
    return len(events), events.num_nodes


def part_size(dataset: str, divisor: int, batch: int) -> int:
    """Return the events of a batch for each of eight parts of a stream, for MemShare's Figures 2 and 3.

    batch: the paper's; it is divided as the stand-in by `divisor`, and at least 50. Of real data (divisor 0) at most what makes 20 batches.
    """
    return max(batch // divisor, 50) if divisor else int(min(batch, len(real(dataset)) // (PARTS * LEAST)))


def degrees(events: EventStream) -> Int64:
    """Return how many ends of events each node has, int64 [nodes], for MemShare's studies of hot nodes."""
    return np.bincount(events.src, minlength=events.num_nodes) + np.bincount(events.dst, minlength=events.num_nodes)


def hot_share(events: EventStream, share: float = 0.1) -> float:
    """Return what share of all ends of events the hottest nodes have, for notes and tables of MemShare's studies.

    share: of the nodes, those of highest degree; a tenth by default.
    """
    ordered = np.sort(degrees(events))[::-1]
    return float(ordered[: round(share * ordered.size)].sum() / max(ordered.sum(), 1))


def stand_ins(divisors: Mapping[str, int]) -> str:
    """Return the note of MemShare's studies that says how stand-ins are generated and how hot their hot nodes are.

    divisors: data set -> how many times smaller than published.
    """
    shares = ", ".join(f"{name} {hot_share(events_of(name, divisor)):.0%}" for name, divisor in divisors.items())
    sizes, apart = ", ".join(f"{name} by {divisor}" for name, divisor in divisors.items()), bed().apart["gdelt"]
    gdelt = f" GDELT's has {apart} times fewer events a node than GDELT, and its pairs are assumed." if "gdelt" in divisors else ""
    return (
        f"Stand-ins are generated: Table 2's nodes and events divided alike ({sizes}), sources and destinations by Zipf's law of exponent "
        f"{bed().skew}, so that the hottest tenth of the nodes has of all ends: {shares}.{gdelt} They have no communities, so that no cut "
        "finds what METIS finds in real data."
    )


def sizes(point: StudyPoint) -> dict[str, float]:
    """Return nodes, events and the hottest tenth's share of ends of events (`hot`) of a point's generated stream (MemShare's Table 2)."""
    made = events_of(point.dataset, point.setting("divisor"))
    return {"nodes": made.num_nodes, "events": len(made), "hot": hot_share(made)}


def division(point: StudyPoint) -> dict[str, Any]:
    """Partition a point's event stream into eight parts and return how evenly batches load them, for MemShare's Figures 2 and 3.

    By whole batches: `most` and `mean` load of a part; by batch: `balance`, most over mean; `cut`: share of events across parts. Settings:
    `divisor` of the stand-in, `policy` of partitioning, `shared` (share of nodes, the hot ones, that all parts have), `size` of a part's
    batch.
    """
    events = events_of(point.dataset, point.setting("divisor"))
    cut = partition_stream(events, PARTS, point.setting("policy"), point.setting("shared"), trained=int(bed().trains * len(events)))
    quality = PartitionQuality.of(events, cut, point.setting("size"))
    whole = quality.loads[quality.loads.sum(1) == quality.loads[0].sum()]
    ends = {"most": [float(value) for value in whole.max(1)], "mean": [float(value) for value in whole.mean(1)]}
    return {**ends, "balance": [float(value) for value in quality.balance], "cut": float(quality.cut_ratio)}


def neighbours(point: StudyPoint) -> dict[str, float]:
    """Count the neighbours a root samples where the graph is cut into eight, and what it asks of other ranks, for MemShare's Figure 4.

    Returns means a root: 'neighbours', 'events asked of other ranks', 'nodes asked of them'. Settings: `way`: 'recent' (the most recent
    neighbours), 'decay' (MemShare's: of those across parts a share, recent ones more likely), 'decay, not completed' (what that leaves of
    the most recent) or 'local' (none across parts); `theta`: that share, in expectation; `shared`: share of nodes that all parts have;
    `size`: events a rank and step; `steps`: how many are counted; `divisor` of the stand-in.
    """
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
    return {what: float(counts.sum()) / float(work.roots.sum()) for what, counts in figures.items()}


def volumes(point: StudyPoint) -> dict[str, Any]:
    """Estimate the bytes of communication an event by MemShare's eq. 25, for its Figure 7; also with each ratio applied to its own term.

    `ways`: 'eq. 25' or 'each ratio of what it multiplies' -> term (hot_nodes, cold_nodes ... and `total`) -> bytes; `nodes`: the nodes'
    share of eq. 25's total. Features have GDELT's widths. Settings: `divisor` of the stand-in, `shared`: share of nodes that all parts
    have, `theta`: share of neighbours across parts that is sampled, `sent`: share of shared nodes' events after which ranks synchronise
    their memory, `size`: events a rank.
    """
    of, events, known = dict(point.settings), events_of(point.dataset, point.setting("divisor")), counts("gdelt")
    widths = RowBytes(FP32 * (known["node_width"] + bed().width), FP32 * known["edge_width"], FP32 * bed().width)
    remoteness = Remoteness.of(
        events, partition_stream(events, PARTS, "shared-nodes", of["shared"]), bed().fanout["gdelt"], PARTS * of["size"]
    )
    slots = remoteness.slots.sum() / remoteness.roots.sum()
    eq25 = communication.published_communication(StreamCut.of(remoteness), widths, slots, of["theta"], of["sent"])
    ways = {
        "eq. 25": eq25,
        "each ratio of what it multiplies": communication.estimate_communication(remoteness, widths, of["theta"], of["sent"]),
    }

    def a_event(one: Communication) -> dict[str, float]:
        return {term: float(getattr(one, term) / len(events)) for term in TERMS} | {"total": float(one.total / len(events))}

    return {"ways": {how: a_event(one) for how, one in ways.items()}, "nodes": float((eq25.hot_nodes + eq25.cold_nodes) / eq25.total)}


def recommended(beta: float) -> float:
    """Return the share of nodes to share among ranks by MemShare's §4.2 (least variance of loads), for Figure 7.

    beta: exponent of the power law of degrees. Raises UserError unless it is above 2.
    """
    return communication.recommended_share(beta)


def accuracy_gains(rival: str, model: str) -> dict[str, float]:
    """Return the printed gains of MemShare's test AP over a rival (Table 3), over all data sets and numbers of GPUs with both.

    rival: name of a strategy. Returns columns of a study's row: published_low, published_mean, published_high, in points of AP.
    """
    by_setting = {(line["gpus"], line["strategy"], line["model"]): line for line in published("memshare").tables[3].rows if "model" in line}
    each = [
        float(str(mine[name])) - float(str(theirs[name]))
        for (gpus, strategy, kind), theirs in by_setting.items()
        if (strategy, kind) == (rival, model) and (mine := by_setting.get((gpus, "memshare", model)))
        for name in ("lastfm", "wikitalk", "stackof", "gdelt")
    ]
    return {"published_low": min(each), "published_mean": float(np.mean(each)), "published_high": max(each)}


def seconds(points: Points, rivals: Sequence[str]) -> list[dict[str, Any]]:
    """Return a table of simulated epoch seconds for MemShare's studies: a row a data set, model and number of GPUs.

    points: with metric `spread`. rivals: strategies, a column each; NaN where one did not run.
    """
    lines: dict[tuple[str, str, int], dict[str, Any]] = {}
    for one in points:
        empty = {"dataset": one.dataset, "model": one.model, "gpus": one.gpus, **dict.fromkeys(rivals, float("nan"))}
        lines.setdefault((one.dataset, one.model, one.gpus), empty)[one.strategy] = one.spread["epoch_s"]
    return list(lines.values())
