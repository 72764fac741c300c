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
    """Return the testbed of PGT-I's studies: epochs on windows of sensor readings on Polaris."""
    bed = of_paper(PAPER)
    assert isinstance(bed, SignalTestbed)
    return bed


def workload(dataset: str, strategy: str = "index") -> Workload:
    """Return what PGT-I's studies plan and count: PGT-DCRNN trained on a data set. strategy: name of the one that is planned."""
    return bed().workload(StudyPoint(PAPER, dataset, "pgt-dcrnn", strategy=strategy, cluster="polaris"))


def published_rows(number: int) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a table that PGT-I prints, for a study of another figure or table. number: of the table."""
    return published(PAPER).tables[number].rows


def published_ranges(number: int) -> Sequence[Range]:
    """Return the ranges that PGT-I prints with a figure, for a study of another one. number: of the figure."""
    return published(PAPER).figures[number].ranges


# Metrics of a point.


def waiting_s(replayed: Replayed) -> float:
    """Return the seconds of an epoch in which a rank's compute stream is idle, mean of ranks; a metric of PGT-I's studies."""
    trace = replayed.trace
    return trace.span_ns / 1e9 - float(trace.duration_ns[trace.lane == Lane.COMPUTE].sum()) / 1e9 / trace.ranks


def prepare_s(replayed: Replayed) -> float:
    """Return the simulated seconds of preparation before the first epoch, a metric of PGT-I's studies.

    With a point's setting `reads`, B/s, also those in which a rank reads the file of readings that it prepares.
    """
    costs = replayed.testbed.costs(replayed.point, replayed.cluster)
    before = replayed.testbed.planner(replayed.point).prepare(replayed.workload, replayed.point.gpus, costs)
    rate, data = replayed.point.setting("reads"), replayed.workload.signal
    reading = 0.0 if rate is None else np.int64(data.steps) * data.sensors * VALUE / rate
    return replay(before, replayed.cluster, costs).span_ns / 1e9 + float(reading)


def device_gib(replayed: Replayed) -> float:
    """Return the GiB that the fullest device holds at its simulated peak, a metric of PGT-I's studies."""
    return float(replayed.peaks.max()) / GIB


def host_gib(replayed: Replayed) -> float:
    """Return the GiB of host memory that a rank is planned to need, whether or not they fit; a metric of PGT-I's studies."""
    return float(replayed.schedule.host) / GIB


def kernels(replayed: Replayed) -> int:
    """Return how many kernels an epoch starts on the GPU that starts most, a metric of PGT-I's Figure 7."""
    return int(np.bincount(replayed.schedule.rank, replayed.schedule.kernels).max())


def epoch_s(axes: Mapping[str, Any]) -> float:
    """Simulate a point and return its epoch's seconds, from which PGT-I's studies derive constants.

    axes: fields and settings of the point, by name.
    """
    return plan_and_replay(StudyPoint.of({"paper": PAPER, **axes}), bed()).trace.span_ns / 1e9


def minutes(point: Record) -> float:
    """Return the minutes of 30 epochs with preparation, for PGT-I's Table 4. point: one with metrics `prepare_s` and `epoch_s`."""
    return float(point.prepare_s + EPOCHS * point.epoch_s) / 60


# Sizes, by eq. 1 and 2.


def sizes(dataset: str, nodes: int, entries: int, horizon: int) -> tuple[float, float]:
    """Return bytes of a data set before and after preprocessing by eq. 1, for PGT-I's Table 1 and Figure 3.

    Before, the file; afterwards, inputs and targets of every window (slice of the series), copied. nodes, entries: printed sensors and time
    steps. horizon: time steps of a window's inputs, and of its targets.
    """
    steps, sensors = FILES.get(dataset, (entries, nodes))
    traffic = dataset in TRAFFIC
    before = steps * (sensors * VALUE + STAMP * traffic)
    after = Windows(steps if dataset == "chickenpox_hungary" else entries, horizon, horizon)
    return float(before), float(after.materialised_bytes(nodes, 1 + traffic, VALUE))


def index_bytes(nodes: int, entries: int, horizon: int) -> float:
    """Return the bytes that index-batching holds (the series and each window's start) by eq. 2, for PGT-I's Figure 3.

    Of traffic data. nodes, entries: sensors and time steps. horizon: time steps of a window's inputs, and of its targets.
    """
    return float(Windows(entries, horizon, horizon).index_bytes(nodes, 2, VALUE))


