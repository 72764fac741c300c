"""FlareDTDG: sizes and windows of its data sets, what systems hold by counts (Table 1), and printed figures that need arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from chronoscale.datasets import catalogue
from chronoscale.datasets.entries import Published
from chronoscale.datasets.snapshots.csr import WeightedCSR
from chronoscale.datasets.snapshots.statistics import SnapshotStatistics
from chronoscale.harness.study.evaluation import of_paper
from chronoscale.harness.study.findings import AGREES, UNKNOWN
from chronoscale.harness.study.point import Points, Record, StudyPoint
from chronoscale.harness.study.testbeds.snapshots import SnapshotTestbed, first, statistics
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


def bed() -> SnapshotTestbed:
    """Return the paper's testbed."""
    found = of_paper("flaredtdg")
    assert isinstance(found, SnapshotTestbed)
    return found


def counts(dataset: str) -> Published:
    """Return Table 2's counts."""
    return catalogue.entry(dataset).as_published("flaredtdg")


def gpus_of(dataset: str) -> int:
    """Return Table 2's number of GPUs."""
    return counts(dataset).gpus or 1


def width(dataset: str) -> int:
    """Return the numbers a node of Table 1's sizes of features."""
    return CACHED.get(dataset, REGRESSION)


def regresses(dataset: str) -> bool:
    """Say whether degrees are predicted, which are the features then (§4.1); else classes."""
    return counts(dataset).node_features == bed().degrees


def executes(name: str) -> bool:
    """Say whether ranks can execute a strategy's schedules."""
    return strategy(name).executes


def trained(dataset: str) -> SnapshotStatistics:
    """Return counts of the snapshots that train."""
    return first(statistics(dataset), bed().trains)


def snapshots_trained(dataset: str) -> int:
    """Return how many snapshots train."""
    return len(trained(dataset))


def kept() -> float:
    """Return the whole snapshots that a window keeps, its parts added up."""
    windows = bed().windows
    assert windows is not None
    return windows.kept


def window() -> int:
    """Return the snapshots of a window."""
    windows = bed().windows
    assert windows is not None
    return windows.decay.window


def cluster(gpus: int) -> Cluster:
    """Return the paper's machines, as many as `gpus` need."""
    return presets.scaled(presets.cluster("a40-ib"), gpus)


def history(theirs: float, ours: float) -> str:
    """Say a window's share, and how long a full history would have to be for the printed reduction."""
    said = f"of {window()} snapshots a window keeps {kept():.3g}, {1 - kept() / window():.0%} less of nodes, and of edges less than that"
    if abs(ours / theirs - 1) <= AGREES:
        return said
    longer = window() * (1 + ours) / (1 + theirs)
    return f"{said}; {-theirs:.0%} less would be that of a full history of {longer:.3g} snapshots, not {window()}"


def in_both(line: Mapping[str, Any], name: str, outside: Sequence[str]) -> float:
    """Return a printed share of the parts that both have: `outside` are of no schedule."""
    return float(line[name]) / (1 - sum(float(line[other]) for other in outside))


def on_device(one: Record, uncut: Points) -> str:
    """Say what a device holds. uncut: FlareDTDG's points were nothing cut."""
    memory = cluster(one.gpus).device.memory / GB
    beyond = f"more than the {memory:g} of a device; " if one.status == "out of memory" else ""
    if one.strategy == "esdg":
        snapshots = snapshots_trained(one.dataset) - 1
        return f"{beyond}{snapshots} snapshots, {snapshots / one.gpus:.3g} a GPU, and what checkpoints keep of them"
    if one.strategy != "flaredtdg":
        return f"{beyond}windows of {window()} snapshots; {UNPRINTED[one.strategy]} not printed"
    said = f"{beyond}{kept():.3g} snapshots a window; were nothing cut {uncut.at('peak_gb', dataset=one.dataset, model=one.model):.3g}"
    if one.mean_gb < UNEVEN * one.peak_gb:
        said += f"; {one.mean_gb:.3g} on average: METIS evens out nodes, not edges, and the stand-in has hubs"
    return said


def least(rows: Sequence[Mapping[str, Any]], systems: int) -> str:
    """Say in how many points the last system's figure is the least of all systems', printed and ours."""
    count, groups = {"published": 0, "ours": 0}, [rows[i : i + systems] for i in range(0, len(rows), systems)]
    for group in groups:
        for whose in count:
            figures = [float(str(one[whose])) for one in group]
            count[whose] += all(figures[-1] <= figure for figure in figures if figure == figure)
    return f"flaredtdg's is the least in {count['published']} of {len(groups)} points in print, in {count['ours']} of ours"


def host_gb(dataset: str, name: str, gpus: int) -> float:
    """Return GB of all hosts together: the snapshots that train, of which parts are sent; DynaHB's caches besides, as Table 1 has them."""
    if name == "dynahb":
        return dynahb_cache_bytes(statistics(dataset), width(dataset), gpus) / GB
    stats = trained(dataset)
    features = len(stats) * feature_bytes(stats.num_nodes, counts(dataset).node_features or 1)
    return (float(WeightedCSR.nbytes_of(stats.num_nodes, stats.edges).sum()) + features) / GB


def error_ratios(number: int, model: str, rival: str) -> Range:
    """Return the printed MSE of FlareDTDG over another's, over the data sets that have both and whose task is a regression."""
    found = []
    for line in published("flaredtdg").tables[number].rows:
        dataset, known = str(line["dataset"]), not isinstance(line.get(rival, ""), str)
        if line["model"] == model and known and regresses(dataset):
            found.append(float(line["flaredtdg"]) / float(line[rival]))
    return Range(strategy="flaredtdg", over=rival, low=min(found), mean=float(np.mean(found)), high=max(found))


