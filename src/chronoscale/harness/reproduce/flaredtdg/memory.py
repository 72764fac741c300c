"""Memory: what three systems hold to train MPNN-LSTM, from counts alone (Table 1)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from chronoscale.datasets.snapshots.statistics import SnapshotStatistics
from chronoscale.harness.reproduce.flaredtdg.stand_ins import ASSUMED, TRAINED, WINDOW, printed, stack, statistics, trained
from chronoscale.harness.study.findings import AGREES, UNKNOWN, Findings, Told, beside
from chronoscale.reports.published import published
from chronoscale.simulator import presets
from chronoscale.strategies.flaredtdg.footprint import Held, dynagraph, dynahb, dynahb_cache, esdg, feature_bytes
from chronoscale.strategies.snapshots.rows import FP32

GB = 1e9
MIXED = 1.024e9  # bytes of a "GB" of §2.3: a million bytes times 1024
CACHED = {"ogbn_papers100m": 128}  # numbers a node in Table 1's sizes of features, where it is not REGRESSION
REGRESSION = 130  # the one whole width that gives all three printed sizes in decimal GB, 128 and the two degrees; in GiB 140 would
AT_LEAST, ABOVE = ", at least", "printed is a lower bound, which ours is above; "
Line = dict[str, object]


def width(dataset: str) -> int:
    """Numbers a node of Table 1's sizes of features."""
    return CACHED.get(dataset, REGRESSION)


def a_gpu(dataset: str) -> dict[str, float]:
    """Table 5's GB a GPU of MPNN-LSTM, by strategy; without those that ran out."""
    (found,) = (line for line in published("flaredtdg").tables[5].rows if (line["dataset"], line["model"]) == (dataset, "mpnn-lstm"))
    return {name: float(value) for name, value in found.items() if not isinstance(value, str)}


def copies(dataset: str, strategy: str, gb: float) -> str:
    """Of how many GPUs Table 1's figure is, by Table 5's; '' where as many as Table 2 has."""
    each, gpus = a_gpu(dataset)[strategy], printed(dataset).gpus or 1
    times = gb / each
    return "" if round(times) == gpus else f"{times:.0f} times Table 5's {each:g}, but {gpus} GPUs (Table 2): {gpus * each:.3g}; "


def snapshots(held: Held, window: int, gb: float) -> float:
    """How many of `window` snapshots `gb` hold."""
    return (gb * GB - held.working) / (held.total - held.working) * window


def denser(stats: SnapshotStatistics, dataset: str, gb: float) -> float:
    """By how much more edges a snapshot DynaHB's cache would be `gb`, by bisection; infinite where no number is enough."""
    ranks, low, high = printed(dataset).gpus or 1, 0.0, 1e4

    def cache(factor: float) -> float:
        return dynahb_cache(replace(stats, edges=np.rint(stats.edges * factor).astype(np.int64)), width(dataset), ranks) / GB

    if cache(high) < gb:
        return float("inf")
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if cache(middle) < gb else (low, middle)
    return high


def features(dataset: str, theirs: float) -> Line:
    """One snapshot's features."""
    nodes, unit = printed(dataset).nodes, MIXED if dataset in CACHED else GB
    size = feature_bytes(nodes, width(dataset))
    why = f"{width(dataset)} numbers a node, decimal GB"
    if dataset in CACHED:
        why = f"§2.3's 111.1 x 128 x 4 / 1024; {size / GB:.1f} decimal, {size / 2**30:.1f} binary GB (§1: 53)"
    return beside(f"{dataset}, features of a snapshot, GB", theirs, size / unit, why)


def snapshot_parallel(dataset: str, line: dict[str, float]) -> Line:
    """ESDG."""
    stats = trained(dataset)
    held = esdg(stats, stack(dataset), len(stats))
    ours = held.total / GB
    if "esdg_above_gb" in line:
        theirs = line["esdg_above_gb"]
        why = f"{ABOVE}it is {snapshots(held, len(stats), theirs):.0f} snapshots of {len(stats)}"
        return beside(f"{dataset}, ESDG, devices, GB{AT_LEAST}", theirs, ours, why)
    theirs = line["esdg_gb"]
    real = a_gpu(dataset)["esdg"] * (printed(dataset).gpus or 1)
    said = f"ours is {ours / real:.2f} times that, which {snapshots(held, len(stats), real):.0f} snapshots would hold; {len(stats)} train"
    return beside(f"{dataset}, ESDG, devices, GB", theirs, ours, (copies(dataset, "esdg", theirs) or "a whole window; ") + said)


def cached(dataset: str, line: dict[str, float]) -> Line:
    """DynaHB's host memory."""
    stats, ranks = statistics(dataset), printed(dataset).gpus or 1
    ours = dynahb_cache(stats, width(dataset), ranks) / GB
    bound = "dynahb_host_above_gb" in line
    theirs = line["dynahb_host_above_gb" if bound else "dynahb_host_gb"]
    whole = ranks * len(stats) * feature_bytes(stats.num_nodes, width(dataset)) / GB
    edges = denser(stats, dataset, theirs) * float(stats.edges.mean())
    why = UNKNOWN
    if theirs > whole:
        why = f"more than all features of all snapshots on each of {ranks} ranks, {whole:.0f}: not features alone"
    elif np.isfinite(edges):
        why = f"met by {edges / 1e6:.3g}M edges a snapshot, {edges / (printed(dataset).edges or 1):.0%} of all, in place of "
        why += f"{stats.edges.mean() / 1e6:.3g}M"
    return beside(f"{dataset}, DynaHB, host cache, GB{AT_LEAST * bound}", theirs, ours, f"{ABOVE * bound}{why}")


