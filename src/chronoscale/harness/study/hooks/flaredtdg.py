"""FlareDTDG: sizes and windows of its data sets, what systems hold by counts (Table 1), and printed figures that need arithmetic."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from chronoscale.datasets import catalogue
from chronoscale.datasets.entries import Published
from chronoscale.datasets.snapshots.csr import WeightedCSR
from chronoscale.datasets.snapshots.statistics import SnapshotStatistics
from chronoscale.harness.study.axes import TESTBED
from chronoscale.harness.study.evaluation import of_paper
from chronoscale.harness.study.findings import AGREES, UNKNOWN
from chronoscale.harness.study.point import Points, Record, StudyPoint
from chronoscale.harness.study.testbeds.snapshots import SnapshotTestbed, first
from chronoscale.harness.study.testbeds.stand_ins import StandIns, cut_share, partition, statistics
from chronoscale.reports.published import Range, published
from chronoscale.simulator import presets
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.flaredtdg.footprint import (
    MPNNSizes,
    dynagraph_footprint,
    dynahb_cache_bytes,
    dynahb_footprint,
    esdg_footprint,
    feature_bytes,
)
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.snapshots.rows import FP32

GB = 1e9
TERMS = ("adjacency", "inputs", "kept", "working", "total")
Terms = Mapping[str, float]
MIXED = 1.024e9  # bytes of a "GB" of §2.3: a million bytes times 1024
CACHED = {"ogbn_papers100m": 128}  # numbers a node in Table 1's sizes of features, where it is not REGRESSION
REGRESSION = 130  # the one whole width that gives all three printed sizes in decimal GB, 128 and the two degrees; in GiB 140 would
ABOVE = "printed is a lower bound, which ours is above; "
UNEVEN = 0.8  # of the fullest device, that the mean is below where one rank has much more than others
UNPRINTED = {"dynagraph": "fan-outs and what else it keeps are", "dynahb": "the size of its batches, here first ones, is"}


def bed(changed: str = "{}") -> SnapshotTestbed:
    """Return the testbed of FlareDTDG's studies: stand-ins of its data sets, its windows and model sizes.

    changed: keys to take in place of `paper.yaml`'s, JSON.
    """
    bed = of_paper("flaredtdg", changed)
    assert isinstance(bed, SnapshotTestbed)
    return bed


def counts(dataset: str) -> Published:
    """Return the counts that FlareDTDG's Table 2 prints of a data set (nodes, edges, features a node, GPUs ...), for its studies."""
    return catalogue.entry(dataset).as_published("flaredtdg")


def gpus_of(dataset: str) -> int:
    """Return how many GPUs FlareDTDG's Table 2 gives a data set, for its studies; 1 where it gives none."""
    return counts(dataset).gpus or 1


def width(dataset: str) -> int:
    """Return the features a node that FlareDTDG's Table 1 sizes data by (128 or 130, not what is trained on)."""
    return CACHED.get(dataset, REGRESSION)


def regresses(dataset: str) -> bool:
    """Say whether the task is to predict degrees (regression, degrees being the features, §4.1), not classes; for FlareDTDG's Table 3."""
    return counts(dataset).node_features == bed().degrees


def executes(strategy_name: str) -> bool:
    """Say whether a strategy's schedules can be executed, not only simulated, for FlareDTDG's Table 3."""
    return strategy(strategy_name).executes


def trained(dataset: str, changed: str = "{}") -> SnapshotStatistics:
    """Return counts of the snapshots that FlareDTDG's studies train on: the first share of the generated ones. changed: as `bed`."""
    return first(statistics(dataset), bed(changed).trains)


def snapshots_trained(dataset: str) -> int:
    """Return how many of a data set's snapshots FlareDTDG's studies train on."""
    return len(trained(dataset))


def kept() -> float:
    """Return how many whole snapshots FlareDTDG's window holds, kept chunks of older ones added up, for its studies."""
    windows = bed().windows
    assert windows is not None
    return windows.kept


def window() -> int:
    """Return the length of FlareDTDG's window in snapshots, whole and decayed ones, for its studies."""
    windows = bed().windows
    assert windows is not None
    return windows.decay.window


def assuming(**keys: object) -> str:
    """Return keys of a testbed as axis `testbed` of a study's grid has them, as JSON."""
    return json.dumps(keys)


def cut_of(dataset: str, fields: Mapping[str, Any]) -> tuple[float, float]:
    """Return (share of the edges that METIS cuts, rows of other ranks that a rank reads for each own) for FlareDTDG's Table 12.

    Of the snapshots that train, each by itself, on the data set's GPUs. fields: of `StandIns`. Raises UserError as `StandIns.graph`.
    """
    stand_ins, ranks, share = StandIns(**fields), gpus_of(dataset), bed().trains
    parted = partition(dataset, ranks, share, stand_ins)
    return cut_share(dataset, ranks, share, stand_ins), float(parted.halo.sum() / parted.rows.sum())


