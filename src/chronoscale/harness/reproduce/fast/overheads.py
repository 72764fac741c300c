"""Overheads: memory, disk and what happens before training, TGN on Bitcoin (Table 6)."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.sampling.redundancy import BATCH
from chronoscale.datasets import store
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.harness.study.findings import NAN, UNKNOWN, Findings, Told, beside
from chronoscale.harness.study.hooks.fast import stand_in
from chronoscale.harness.study.hooks.fast_executed import Executed, passes, seconds, timed
from chronoscale.harness.study.hooks.fast_footprint import SLOT, held
from chronoscale.harness.study.hooks.fast_points import SIMPLE_RATIO, TGL, Point, iterations, ratio, simulate, widths_of
from chronoscale.harness.study.hooks.fast_rates import solved
from chronoscale.reports.published import published
from chronoscale.strategies.streams.models import FP32

DATASET, MODEL = "bitcoin", "tgn"
GB = 1e9
PART, QUICK_PART = 1_000_000, 100_000  # events that are stored
EXECUTED = Executed(DATASET, MODEL, ("fast",), 200_000, 4, 2, ratio=0.3)
QUICK = Executed(DATASET, MODEL, ("fast",), 30_000, 1, 1, ratio=0.3, hidden=8)
ID = 4  # bytes of a hot id


def stored(events: int) -> float:
    """Bytes an event of what a prepared stream takes on disk, features left out, measured on a part of the stand-in."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store.save(folder / "stream", stand_in(DATASET).shortened(events).stream())
        PreparedStream.make(folder / "prepared", Path("..") / "stream", Protocol())
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / events


