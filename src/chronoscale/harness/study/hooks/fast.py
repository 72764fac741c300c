"""FAST: stand-ins and their redundancy; epochs of the paper's length by simulation, and the host's rates that these are solved from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.redundancy import BATCH, measure_redundancy
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.harness.study.evaluation import evaluate, of_paper, testbed
from chronoscale.harness.study.findings import NAN, UNKNOWN, beside
from chronoscale.harness.study.point import StudyPoint
from chronoscale.harness.study.replay import Replayed
from chronoscale.harness.study.task import Task
from chronoscale.harness.study.testbeds.host_costs import Rates
from chronoscale.harness.study.testbeds.host_streams import HostStreams, prepared, stand_in
from chronoscale.reports.published import published
from chronoscale.strategies.streams.models import FP32, shape_of
from chronoscale.strategies.streams.rows.phase import state_bytes

TGL = "sequential"  # as released: nothing overlaps
ANCHOR = {"dataset": "wikitalk", "model": "tgat"}  # TGL's epoch that the rate of gathering is solved from
PROBED = (2e9, 4e9)  # B/s
PEAKS = (0.3, 0.15)  # shares of peak
HOST = 512e9  # bytes, §6.1
ENTRY, EVENT = 8, 16  # of a T-CSR's entry, two int32; of an event: two int32 ids and its time
SLOT = 24  # bytes of a neighbour in what TGL's sampler returns: row, column, event, node, time, elapsed time, four each


def bed() -> HostStreams:
    """Return the testbed of FAST's studies: epochs of one GPU whose features lie in host memory."""
    bed = of_paper("fast")
    assert isinstance(bed, HostStreams)
    return bed


def counts(dataset: str) -> dict[str, int]:
    """Return {'nodes', 'events'} of the generated stream that stands in for a data set, for FAST's Table 3."""
    made = stand_in(dataset)
    return {"nodes": made.nodes, "events": made.events}


def training_events(dataset: str, most: int) -> int:
    """Return how many events of a data set's generated stand-in are trained on, for FAST's Table 4. most: events at most, 0: all."""
    return prepared(dataset, most).training_events


def gib(rows: float, width: float) -> float:
    """Return the GiB of a table of float32 features, for rows of FAST's Table 3. width: features a row."""
    return rows * width * FP32 / 2.0**30


def feature_bytes(dataset: str) -> int:
    """Return the bytes of all node and event features of a data set by FAST's Table 3, for Table 6 and the room of caches."""
    of = bed().counts(dataset)
    return FP32 * sum(of[f"{what}s"] * of[f"{what}_width"] for what in ("node", "edge"))