def cluster(gpus: int) -> Cluster:
    """Return the simulated A40 machines of FlareDTDG's studies, as many as `gpus` need."""
    return presets.scaled(presets.cluster("a40-ib"), gpus)


def history(theirs: float, ours: float) -> str:
    """Return the reason of a row of FlareDTDG's Table 7: what a window keeps, and what history would explain the printed reduction.

    theirs, ours: relative changes, printed and simulated; -0.4: 40 % less.
    """
    reason = f"of {window()} snapshots a window keeps {kept():.3g}, {1 - kept() / window():.0%} less of nodes, and of edges less than that"
    if abs(ours / theirs - 1) <= AGREES:
        return reason
    longer = window() * (1 + ours) / (1 + theirs)
    return f"{reason}; {-theirs:.0%} less would be that of a full history of {longer:.3g} snapshots, not {window()}"


def in_both(line: Mapping[str, Any], name: str, outside: Sequence[str]) -> float:
    """Return a printed share of an epoch without the parts that our schedules lack, for FlareDTDG's Table 12.

    line: a row of the table, shares by column. name: the column. outside: columns left out of the whole.
    """
    return float(line[name]) / (1 - sum(float(line[other]) for other in outside))


def on_device(point: Record, uncut: Points) -> str:
    """Return the reason of a row of FlareDTDG's Table 5: what a device holds, and whether that is too much.

    point: one with metrics `peak_gb` and `mean_gb`. uncut: the same points of FlareDTDG, simulated as if no edge crossed ranks.
    """
    memory = cluster(point.gpus).device.memory / GB
    beyond = f"more than the {memory:g} of a device; " if point.status == "out of memory" else ""
    if point.strategy == "esdg":
        snapshots = snapshots_trained(point.dataset) - 1
        return f"{beyond}{snapshots} snapshots, {snapshots / point.gpus:.3g} a GPU, and what checkpoints keep of them; else {UNKNOWN}"
    if point.strategy != "flaredtdg":
        return f"{beyond}windows of {window()} snapshots; {UNPRINTED[point.strategy]} not printed"
    reason = (
        f"{beyond}{kept():.3g} snapshots a window; were nothing cut {uncut.at('peak_gb', dataset=point.dataset, model=point.model):.3g}"
    )
    if point.mean_gb < UNEVEN * point.peak_gb:
        reason += f"; {point.mean_gb:.3g} on average: METIS evens out nodes, not edges, and the stand-in has hubs"
    else:
        reason += f"; else {UNKNOWN}"
    return reason


def least(rows: Sequence[Mapping[str, Any]], systems: int) -> str:
    """Return a note of FlareDTDG's Table 5 and Figures 7 and 8: in how many points its own figure is least, printed and ours.

    rows: of the study, each with `published` and `ours`; `systems` consecutive ones a point, FlareDTDG's the last.
    """
    count, groups = {"published": 0, "ours": 0}, [rows[i : i + systems] for i in range(0, len(rows), systems)]
    for group in groups:
        for whose in count:
            figures = [float(str(one[whose])) for one in group]
            count[whose] += all(figures[-1] <= figure for figure in figures if figure == figure)
    return f"flaredtdg's is the least in {count['published']} of {len(groups)} points in print, in {count['ours']} of ours"


def host_gb(dataset: str, strategy_name: str, gpus: int) -> float:
    """Return the GB of host memory on all machines together, for FlareDTDG's Figure 7.

    strategy_name: 'dynahb' holds its caches, as in Table 1, any other the snapshots that train.
    """
    if strategy_name == "dynahb":
        return dynahb_cache_bytes(statistics(dataset), width(dataset), gpus) / GB
    stats = trained(dataset)
    features = len(stats) * feature_bytes(stats.num_nodes, counts(dataset).node_features or 1)
    return (float(WeightedCSR.nbytes_of(stats.num_nodes, stats.edges).sum()) + features) / GB


def error_ratios(number: int, model: str, rival: str) -> Range:
    """Return printed MSE of FlareDTDG over a rival's, as a range over data sets, for FlareDTDG's Table 3.

    number: of the printed table. Of data sets that have both and whose task is regression. Raises ValueError where there are none.
    """
    ratios = []
    for line in published("flaredtdg").tables[number].rows:
        dataset, known = str(line["dataset"]), not isinstance(line.get(rival, ""), str)
        if line["model"] == model and known and regresses(dataset):
            ratios.append(float(line["flaredtdg"]) / float(line[rival]))
    return Range(strategy="flaredtdg", over=rival, low=min(ratios), mean=float(np.mean(ratios)), high=max(ratios))