def windows_bytes() -> float:
    """Return the bytes of all windows of an epoch on PeMS, training and validation, each copied out, for PGT-I's Table 4."""
    work = workload("pems")
    windows, data = work.windows, work.signal
    count = np.int64(len(windows.train) + len(windows.validation))
    return float(count * windows.reach * data.sensors * data.channels * data.itemsize)


def over_block() -> float:
    """Return how many times as many bytes a batch's windows take as the readings that they are cut from, for PGT-I's Figure 9.

    Of strategy gen-dist-index on PeMS. A batch has consecutive windows (slices of the series: inputs and targets), which overlap: copied
    out one by one they have batch x reach time steps, the contiguous block of readings has batch + reach - 1. Batch size (windows a GPU)
    and reach (time steps of a window) are the testbed's.
    """
    work = workload("pems", "gen-dist-index")
    batch, reach = work.hyper.batch_size, work.windows.reach
    return batch * reach / (batch + reach - 1)


def replication(point: Record) -> float:
    """Estimate the seconds an epoch spends on messages of a graph that is copied for every window of a batch, for PGT-I's Table 4.

    As upstream does: each propagation gathers, scales and adds up a float32 message an edge, seven passes over them, at the kernels' share
    of memory bandwidth.
    """
    work = bed().workload(point.point)
    data, model, windows = work.signal, work.model, work.windows
    propagations = 3 * 2 * model.hops * windows.window  # three gates, two directions
    passes = 3 * len(windows.train) + len(windows.validation)  # the backward pass moves twice what the forward pass does
    moved = 7.0 * 4 * (model.inputs + model.hidden) * data.edges * propagations * passes
    return moved / (bed().cluster(point.point).device.memory_bandwidth * bed().efficiency)


# Stages.


def host_size() -> float:
    """Return the GiB of host memory of a Polaris node, for PGT-I's studies."""
    return presets.cluster("polaris").host_memory / GIB


def held(dataset: str, how: str) -> dict[str, dict[str, float]]:
    """Return the bytes of host memory by stage and by what is held there, for PGT-I's Figures 2 and 6.

    Stage ('load', 'windows', 'standardise', 'train') -> what ('file', 'readings', 'inputs', 'targets' or 'standardised copy') -> bytes.
    how: 'copies' (Algorithm 1, whose line 19 standardises into a new array), 'in place' (without that), 'index' (one array, standardised
    into a second), 'gpu-index' (the array, on its way to the device).
    """
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
    """Return the GiB and the name of the stage that holds most, for PGT-I's Figures 2 and 6.

    stages: stage -> what is held -> bytes, as `held` returns them.
    """
    sums = {stage: sum(parts.values()) / GIB for stage, parts in stages.items()}
    stage = max(sums, key=lambda one: sums[one])
    return sums[stage], stage


def bars(stages: Mapping[str, Mapping[str, float]], parts: Sequence[str]) -> dict[str, list[float]]:
    """Return GiB of each part by stage, for the stacked drawings of PGT-I's Figures 2 and 6.

    stages: stage -> what is held -> bytes, as `held` returns them. parts: names of what is held, in the bars' order.
    """
    return {stage: [stages[stage].get(part, 0.0) / GIB for part in parts] for stage in STAGES}


# What the printed numbers come to.


def printed_totals() -> dict[str, float]:
    """Return the seconds that PGT-I's printed minutes and ratios imply, for its studies.

    `one`: of an epoch on one GPU. On 128, for 'dist-index' and 'ddp': `... epoch`, `... before` (preparation) and `... total` (all 30
    epochs and preparation).
    """
    single, ranges = published_rows(4)[1], published_ranges(7)
    whole, before = float(single["minutes"]) * 60, float(single["prepare_s"])
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
    """Return the bytes/s that fetching windows from other ranks must reach to explain a printed epoch, for PGT-I's Figures 7 and 9.

    Of all ranks together, where fetches take all of the epoch but computing. seconds: of the printed epoch. Computing is one GPU's printed
    epoch over `gpus`.
    """
    return windows_bytes() / (seconds - printed_totals()["one"] / gpus)


def agreed(ratio: float, why: str) -> str:
    """Return a row's reason, preceded by 'within 5%' where ours agrees with the published, for PGT-I's Figure 7.

    ratio: ours over published.
    """
    return f"within {AGREES:.0%}" + f"; {why}" * bool(why) if abs(ratio - 1) <= AGREES else why