def sampled(point: StudyPoint) -> dict[str, Any]:
    """Sample batches of a point's generated stream and count how redundant they are, for FAST's Table 1 and Figure 3.

    Settings: `most` events of the stream, `batches` of them. Returns `rates` in per cent ('match, node': different nodes that two
    consecutive batches have in common; 'repeat, node': how many ids of a batch are repetitions; the same with 'edge'; 'unbalance' of
    degrees); mean `degree` (sampled neighbours) of roots, `degree_of_found` neighbours; `distribution`: share of roots of degree 0, 1, ...;
    `shares` of roots with no, some and the most neighbours; `events` sampled, of `whole`; `nodes`, `batches`; `part` of the stream in words
    ('' for the whole).
    """
    whole, made = len(stand_in(point.dataset)), stand_in(point.dataset, point.setting("most"))
    events = made.stream()
    deal = BatchAssignment(range(len(events)), 1, BATCH, every=max(len(events) // BATCH // point.setting("batches"), 1))
    redundancy = measure_redundancy(IndexedStream(events, TCSR.of(events)), deal)
    names = [f"{what}, {of}" for what in ("match", "repeat") for of in ("node", "edge")]
    rates = dict(zip([*names, "unbalance"], (*redundancy.match, *redundancy.repeat, redundancy.unbalance), strict=True))
    return {
        "rates": {name: float(rate) * 100 for name, rate in rates.items()},
        "degree": redundancy.degree,
        "degree_of_found": redundancy.degree_of_found,
        "distribution": [float(share) for share in redundancy.distribution],
        "shares": [
            float(share) for share in (redundancy.distribution[0], redundancy.distribution[1:-1].sum(), redundancy.distribution[-1])
        ],
        "events": len(made),
        "whole": whole,
        "nodes": made.nodes,
        "batches": deal.iterations,
        "part": "" if len(made) == whole else f"{len(made):,} of {whole:,} events",
    }


def epoch(replayed: Replayed) -> dict[str, Any]:
    """Return the simulated seconds, bytes and neighbours of an epoch of the paper's length, a metric of FAST's studies.

    Few batches are planned and multiplied up to the paper's number. `epoch_s`; `seconds` by operation (lanes overlap, so that they add up
    to more); `device_bytes`: a device's peak; `sampled`: neighbours.
    """
    assert isinstance(replayed.testbed, HostStreams)
    steps = replayed.testbed.steps(replayed.point.dataset)
    factor = steps / replayed.schedule.iterations
    return {
        "epoch_s": replayed.testbed.epoch_s(replayed.point, replayed.schedule, replayed.trace),
        "seconds": {op: factor * seconds for op, seconds in replayed.seconds.items() if replayed.of(op).any()},
        "device_bytes": float(replayed.peaks.max()),
        "sampled": float(replayed.schedule.edges[replayed.of("SAMPLE")].sum()) * steps / replayed.schedule.iterations,
    }


def simulated(scale: Mapping[str, int], rates: Rates | None = None, **axes: Any) -> dict[str, Any]:
    """Simulate one point of FAST's studies and return its metric `epoch`: seconds, bytes and neighbours of an epoch.

    scale: what is planned of a generated stream: `most` events, `batches` of them, batches to `presample`. rates: the host's speeds, None:
    the defaults. axes: dataset, model, strategy and other settings.
    """
    point = StudyPoint.of({"paper": "fast", **scale, **axes} | ({"rates": rates} if rates else {}))
    values: dict[str, Any] = evaluate(Task(point, "sweep", "", ("epoch",), ("fast",))).values["epoch"]
    return values


def cached(dataset: str, model: str, scale: Mapping[str, int]) -> float:
    """Return the share of the features that FAST's cache holds, 0 to 1, for its Figure 11 and Tables 4 and 6.

    All, or what a 40 GB device has room for beside an epoch without a cache, in whole per cent (FAST §5, Table 6). scale: what is planned
    of a generated stream: `most` events, `batches` of them, batches to `presample`.
    """
    beside = simulated(scale, dataset=dataset, model=model, strategy="fast-compressed")["device_bytes"]
    return float(min(1.0, np.floor(100 * (Rates().cluster.device.memory - beside) / feature_bytes(dataset)) / 100))


def printed_seconds(dataset: str, model: str, strategy: str) -> float:
    """Return the seconds of an epoch that FAST's Table 4 prints, for its studies; NaN for what is not there or ran out of memory.

    strategy: as the table names it.
    """
    wanted = (dataset, model, strategy)
    rows = published("fast").tables[4].rows
    return next((float(r.get("seconds", "nan")) for r in rows if (r["dataset"], r["model"], r["strategy"]) == wanted), NAN)


def neighbours(dataset: str, scale: Mapping[str, int]) -> float:
    """Return how many neighbours an epoch of the paper's length samples, two hops of the most recent ones, for FAST's studies.

    scale: what is planned of a generated stream: `most` events, `batches` of them, batches to `presample`.
    """
    return float(simulated(scale, dataset=dataset, model="tgat", strategy=TGL)["sampled"])


def solved(scale: Mapping[str, int]) -> Rates:
    """Solve the host's speeds of sampling and gathering from printed numbers, for FAST's Figures 1 and 11 and Table 4.

    Sampling: all of Bitcoin's epoch in the time of SIMPLE's pre-sampling (Table 6). Gathering: TGL's epoch on WikiTalk with TGAT is as
    Table 4 prints it. scale: the size of the generated stream that is planned with: `most` is its number of events at most, `batches` how
    many batches an epoch takes of them, `presample` how many are sampled before.
    """
    before = next(float(r["prepare_s"]) for r in published("fast").tables[6].rows if r["strategy"] == "simple")
    return _gathering(Rates(neighbours("bitcoin", scale) / before, PROBED[0]), scale)


def paced(scale: Mapping[str, int]) -> Rates:
    """Return the speeds of `solved` with the kernels' share of peak solved, too, for FAST's Figures 1 and 11 and Table 4.

    By it FAST's epoch on WikiTalk with TGAT, all features on the device and nothing fetched ahead, is as Table 4 prints it (linear in the
    inverse share). scale: what is planned of a generated stream: `most` events, `batches` of them, batches to `presample`.
    """
    first, whole = solved(scale), {**ANCHOR, "strategy": "fast", "cached": 1.0, "ahead": 0}
    little, less = (simulated(scale, replace(first, efficiency=share), **whole)["epoch_s"] for share in PEAKS)
    work = (less - little) / (1 / PEAKS[1] - 1 / PEAKS[0])  # seconds at peak
    share = work / (printed_seconds(**ANCHOR, strategy="fast") - little + work / PEAKS[0])
    return _gathering(replace(first, efficiency=share), scale)


def _gathering(rates: Rates, scale: Mapping[str, int]) -> Rates:
    """With the rate of gathering by which TGL's epoch of the anchor is as printed: as nothing overlaps, it is linear in a byte's time."""
    slow, fast = (simulated(scale, replace(rates, gather=rate), **ANCHOR, strategy=TGL)["epoch_s"] for rate in PROBED)
    moved = (slow - fast) / (1 / PROBED[0] - 1 / PROBED[1])  # bytes of an epoch
    return replace(rates, gather=moved / (printed_seconds(**ANCHOR, strategy="tgl") - slow + moved / PROBED[0]))


def changed(rates: Rates, values: Mapping[str, Any] | None = None, times: Mapping[str, float] | None = None) -> Rates:
    """Return the host's speeds under other assumptions, for the cases of FAST's Table 4 and Figure 11.

    values: field of `Rates` -> its new value. times: field -> factor.
    """
    return replace(rates, **(values or {}), **{name: factor * getattr(rates, name) for name, factor in (times or {}).items()})


def held(dataset: str, model: str, scale: Mapping[str, int]) -> dict[str, float]:
    """Return bytes of host memory at the paper's size, by Table 3's counts, for FAST's Table 6.

    `features`; `graph`: events and their neighbour lists (T-CSR); `state`: node memory and mailbox; `lasting`: their sum; `samples`: all of
    an epoch, 24 bytes a neighbour as TGL's sampler returns them. scale: what is planned of a generated stream: `most` events, `batches` of
    them, batches to `presample`.
    """
    of, point = bed().counts(dataset), StudyPoint.of({"paper": "fast", "dataset": dataset, "model": model, "strategy": TGL, **scale})
    terms = {
        "features": feature_bytes(dataset),
        "graph": of["edges"] * (2 * ENTRY + EVENT) + 8 * of["nodes"],
        "state": of["nodes"] * state_bytes(shape_of(testbed(point).workload(point))),
    }
    return {**terms, "samples": SLOT * neighbours(dataset, scale), "lasting": sum(terms.values())}


def refusals(scale: Mapping[str, int], names: Sequence[str]) -> list[dict[str, object]]:
    """Return rows for what FAST's Table 4 prints as out of memory: GB on the host if an epoch's samples were all kept.

    scale: what is planned of a generated stream: `most` events, `batches` of them, batches to `presample`. names: data sets of which rows
    are wanted. Each has `what`, `published` (NaN), `ours` (GB), `ratio` (NaN) and `why`, which says what ours holds without samples.
    """
    rows = []
    for line in published("fast").tables[4].rows:
        name, model, strategy = (str(line[key]) for key in ("dataset", "model", "strategy"))
        if line.get("oom") and name in names:
            one = held(name, model, scale)
            whole = one["lasting"] + one["samples"]
            verdict = "so would ours be" if whole > HOST else f"ours would fit: why is {UNKNOWN}"
            why = f"printed: out of memory of 512 GB; {verdict}. Ours keeps no samples and holds {one['lasting'] / 1e9:.0f} GB"
            rows.append(beside(f"{name}, {model}, {strategy}, GB on the host were an epoch's samples kept", NAN, whole / 1e9, why))
    return rows