def growth(cells: Points, quantity: str) -> list[float]:
    """Return a metric at the most whole snapshots over that at the fewest, for each retention alpha, for FlareDTDG's Figure 8.

    cells: points with settings `full` (whole snapshots of a window) and `alpha` (share kept of the oldest). quantity: the metric's name.
    """
    full, alphas = sorted(set(cells.all("full"))), sorted(set(cells.all("alpha")))
    return [cells.at(quantity, full=full[-1], alpha=a) / cells.at(quantity, full=full[0], alpha=a) for a in alphas]


def stack(dataset: str, changed: str = "{}") -> MPNNSizes:
    """Return the layer sizes of MPNN-LSTM on a data set as it is trained (§4.1), for FlareDTDG's Table 1. changed: as `bed`."""
    hidden = bed(changed).hidden
    return MPNNSizes(counts(dataset).node_features or 1, hidden if isinstance(hidden, int) else hidden[dataset])


def a_gpu(dataset: str) -> dict[str, float]:
    """Return the GB a GPU that FlareDTDG's Table 5 prints of MPNN-LSTM, by strategy, for reasons of Table 1.

    Without strategies that ran out of memory.
    """
    (line,) = (line for line in published("flaredtdg").tables[5].rows if (line["dataset"], line["model"]) == (dataset, "mpnn-lstm"))
    return {name: float(value) for name, value in line.items() if not isinstance(value, str)}


def copies(dataset: str, strategy_name: str, gb: float) -> str:
    """Return the beginning of a reason in FlareDTDG's Table 1 where its figure is not Table 5's a GPU times Table 2's GPUs; else ''.

    strategy_name: whose. gb: Table 1's figure.
    """
    each, gpus = a_gpu(dataset)[strategy_name], gpus_of(dataset)
    times = gb / each
    return "" if round(times) == gpus else f"{times:.0f} times Table 5's {each:g}, but {gpus} GPUs (Table 2): {gpus * each:.3g}; "


def snapshots_in(footprints: Terms, length: int, gb: float) -> float:
    """Return how many of `length` snapshots `gb` would hold, for reasons of FlareDTDG's Table 1.

    footprints: bytes of all `length` snapshots by term ('total', 'working', ...), of which the working ones are needed in any case.
    """
    return (gb * GB - footprints["working"]) / (footprints["total"] - footprints["working"]) * length


def denser(stats: SnapshotStatistics, dataset: str, gb: float) -> float:
    """Return by what factor edges a snapshot would have to grow for DynaHB's cache to take `gb`, for reasons of FlareDTDG's Table 1.

    stats: counts of all snapshots. Infinite where 10,000 times as many edges are not enough.
    """
    low, high = 0.0, 1e4

    def cache(times: float) -> float:
        thicker = replace(stats, edges=np.rint(stats.edges * times).astype(np.int64))
        return dynahb_cache_bytes(thicker, width(dataset), gpus_of(dataset)) / GB

    if cache(high) < gb:
        return float("inf")
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if cache(middle) < gb else (low, middle)
    return high


def holdings(point: StudyPoint) -> dict[str, Any]:
    """Count what ESDG, DynaHB and DynaGraph hold to train MPNN-LSTM on a point's data set, for FlareDTDG's Table 1.

    `held`: system -> bytes by term (adjacency, inputs, kept, working, total); `features`: those of a snapshot, in the paper's unit, and in
    `bytes`; `cache`: DynaHB's, GB.
    """
    name, changed, gpus = point.dataset, point.setting(TESTBED, "{}"), gpus_of(point.dataset)
    stats, model = trained(name, changed), stack(name, changed)
    footprints = {
        "esdg": esdg_footprint(stats, model, len(stats)),
        "dynahb": dynahb_footprint(stats, model, window(), gpus),
        "dynagraph": dynagraph_footprint(stats, model, window()),
    }
    size = feature_bytes(counts(name).nodes or 0, width(name))
    cache = dynahb_cache_bytes(statistics(name), width(name), gpus) / GB
    terms = {system: {term: getattr(one, term) for term in TERMS} for system, one in footprints.items()}
    return {"held": terms, "features": size / (MIXED if name in CACHED else GB), "bytes": size, "cache": cache}