def before(quick: bool) -> tuple[float, float, float]:
    """Seconds a batch, measured here on a part: of FAST's pre-sampling, of sampling alone, and of an executed epoch of FAST."""
    one = QUICK if quick else EXECUTED
    every = max(-(-round(one.events * Protocol().train) // BATCH) // one.batches, 1)
    presampled = min(100, one.batches * every)
    fast = timed(one, "fast")
    return fast.residents / presampled, fast.sample / one.batches, seconds(passes(one)["fast"]) / one.batches


def run(told: Told, quick: bool) -> Findings:
    """Host, disk and device by count; seconds before training by measurement, and their shares of an epoch."""
    printed = {str(line["strategy"]): line for line in published("fast").tables[6].rows}
    one, counts = held(DATASET, MODEL, quick), widths_of(DATASET)
    share = ratio(DATASET, MODEL, quick)
    host = {"tgl": one.lasting, "etc": one.lasting + one.samples, "simple": one.lasting + one.samples, "fast": one.lasting}
    points = {
        "tgl": Point(DATASET, MODEL, TGL, quick),
        "etc": Point(DATASET, MODEL, "etc", quick),
        "simple": Point(DATASET, MODEL, "simple", quick, SIMPLE_RATIO),
        "fast": Point(DATASET, MODEL, "fast", quick, share),
    }
    told("disk")
    each = stored(QUICK_PART if quick else PART)
    hot = ID * share * (counts["nodes"] + counts["edges"])
    disk = {
        "tgl": each * counts["edges"],
        "etc": each * counts["edges"],
        "simple": each * counts["edges"],
        "fast": each * counts["edges"] + hot,
    }
    rows = []
    for name, point in points.items():
        told(name)
        line = printed[name]
        rows.append(
            beside(
                f"{name}, host, GB",
                float(line.get("host_gb", NAN)),
                host[name] / GB,
                HOST[name].format(features=one.features / GB, state=one.state / GB),
            )
        )
        rows.append(beside(f"{name}, disk, GB", float(line["disk_gb"]), disk[name] / GB, DISK[name]))
        rows.append(beside(f"{name}, device, GB", float(line.get("device_gb", NAN)), device(point, quick) / GB, DEVICE[name]))
    kept = (float(printed["etc"]["host_gb"]) - float(printed["tgl"]["host_gb"])) * GB
    slots = one.samples / SLOT
    rows.append(beside("bytes that etc keeps of a sampled neighbour", kept / slots, SLOT,
                       "printed: etc's host less tgl's, over the stand-in's neighbours; "
                       "ours: what TGL's sampler returns, row, column, event, node and two times of four bytes each"))  # fmt: skip
    told("pre-sampling")
    rows += _before(quick, printed)
    detail = pd.DataFrame([{"what": what, "GB": getattr(one, what) / GB} for what in ("features", "graph", "state", "samples")])
    return Findings(pd.DataFrame(rows), (), {"host": detail}, said(quick, each))


HOST = {
    "tgl": "features are {features:.1f} of it, and all of the printed; node memory and mailbox, {state:.1f} here, are not in that; "
    "where theirs lie "
    "is not printed",
    "etc": "with the samples of an epoch, which ours does not keep",
    "simple": f"with the samples of an epoch, as etc; printed: out of memory of 512 GB; why is {UNKNOWN}",
    "fast": "as tgl",
}
DISK = {
    "tgl": "features left out, as in print: events, T-CSR, negatives and the split; how theirs are stored is not said",
    "etc": "as tgl",
    "simple": "as tgl: ours plans each epoch in memory and stores none of it",
    "fast": "as tgl, and the ids that are cached, four bytes each",
}
DEVICE = {
    "tgl": "the most of a batch's rows that lie there at once; what a runtime and a caching allocator hold beside is not counted",
    "etc": "three batches are under way; printed hardly differs from tgl",
    "simple": "its cache is 10 % of the features",
    "fast": "the cache is what the device has room for",
}


def device(point: Point, quick: bool) -> float:
    """Bytes; a cache is at the published size, whatever part of the stand-in was generated."""
    bare = simulate(Point(point.dataset, point.model, point.strategy, quick), solved(quick)).device_bytes
    counts = widths_of(point.dataset)
    return bare + point.ratio * FP32 * sum(counts[f"{what}s"] * counts[f"{what}_width"] for what in ("node", "edge"))


def _before(quick: bool, printed: Mapping[str, Mapping[str, object]]) -> list[dict[str, object]]:
    """Pre-sampling, as a share of an epoch and beside SIMPLE's sampling of all batches."""
    fast, sample, epoch = before(quick)
    theirs = {name: float(str(printed[name]["prepare_s"])) for name in ("fast", "simple")}
    span = float(str(printed["fast"]["seconds"]))
    share = "every batch of an epoch pre-sampled, measured here; a CPU's epoch, so computing takes longer than theirs"
    times = "this machine's seconds a batch, times their batches"
    return [
        beside("fast, pre-sampling over an epoch", theirs["fast"] / span, fast / epoch, share),
        beside("fast, pre-sampling over sampling all batches", theirs["fast"] / theirs["simple"], fast / sample,
               "printed over SIMPLE's; ours also sorts and counts ids of two hops, a batch of 100 bears all of the sorting; how many "
               "batches theirs samples is not printed"),
        beside("fast, pre-sampling of every batch, s", theirs["fast"], fast * iterations(DATASET), times),
        beside("simple, sampling of every batch, s", theirs["simple"], sample * iterations(DATASET), times),
    ]  # fmt: skip


def said(quick: bool, each: float) -> tuple[str, ...]:
    """What is counted and what is measured."""
    one = QUICK if quick else EXECUTED
    return (
        *(
            (f"Quick: {QUICK_PART:,} events are stored, {one.events:,} pre-sampled, one batch of a narrow model is executed.",)
            if quick
            else ()
        ),
        "Counted from Table 3's rounded counts: float32 features, 32 bytes an event of stream and T-CSR, memory and mailbox of "
        "width 100 and "
        f"372 a node. Disk is {each:.1f} bytes an event, measured on {QUICK_PART if quick else PART:,} events of the stand-in. "
        f"Printed GB are read "
        "as decimal, unlike Table 3's: features alone are then 101.4 of the 101.6 that TGL's host has.",
        f"Samples: {SLOT} bytes for each neighbour that the stand-in has in two hops of an epoch's training batches.",
        f"Measured on this machine's CPU: {one.batches} batches of {BATCH:,}, spread over {one.events:,} events of Bitcoin's "
        f"stand-in; shared "
        "and virtual, so seconds are not to be compared. SWIFT was not built: it is no part of what is reproduced.",
    )
