"""PGT-I: what copied windows take, what a host holds from loading to training, and what the printed numbers imply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chronoscale.batching.signals.windows import Windows
from chronoscale.harness.study.evaluation import of_paper
from chronoscale.harness.study.findings import AGREES, NAN
from chronoscale.harness.study.point import Record, StudyPoint
from chronoscale.harness.study.replay import Replayed, plan_and_replay
from chronoscale.harness.study.testbeds.signals import SignalTestbed
from chronoscale.reports.published import Range, published
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.strategies.schedule import Lane
from chronoscale.strategies.workload import Workload

PAPER = "pgt-i"
EPOCHS = 30
GIB = 2.0**30
VALUE, STAMP = 8, 8  # float64; a time stamp a step in the files of the traffic sets
TRAFFIC = ("metr_la", "pems_bay", "pems_all_la", "pems")
# What the files hold, where it is not what Table 1 prints: steps, sensors.
FILES = {"chickenpox_hungary": (521, 20), "pems_bay": (52_116, 325), "pems": (105_120, 11_126)}
STAGES = ("load", "windows", "standardise", "train")


def bed() -> SignalTestbed:
    """Return the paper's testbed."""
    found = of_paper(PAPER)
    assert isinstance(found, SignalTestbed)
    return found


def workload(dataset: str, strategy: str = "index") -> Workload:
    """Return what PGT-DCRNN trains on a data set."""
    return bed().workload(StudyPoint(PAPER, dataset, "pgt-dcrnn", strategy=strategy, cluster="polaris"))


def published_rows(number: int) -> Sequence[Mapping[str, Any]]:
    """Return the rows of another table of the paper."""
    return published(PAPER).tables[number].rows


def published_ranges(number: int) -> Sequence[Range]:
    """Return the ranges of another figure of the paper."""
    return published(PAPER).figures[number].ranges


# Metrics of a point.


def waiting_s(one: Replayed) -> float:
    """Return the seconds of an epoch that a rank's compute stream is not busy, mean of ranks: one FIFO, so that tasks add up."""
    trace = one.trace
    return trace.span_ns / 1e9 - float(trace.duration_ns[trace.lane == Lane.COMPUTE].sum()) / 1e9 / trace.ranks


def prepare_s(one: Replayed) -> float:
    """Return the seconds of what happens once before."""
    costs = one.testbed.costs(one.point, one.cluster)
    before = one.testbed.planner(one.point).prepare(one.workload, one.point.gpus, costs)
    return replay(before, one.cluster, costs).span_ns / 1e9


def device_gib(one: Replayed) -> float:
    """Return the most that a device holds."""
    return float(one.peaks.max()) / GIB


def host_gib(one: Replayed) -> float:
    """Return what a rank's host memory is planned to hold; where it does not fit, what it would need."""
    return float(one.schedule.host) / GIB


def kernels(one: Replayed) -> int:
    """Return the kernels of an epoch on the GPU that has most of them."""
    return int(np.bincount(one.schedule.rank, one.schedule.kernels).max())


def epoch_s(axes: Mapping[str, Any]) -> float:
    """Return an epoch's seconds of a point that others are made from."""
    return plan_and_replay(StudyPoint.of({"paper": PAPER, **axes}), bed()).trace.span_ns / 1e9


def minutes(one: Record) -> float:
    """Return the minutes of 30 epochs and the preparation."""
    return float(one.prepare_s + EPOCHS * one.epoch_s) / 60


# Sizes, by eq. 1 and 2.


def sizes(dataset: str, nodes: int, entries: int, horizon: int) -> tuple[float, float]:
    """Return bytes before and after preprocessing: the file; every window's inputs and targets (eq. 1), traffic with the time of day."""
    steps, sensors = FILES.get(dataset, (entries, nodes))
    traffic = dataset in TRAFFIC
    before = steps * (sensors * VALUE + STAMP * traffic)
    after = Windows(steps if dataset == "chickenpox_hungary" else entries, horizon, horizon)
    return float(before), float(after.materialised_bytes(nodes, 1 + traffic, VALUE))


def index_bytes(nodes: int, entries: int, horizon: int) -> float:
    """Return bytes of index-batching in place of copies, traffic (eq. 2)."""
    return float(Windows(entries, horizon, horizon).index_bytes(nodes, 2, VALUE))


def windows_bytes() -> float:
    """Return bytes of all windows of PeMS's epoch, training and validation: what an engine moves where every window is copied out."""
    work = workload("pems")
    windows, data = work.windows, work.signal
    count = np.int64(len(windows.train) + len(windows.validation))
    return float(count * windows.reach * data.sensors * data.channels * data.itemsize)


