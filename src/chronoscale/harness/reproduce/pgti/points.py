"""Points: epochs on Polaris, planned and replayed; each once a process."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.keys.signals import SignalExperiment
from chronoscale.harness.study.findings import NAN
from chronoscale.harness.workflows.signals.data import workload
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import check as fits
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.cluster import Cluster, Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.evaluation.metrics import time_by_op
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Lane
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import ModelChoice, Workload

GPUS = (4, 8, 16, 32, 64, 128)  # Polaris has four a node
NODE = 4
GIB = 2.0**30
WIDTH = 64  # Li et al.'s (ICLR 2018); the paper prints none, see `resident.chosen`
PGT_DCRNN = ModelChoice("pgt-dcrnn", WIDTH)

SIMULATED = (
    "Simulated on Polaris as clusters/polaris.yaml describes it: a datasheet roofline of an A100 at 60 % of peak, "
    f"{presets.cluster('polaris').device.launch_s * 1e6:g} µs of one host thread a kernel, collectives by NCCL's own model of "
    "rings and trees, Dask's 1 ms a request and 1 GB/s a worker, the last two assumed. No multi-GPU machine has confirmed the figures.",
    "Counts are Table 1's at 8 bytes a value, window and horizon 12; edges are not printed, 10 a sensor are assumed.",
)


def whole(quick: bool) -> tuple[str, ...]:
    """That quick leaves nothing out, where it was asked for."""
    return ("Quick: nothing is left out, as all of it takes seconds.",) if quick else ()


@dataclass(frozen=True, slots=True)
class Assumed:
    """Figures other than those of polaris.yaml, None for these: the engine's bandwidth (B/s) and latency (s), a kernel's start (s); and
    the share of peak that kernels reach."""

    bandwidth: float | None = None
    latency_s: float | None = None
    launch_s: float | None = None
    efficiency: float = 0.6

    def cluster(self, gpus: int) -> Cluster:
        """Polaris with these figures, as many machines as hold `gpus`."""
        found = presets.scaled(presets.cluster("polaris"), gpus)
        assert found.engine is not None
        engine = Link(self.bandwidth or found.engine.bandwidth, found.engine.latency_s if self.latency_s is None else self.latency_s)
        launch = found.device.launch_s if self.launch_s is None else self.launch_s
        return replace(found, engine=engine, device=replace(found.device, launch_s=launch))


POLARIS = Assumed()


@dataclass(frozen=True, slots=True)
class Point:
    """One strategy on `gpus` GPUs. Width and two hops are Li et al.'s."""

    strategy: str
    gpus: int = 1
    dataset: str = "pems"
    model: ModelChoice = PGT_DCRNN
    batch: int = 64
    variant: str = "exact"
    assumed: Assumed = POLARIS


@dataclass(frozen=True, slots=True)
class Outcome:
    """An epoch: seconds, of which a rank's device waits for data and gradients; seconds of what happens once before; bytes at most of a
    device and of a rank's host memory. refused: why it does not fit, '' where it does; host_bytes are then what it would need."""

    epoch_s: float
    waiting_s: float
    prepare_s: float
    device_bytes: float
    host_bytes: float
    refused: str = ""


@cache
def planned(point: Point) -> Workload:
    """Counts as printed, the model, hyper-parameters. What is assumed of edges stands in `SIMULATED`."""
    model = {"name": point.model.name, "hidden": point.model.hidden, "layers": point.model.layers, "heads": point.model.heads}
    training = {"batch_size": point.batch, "variant": point.variant}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChronoscaleWarning)
        experiment = check({"dataset": point.dataset, "model": model, "training": training, "cluster": "polaris"}, "pgt-i")
        assert isinstance(experiment, SignalExperiment)
        return workload(experiment)


@cache
def simulate(point: Point) -> Outcome:
    """One point; lack of memory is an outcome."""
    cluster, planner, work = point.assumed.cluster(point.gpus), strategy(point.strategy), planned(replace(point, assumed=POLARIS))
    costs = DatasheetCosts(cluster.device, point.assumed.efficiency, cluster.engine)
    schedule, before = planner.plan(work, point.gpus, costs), planner.prepare(work, point.gpus, costs)
    trace, once = replay(schedule, cluster, costs), replay(before, cluster, costs)
    refused = ""
    try:
        fits(schedule, trace, cluster)
    except UserError as error:
        refused = str(error)
    epoch = NAN if refused else trace.span_ns / 1e9
    waiting = epoch - computing_s(trace)
    return Outcome(epoch, waiting, once.span_ns / 1e9, float(peaks(schedule, trace).max()), float(schedule.host), refused)


def computing_s(trace: Trace) -> float:
    """Seconds that a rank's compute stream is busy, mean of ranks: one FIFO, so that they add up."""
    return float(trace.duration_ns[trace.lane == Lane.COMPUTE].sum()) / 1e9 / trace.ranks


def moved_s(point: Point, op: str) -> float:
    """Seconds that a rank spends in one operation of an epoch, hidden or not, mean of ranks."""
    cluster = point.assumed.cluster(point.gpus)
    costs = DatasheetCosts(cluster.device, point.assumed.efficiency, cluster.engine)
    schedule = strategy(point.strategy).plan(planned(replace(point, assumed=POLARIS)), point.gpus, costs)
    return float(time_by_op(replay(schedule, cluster, costs)).get(op, 0.0)) / point.gpus


def started(point: Point) -> tuple[int, float]:
    """Kernels of an epoch on the GPU that has most of them, and the seconds that its host takes to start them."""
    cluster = point.assumed.cluster(point.gpus)
    costs = DatasheetCosts(cluster.device, point.assumed.efficiency, cluster.engine)
    schedule = strategy(point.strategy).plan(planned(replace(point, assumed=POLARIS)), point.gpus, costs)
    most = int(np.bincount(schedule.rank, schedule.kernels).max())
    return most, most * cluster.device.launch_s


def windows_bytes(dataset: str = "pems") -> float:
    """Bytes of all windows of an epoch, training and validation: what an engine moves where every window is copied out."""
    work = planned(Point("index", dataset=dataset))
    windows, data = work.windows, work.signal
    count = np.int64(len(windows.train) + len(windows.validation))
    return float(count * windows.reach * data.sensors * data.channels * data.itemsize)
