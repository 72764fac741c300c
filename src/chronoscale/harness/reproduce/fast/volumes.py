"""Volumes: what an epoch sends by stages of SlimCache, and how near greedy's split of the room is to the best (Figure 8b)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chronoscale.batching.streams.caching.loading import RowFrequencies
from chronoscale.batching.streams.sampling.redundancy import BATCH
from chronoscale.harness.study.findings import NAN, beside
from chronoscale.harness.study.hooks.fast_epochs import SAMPLING, epoch, most
from chronoscale.harness.study.hooks.fast_splits import best, chosen
from chronoscale.harness.study.hooks.fast_traffic import Sent, loading, traffic
from chronoscale.reports.published import published
from chronoscale.strategies.streams.placements import Even, Greedy
from chronoscale.strategies.workload import EventHyper

GIB = 2.0**30
RATIO, PRESAMPLE, FEWER = 0.2, EventHyper().presample, 100
WITHIN = 0.02  # of the best split's hits
STAGES = {"uncompressed": ("tgl", 0.0), "compressed": ("fast-compressed", 0.0), "compressed and cached": ("fast", RATIO)}


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Of a data set: what each stage sends; by what was pre-sampled, the hits of each split of the room over those of the best."""

    part: str
    batches: int
    width: int
    sent: Mapping[str, Sent]
    hits: Mapping[str, Mapping[str, float]]


def counted(name: str, quick: bool) -> Counted:
    """An epoch of a data set. Raises UserError where real data are not at hand."""
    one = epoch(name, most(quick, name))
    seen = one.data.row_frequencies(1, BATCH, SAMPLING, 0, PRESAMPLE)
    ways = {stage: loading(of, ratio, one.width) for stage, (of, ratio) in STAGES.items()}
    sent = traffic(one, ways, seen)
    real = one.data.row_frequencies(1, BATCH, SAMPLING, 0, 2**31)
    fewer = one.data.row_frequencies(1, BATCH, SAMPLING, 0, FEWER)
    room, hits = ways["compressed and cached"].room(*one.sizes), {}
    for what, known in ((f"{FEWER} batches", fewer), (f"{PRESAMPLE} batches", seen), ("all batches", real)):
        most_of = best(known, real, room).hits
        turned = RowFrequencies(2 * known.nodes + 1, 2 * known.edges)  # of rows asked for alike, nodes first
        splits = {"greedy": chosen(Greedy(), known, real, room), "even": chosen(Even(), known, real, room)}
        splits["greedy, ties to nodes"] = chosen(Greedy(), turned, real, room)
        hits[what] = {split: found.hits / most_of for split, found in splits.items()}
    return Counted(one.part, one.deal.iterations, one.width, sent, hits)


def stages(name: str, found: Counted, volumes: Mapping[str, float | None]) -> list[dict[str, object]]:
    """Volumes of (b), and which share of what is sampled each stage leaves, which does not depend on how long the stream is."""
    rows, first = [], volumes.get(f"uncompressed, {name}") or NAN
    of = f"{found.batches:,} batches" + (f", {found.part}" if found.part else "")
    for stage, sent in found.sent.items():
        theirs = volumes.get(f"{stage}, {name}") or NAN
        rows.append(beside(f"{name}, {stage}, GiB", theirs, sent.bytes / GIB, f"an epoch's {of}"))
        if stage != "uncompressed":
            share = sent.bytes / found.sent["uncompressed"].bytes
            rows.append(beside(f"{name}, {stage}, % of what is sampled", theirs / first * 100, share * 100, ""))
    whole = found.sent["uncompressed"]
    if first == first and not found.part:
        implied = first * GIB / found.batches / (found.width * 4)
        why = f"printed: {first:g} GiB over {found.batches:,} batches in rows of {found.width}"
        rows.append(beside(f"{name}, rows a batch", implied, (whole.nodes + whole.edges) / found.batches, why))
    nodes, edges = (1 - after / before for after, before in _repeated(found))
    rows.append(beside(f"{name}, repeated nodes, %", rate(name, "repeat_node"), nodes * 100, "Table 1's are of one hop, without negatives"))
    rows.append(beside(f"{name}, repeated events, %", rate(name, "repeat_edge"), edges * 100, "as the nodes"))
    return rows


def _repeated(found: Counted) -> tuple[tuple[int, int], tuple[int, int]]:
    before, after = found.sent["uncompressed"], found.sent["compressed"]
    return (after.nodes, before.nodes), (after.edges, before.edges)


def rate(name: str, what: str) -> float:
    """Per cent, of Table 1; NaN for what it has not."""
    lines = {str(line["dataset"]): line for line in published("fast").tables[1].rows}
    return float(lines[name][what]) * 100 if name in lines else NAN


def shared(name: str, found: Counted) -> list[dict[str, object]]:
    """Hits of splits over those of the best."""
    rows = []
    for known, shares in found.hits.items():
        for split, share in shares.items():
            why = "not Algorithm 1, which gives ties to events" if "ties" in split else ""
            rows.append(beside(f"{name}, {split}, {known} pre-sampled, % of the best split's hits", NAN, share * 100, why))
    return rows


def within(all_of: Mapping[str, Counted]) -> str:
    """Where greedy's split is near the best, in words."""
    near: dict[bool, list[str]] = {True: [], False: []}
    for name, found in all_of.items():
        share = found.hits[f"{PRESAMPLE} batches"]["greedy"]
        near[share >= 1 - WITHIN].append(f"{name} ({share:.1%})")
    far = f"; not of {', '.join(near[False])}" if near[False] else ""
    of = ", ".join(near[True]) or "none"
    return f"Greedy's split, {PRESAMPLE} batches pre-sampled, is within {WITHIN:.0%} of the best split's hits of {of}{far}."