def over_block() -> float:
    """Return bytes of a batch of windows over those of the block that it is cut from."""
    work = workload("pems", "gen-dist-index")
    batch, reach = work.hyper.batch_size, work.windows.reach
    return batch * reach / (batch + reach - 1)


def replication(one: Record) -> float:
    """Return the seconds of an epoch that messages of a copied graph take: upstream repeats the edges for every window of a batch, and each
    of its propagations gathers a message an edge, scales it and adds it up (seven passes over messages, fp32), at the kernels' share of the
    memory bandwidth."""
    work = bed().workload(one.point)
    data, model, windows = work.signal, work.model, work.windows
    propagations = 3 * 2 * model.hops * windows.window  # three gates, two directions
    passes = 3 * len(windows.train) + len(windows.validation)  # the backward pass moves twice what the forward pass does
    moved = 7.0 * 4 * (model.inputs + model.hidden) * data.edges * propagations * passes
    return moved / (bed().cluster(one.point).device.memory_bandwidth * bed().efficiency)


# Stages.


def host_size() -> float:
    """Return the GiB of a node."""
    return presets.cluster("polaris").host_memory / GIB


def held(dataset: str, how: str) -> dict[str, dict[str, float]]:
    """Return bytes by stage and part. how: copies (Algorithm 1, whose line 19 standardises inputs into a new array), in place (the same
    without it), index (one array, standardised into a second one), gpu-index (the array, on its way to the device)."""
    work = workload(dataset)
    data, windows = work.signal, work.windows
    file, _ = sizes(dataset, data.sensors, data.steps, windows.horizon)
    array = float(data.steps * data.sensors * data.channels * data.itemsize)
    half = float(windows.materialised_bytes(data.sensors, data.channels, data.itemsize)) / 2
    loaded = {"file": file, "readings": array}
    if how in ("copies", "in place"):
        copied = {"readings": array, "inputs": half, "targets": half}
        done = copied | ({"standardised copy": half} if how == "copies" else {})
        return {"load": loaded, "windows": copied, "standardise": done, "train": {"inputs": half, "targets": half}}
    index = {"inputs": 8.0 * len(windows)}
    if how == "gpu-index":
        return {stage: loaded if stage == "load" else {"readings": array} | index for stage in STAGES}
    return {"load": loaded, "windows": loaded | index, "standardise": loaded | index | {"standardised copy": array},
            "train": {"standardised copy": array} | index}  # fmt: skip


def fullest(stages: Mapping[str, Mapping[str, float]]) -> tuple[float, str]:
    """Return the GiB of the fullest stage, and its name."""
    sums = {stage: sum(parts.values()) / GIB for stage, parts in stages.items()}
    stage = max(sums, key=lambda one: sums[one])
    return sums[stage], stage


def bars(stages: Mapping[str, Mapping[str, float]], parts: Sequence[str]) -> dict[str, list[float]]:
    """Return the GiB of each part by stage."""
    return {stage: [stages[stage].get(part, 0.0) / GIB for part in parts] for stage in STAGES}


# What the printed numbers come to.


def printed_totals() -> dict[str, float]:
    """Return seconds that the printed numbers come to: an epoch on one GPU, an epoch and totals on 128."""
    alone, ranges = published_rows(4)[1], published_ranges(7)
    whole, before = float(alone["minutes"]) * 60, float(alone["prepare_s"])
    slow, times, trained_times, distributed = (float(ranges[i].mean or NAN) for i in (1, 2, 3, 5))
    dist, trained = whole / times, (whole - before) / trained_times
    ddp = dist * slow
    return {
        "one": (whole - before) / EPOCHS,
        "dist-index epoch": trained / EPOCHS,
        "dist-index total": dist,
        "dist-index before": dist - trained,
        "ddp epoch": (ddp - distributed) / EPOCHS,
        "ddp before": distributed,
        "ddp total": ddp,
    }


def engine_rate(seconds: float, gpus: int) -> float:
    """Return bytes a second that all workers together fetched, had fetching taken all of a printed epoch that computing does not: an epoch
    on one GPU, as printed, over the number of GPUs."""
    return windows_bytes() / (seconds - printed_totals()["one"] / gpus)


def agreed(ratio: float, why: str) -> str:
    """Return a reason, after that ours agrees, where it does."""
    return f"within {AGREES:.0%}" + f"; {why}" * bool(why) if abs(ratio - 1) <= AGREES else why