def batched(dataset: str, line: dict[str, float]) -> Line:
    """DynaHB's devices."""
    ours = dynahb(trained(dataset), stack(dataset), WINDOW, printed(dataset).gpus or 1).total / GB
    if "dynahb_gb" not in line:
        return beside(f"{dataset}, DynaHB, devices, GB", float("nan"), ours, "printed: out of host memory")
    theirs = line["dynahb_gb"]
    share = theirs / ours
    why = f"within {AGREES:.0%}" if abs(ours / theirs - 1) <= AGREES else f"ours is a whole part a batch; met by {share:.0%} of one"
    return beside(f"{dataset}, DynaHB, devices, GB", theirs, ours, why)


def sampled(dataset: str, line: dict[str, float]) -> Line:
    """DynaGraph's devices."""
    theirs, model, stats = line["dynagraph_gb"], stack(dataset), trained(dataset)
    held = dynagraph(stats, model, WINDOW)
    more = (theirs * GB - held.total) / (WINDOW * stats.num_nodes * FP32)
    why = f"met by {more:.3g} more numbers a row and step, {more / model.hidden:.1f} times the width; sums of gates kept beside gates are 8"
    if dataset in ASSUMED:
        wider = dynagraph(stats, replace(model, hidden=model.hidden + 1), WINDOW).total - held.total
        why = f"met by a width of {model.hidden + (theirs * GB - held.total) / wider:.1f}; {model.hidden} is assumed"
    return beside(f"{dataset}, DynaGraph, devices, GB", theirs, held.total / GB, why)


def run(told: Told, quick: bool) -> Findings:
    """Features, ESDG, DynaHB, DynaGraph; terms of each in a table."""
    rows, terms = [], []
    for found in published("flaredtdg").tables[1].rows:
        dataset = str(found["dataset"])
        told(dataset)
        line = {key: float(value) for key, value in found.items() if not isinstance(value, str)}
        rows += [
            features(dataset, line["features_gb"]), snapshot_parallel(dataset, line),
            batched(dataset, line), cached(dataset, line), sampled(dataset, line),
        ]  # fmt: skip
        terms += parts(dataset)
    return Findings(pd.DataFrame(rows), (), {"terms": pd.DataFrame(terms)}, (*(("Quick: the same.",) if quick else ()), *notes()))


def parts(dataset: str) -> list[Line]:
    """Terms of what devices hold, GB."""
    stats, model, gpus = trained(dataset), stack(dataset), printed(dataset).gpus or 1
    held = {
        "esdg": esdg(stats, model, len(stats)),
        "dynahb": dynahb(stats, model, WINDOW, gpus),
        "dynagraph": dynagraph(stats, model, WINDOW),
    }
    names = ("adjacency", "inputs", "kept", "working", "total")
    return [{"dataset": dataset, "system": system, **{name: getattr(one, name) / GB for name in names}} for system, one in held.items()]


def notes() -> tuple[str, ...]:
    """Assumptions, and what other ones would give."""
    papers, amazon = "ogbn_papers100m", "rec_amazon"
    stats, bed = statistics(papers), presets.cluster("a40-ib")
    gpus, every = printed(papers).gpus or 1, feature_bytes(stats.num_nodes, width(papers)) * len(stats) / GB
    apart = replace(stats, edges=stats.edges * 0 + (printed(papers).edges or 0) // len(stats))
    whole = esdg(stats, stack(papers), len(stats)).total / GB
    thin = dynahb_cache(statistics(amazon), stack(amazon).inputs, printed(amazon).gpus or 1) / GB
    wide = esdg(trained(amazon), replace(stack(amazon), inputs=REGRESSION), len(trained(amazon))).total / GB
    devices, hosts = bed.gpus * bed.device.memory / GB, bed.nodes * bed.host_memory / GB
    return (
        "Counts of Tables 1 and 2; no graph of that size is built. Assumed: edges a snapshot (31, 21 and 11 % of all by the published "
        f"code's cuts; papers100M's come evenly and stay), {TRAINED:.0%} of the snapshots train (its split), widths 16, 8 and 2 (its), "
        "papers100M's 2.",
        f"papers100M's features alone are {every:.0f} GB in all its snapshots, beyond the testbed's {devices:.0f} GB of devices and "
        f"{hosts:.0f} of hosts. ESDG on all {len(stats)} snapshots, not those that train alone: {whole:.0f}.",
        f"Were its snapshots apart, each edge in one, DynaHB would cache {dynahb_cache(apart, width(papers), gpus) / GB:.0f}: the printed "
        "bound needs snapshots that share edges.",
        f"Two widths of features: devices agree with the two degrees (§4.1), with {REGRESSION} numbers ESDG would hold {wide:.0f} GB on "
        f"{amazon}; sizes of features and DynaHB's cache agree with {REGRESSION}, with two the cache would be {thin:.1f} GB there.",
        "ESDG's printed totals are 16 times Table 5's figures a GPU on all data sets, the others' as many as Table 2 has GPUs.",
    )