def why_features(dataset: str, size: float) -> str:
    """Return the reason of a row of FlareDTDG's Table 1: unit and features a node by which a snapshot's size is as printed.

    size: bytes of a snapshot's features.
    """
    if dataset in CACHED:
        return f"§2.3's 111.1 x 128 x 4 / 1024; {size / GB:.1f} decimal, {size / 2**30:.1f} binary GB (§1: 53)"
    return f"{width(dataset)} numbers a node, decimal GB"


def why_esdg(dataset: str, footprints: Terms, theirs: float, bound: bool) -> str:
    """Return the reason of a row of FlareDTDG's Table 1: how many snapshots ESDG's printed device memory holds.

    footprints: bytes that ESDG holds, by term ('total', 'working', ...). theirs: printed GB; bound: whether that is a lower bound.
    """
    count = snapshots_trained(dataset)
    if bound:
        return f"{ABOVE}it is {snapshots_in(footprints, count, theirs):.0f} snapshots of {count}"
    real, ours = a_gpu(dataset)["esdg"] * gpus_of(dataset), footprints["total"] / GB
    reason = f"ours is {ours / real:.2f} times that, which {snapshots_in(footprints, count, real):.0f} snapshots would hold; {count} train"
    return (copies(dataset, "esdg", theirs) or "a whole window; ") + reason


def why_cache(dataset: str, theirs: float, bound: bool) -> str:
    """Return the reason of a row of FlareDTDG's Table 1: how many edges a snapshot explain DynaHB's printed host memory.

    theirs: printed GB; bound: whether that is a lower bound.
    """
    stats, ranks, why = statistics(dataset), gpus_of(dataset), UNKNOWN
    whole = ranks * len(stats) * feature_bytes(stats.num_nodes, width(dataset)) / GB
    edges = denser(stats, dataset, theirs) * float(stats.edges.mean())
    if theirs > whole:
        why = f"more than all features of all snapshots on each of {ranks} ranks, {whole:.0f}: not features alone"
    elif np.isfinite(edges):
        why = f"met by {edges / 1e6:.3g}M edges a snapshot, {edges / (counts(dataset).edges or 1):.0%} of all, in place of "
        why += f"{stats.edges.mean() / 1e6:.3g}M"
    return f"{ABOVE * bound}{why}"


def why_dynagraph(dataset: str, footprints: Terms, theirs: float, assumed: Sequence[str]) -> str:
    """Return the reason of a row of FlareDTDG's Table 1: how many more values a row explain DynaGraph's printed device memory.

    footprints: bytes that DynaGraph holds, by term ('total', ...). theirs: printed GB. assumed: data sets whose model width is not printed.
    """
    model, stats = stack(dataset), trained(dataset)
    if dataset in assumed:
        wider = dynagraph_footprint(stats, replace(model, hidden=model.hidden + 1), window()).total - footprints["total"]
        met = model.hidden + (theirs * GB - footprints["total"]) / wider
        return f"met by a width of {met:.1f}; {model.hidden} is assumed"
    more = (theirs * GB - footprints["total"]) / (window() * stats.num_nodes * FP32)
    return (
        f"met by {more:.3g} more numbers a row and step, {more / model.hidden:.1f} times the width; sums of gates kept beside gates are 8"
    )


@cache
def otherwise() -> dict[str, float]:
    """Return what assumptions other than those of FlareDTDG's Table 1 would give, for its notes; by name, in GB.

    Of papers100M: `every` snapshot's features; `apart`: DynaHB's cache if snapshots shared no edges; `whole`: what ESDG holds; `snapshots`:
    how many the generated stand-in has, a number. Of Rec-Amazon: `thin`: the cache at the features that are trained; `wide`: what ESDG
    holds at 130 features a node. Of all machines: `devices`, `hosts`: their memory.
    """
    papers, amazon = "ogbn_papers100m", "rec_amazon"
    stats, beds = statistics(papers), presets.cluster("a40-ib")
    apart = replace(stats, edges=stats.edges * 0 + (counts(papers).edges or 0) // len(stats))
    wide = replace(stack(amazon), inputs=REGRESSION)
    return {
        "every": feature_bytes(stats.num_nodes, width(papers)) * len(stats) / GB,
        "apart": dynahb_cache_bytes(apart, width(papers), gpus_of(papers)) / GB,
        "whole": esdg_footprint(stats, stack(papers), len(stats)).total / GB,
        "snapshots": len(stats),
        "thin": dynahb_cache_bytes(statistics(amazon), stack(amazon).inputs, gpus_of(amazon)) / GB,
        "wide": esdg_footprint(trained(amazon), wide, len(trained(amazon))).total / GB,
        "devices": beds.gpus * beds.device.memory / GB,
        "hosts": beds.nodes * beds.host_memory / GB,
    }