def growth(cells: Points, quantity: str) -> list[float]:
    """Return a quantity of the most full snapshots over that of the fewest, at each retention."""
    full, alphas = sorted(set(cells.all("full"))), sorted(set(cells.all("alpha")))
    return [cells.at(quantity, full=full[-1], alpha=a) / cells.at(quantity, full=full[0], alpha=a) for a in alphas]


def stack(dataset: str) -> MPNNSizes:
    """Return MPNN-LSTM as it is trained: in- and out-degree a node, papers100M's 128 embeddings (§4.1)."""
    hidden = bed().hidden
    return MPNNSizes(counts(dataset).node_features or 1, hidden if isinstance(hidden, int) else hidden[dataset])


def a_gpu(dataset: str) -> dict[str, float]:
    """Return Table 5's GB a GPU of MPNN-LSTM, by strategy; without those that ran out."""
    (line,) = (line for line in published("flaredtdg").tables[5].rows if (line["dataset"], line["model"]) == (dataset, "mpnn-lstm"))
    return {name: float(value) for name, value in line.items() if not isinstance(value, str)}


def copies(dataset: str, name: str, gb: float) -> str:
    """Say of how many GPUs Table 1's figure is, by Table 5's; '' where as many as Table 2 has."""
    each, gpus = a_gpu(dataset)[name], gpus_of(dataset)
    times = gb / each
    return "" if round(times) == gpus else f"{times:.0f} times Table 5's {each:g}, but {gpus} GPUs (Table 2): {gpus * each:.3g}; "


def snapshots_in(held: Terms, length: int, gb: float) -> float:
    """Return how many of `length` snapshots `gb` hold."""
    return (gb * GB - held["working"]) / (held["total"] - held["working"]) * length


def denser(stats: SnapshotStatistics, dataset: str, gb: float) -> float:
    """Return by how much more edges a snapshot DynaHB's cache would be `gb`, by bisection; infinite where no number is enough."""
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
    """Return what each system holds to train MPNN-LSTM, from counts alone: bytes of each term, and a snapshot's features as printed."""
    name, stats, model, gpus = point.dataset, trained(point.dataset), stack(point.dataset), gpus_of(point.dataset)
    held = {
        "esdg": esdg_footprint(stats, model, len(stats)),
        "dynahb": dynahb_footprint(stats, model, window(), gpus),
        "dynagraph": dynagraph_footprint(stats, model, window()),
    }
    size = feature_bytes(counts(name).nodes or 0, width(name))
    cache = dynahb_cache_bytes(statistics(name), width(name), gpus) / GB
    terms = {system: {term: getattr(one, term) for term in TERMS} for system, one in held.items()}
    return {"held": terms, "features": size / (MIXED if name in CACHED else GB), "bytes": size, "cache": cache}


def why_features(dataset: str, size: float) -> str:
    """Say in which unit, and of how many numbers a node, a snapshot's features are printed."""
    if dataset in CACHED:
        return f"§2.3's 111.1 x 128 x 4 / 1024; {size / GB:.1f} decimal, {size / 2**30:.1f} binary GB (§1: 53)"
    return f"{width(dataset)} numbers a node, decimal GB"


def why_esdg(dataset: str, held: Terms, theirs: float, bound: bool) -> str:
    """Say how many snapshots ESDG's printed devices hold."""
    count = snapshots_trained(dataset)
    if bound:
        return f"{ABOVE}it is {snapshots_in(held, count, theirs):.0f} snapshots of {count}"
    real, ours = a_gpu(dataset)["esdg"] * gpus_of(dataset), held["total"] / GB
    said = f"ours is {ours / real:.2f} times that, which {snapshots_in(held, count, real):.0f} snapshots would hold; {count} train"
    return (copies(dataset, "esdg", theirs) or "a whole window; ") + said


def why_cache(dataset: str, theirs: float, bound: bool) -> str:
    """Say how many edges a snapshot would give DynaHB's printed host memory."""
    stats, ranks, why = statistics(dataset), gpus_of(dataset), UNKNOWN
    whole = ranks * len(stats) * feature_bytes(stats.num_nodes, width(dataset)) / GB
    edges = denser(stats, dataset, theirs) * float(stats.edges.mean())
    if theirs > whole:
        why = f"more than all features of all snapshots on each of {ranks} ranks, {whole:.0f}: not features alone"
    elif np.isfinite(edges):
        why = f"met by {edges / 1e6:.3g}M edges a snapshot, {edges / (counts(dataset).edges or 1):.0%} of all, in place of "
        why += f"{stats.edges.mean() / 1e6:.3g}M"
    return f"{ABOVE * bound}{why}"


def why_dynagraph(dataset: str, held: Terms, theirs: float, assumed: Sequence[str]) -> str:
    """Say how many more numbers a row and step would give DynaGraph's printed devices."""
    model, stats = stack(dataset), trained(dataset)
    if dataset in assumed:
        wider = dynagraph_footprint(stats, replace(model, hidden=model.hidden + 1), window()).total - held["total"]
        met = model.hidden + (theirs * GB - held["total"]) / wider
        return f"met by a width of {met:.1f}; {model.hidden} is assumed"
    more = (theirs * GB - held["total"]) / (window() * stats.num_nodes * FP32)
    return (
        f"met by {more:.3g} more numbers a row and step, {more / model.hidden:.1f} times the width; sums of gates kept beside gates are 8"
    )


def otherwise() -> dict[str, float]:
    """Return what other assumptions than Table 1's would give, GB."""
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
