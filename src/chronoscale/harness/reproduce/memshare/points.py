"""Points: an optimiser step of a strategy on a stand-in, planned on some batches and replayed on machines of A40; each once a process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.harness.reproduce.memshare.stand_ins import QUICK, SIMULATED, batch, counts, fanout, stream
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.streams.rows.phase import VALIDATE
from chronoscale.strategies.streams.spread.phase import BACK
from chronoscale.strategies.streams.spread.strategy import SpreadStrategy
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import EventHyper, Hyper, ModelChoice, SharingHyper, Workload

CLUSTER, GPUS_A_MACHINE = "a40-10g", 4
WIDTH, HEADS, TIME, MAILS = 100, 2, 100, 10  # §5.1; the width of times is of TGL's configurations
STEPS, QUICK_STEPS = 6, 4  # of an epoch that are planned, at least
TRAINS, TESTS = 0.7, 0.15
TGL = "tgl"  # on one machine alone (§5.1)
STAGES = ("sampling", "remote fetching", "memory updating", "message passing", "backward", "remote aggregation")  # of Table 1


@dataclass(frozen=True, slots=True)
class Point:
    """tests: inference in place of training. pipelined: whether a strategy that overlaps may. divisor: of the stand-in; 0: SIMULATED.
    size: events a GPU and step; 0: the paper's. least: steps that are planned; 0: STEPS."""

    dataset: str
    strategy: str
    gpus: int = 8
    model: str = "tgn"
    quick: bool = False
    sharing: SharingHyper = field(default_factory=SharingHyper)
    tests: bool = False
    pipelined: bool = True
    divisor: int = 0
    size: int = 0
    least: int = 0

    @property
    def part(self) -> int:
        """What the stand-in is divided by."""
        return self.divisor or (QUICK if self.quick else SIMULATED)[self.dataset]

    @property
    def batch(self) -> int:
        """Events a GPU and step; of a quick run fewer, in step with the stand-in."""
        given = self.size or batch(self.dataset)
        return max(given // 10, 50) if self.quick else given

    @property
    def steps(self) -> int:
        """Of the paper's epoch, or of its test, which DistTGL makes on one GPU (§5.3)."""
        ranks = 1 if self.tests and self.strategy == "disttgl" else self.gpus
        return -(-round((TESTS if self.tests else TRAINS) * counts(self.dataset)["edges"]) // (self.batch * ranks))


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Seconds from step to step, and of all of them; those that a rank spends in each of STAGES a step (lanes overlap); bytes a step that
    a rank fetches, brings back, and says of shared nodes; means of ranks."""

    step_s: float
    epoch_s: float
    stages: Mapping[str, float]
    fetched: float
    returned: float
    spoken: float


@cache
def prepared(dataset: str, divisor: int) -> PreparedStream:
    """A stand-in, split by time."""
    return PreparedStream.of(stream(dataset, divisor), Protocol())


@cache
def machines(gpus: int) -> Cluster:
    """Of four A40 each, 10 Gb/s between them."""
    return presets.scaled(presets.cluster(CLUSTER), gpus)


def workload(point: Point) -> Workload:
    """Of Table 2's widths, batches evenly over the stand-in's training events; where it tests, over those that validate, as many."""
    data = prepared(point.dataset, point.part)
    wanted = point.least or (QUICK_STEPS if point.quick else STEPS)
    of, ranks = (
        (len(data.split.validation), 1 if point.strategy == "disttgl" else point.gpus)
        if point.tests
        else (data.training_events, point.gpus)
    )
    every = max(of // (point.batch * ranks * wanted), 1)
    given = EventHyper(Protocol(), every=every, sharing=point.sharing)
    limit = every * wanted if point.tests else 0  # memory of what trains before is not read
    hyper = Hyper(batch_size=point.batch, fanout=(fanout(point.dataset),), validate=point.tests, batches=limit, events=given)
    widths = counts(point.dataset)
    stats = replace(stream_statistics(data), node_width=widths["node_width"], edge_width=widths["edge_width"])
    choice = ModelChoice(point.model, WIDTH, 1, WIDTH, heads=HEADS, time=TIME, mails=MAILS)
    return Workload(f"{point.dataset}, generated", stats, shape_for(choice, stats, hyper), hyper)


def replayed(point: Point) -> tuple[Schedule, Trace]:
    """Schedule and simulated trace. Raises UserError where the strategy refuses the workload."""
    planner, cluster = strategy(point.strategy), machines(point.gpus)
    if isinstance(planner, SpreadStrategy) and not point.pipelined:
        planner = replace(planner, sharing=replace(planner.sharing, pipelined=False))
    costs = DatasheetCosts(cluster.device)
    schedule = planner.plan(workload(point), point.gpus, costs)
    return schedule, replay(schedule, cluster, costs)


@cache
def simulate(point: Point) -> Outcome:
    """One point."""
    schedule, trace = replayed(point)
    step = np.asarray(schedule.step[trace.task])
    counted = (step == VALIDATE) == point.tests
    last = (trace.op == (Op.FORWARD if point.tests else Op.OPTIMIZE)) & counted
    units, at = np.unique(schedule.unit[trace.task[last]], return_inverse=True)
    ends = np.zeros(len(units), np.int64)
    np.maximum.at(ends, at, trace.end_ns[last])
    gaps = np.diff(np.sort(ends))
    between = float(gaps[: max(len(gaps) - 1, 1)].mean()) / 1e9  # the last step has fewer events
    a_step = 1 / (len(units) * point.gpus)
    spent = trace.duration_ns * counted / 1e9 * a_step
    layer, moved = schedule.layer[trace.task], np.asarray(trace.bytes * counted, np.float64) * a_step
    exchanged, back = trace.op == Op.ALLTOALL, layer == BACK
    stages = {
        "sampling": spent[trace.op == Op.SAMPLE].sum(),
        "remote fetching": spent[exchanged & ~back].sum(),
        "memory updating": spent[trace.op == Op.MEMORY_UPDATE].sum(),
        "message passing": spent[np.isin(trace.op, [Op.AGGREGATE, Op.FORWARD])].sum(),
        "backward": spent[np.isin(trace.op, [Op.BACKWARD, Op.ALLREDUCE, Op.OPTIMIZE])].sum(),
        "remote aggregation": spent[(exchanged & back) | (trace.op == Op.ALLGATHER)].sum(),
    }
    volumes = moved[exchanged & ~back].sum(), moved[exchanged & back].sum(), moved[trace.op == Op.ALLGATHER].sum()
    return Outcome(between, between * point.steps, {name: float(value) for name, value in stages.items()}, *map(float, volumes))


def label(gpus: int) -> str:
    """As the paper has it: 2M8G."""
    return f"{-(-gpus // GPUS_A_MACHINE)}M{gpus}G"


def notes(quick: bool) -> tuple[str, ...]:
    """How points are made."""
    cluster = machines(4)
    return (
        *((f"Quick: smaller stand-ins, batches of a tenth of the events, {QUICK_STEPS} steps or a few more.",) if quick else ()),
        f"Simulated on {CLUSTER}: four A40 a machine on PCIe, {cluster.inter.bandwidth * 8 / 1e9:g} Gb/s between machines for each GPU, a "
        f"datasheet's roofline, each kind of work at its own share of peak, {cluster.device.launch_s * 1e6:g} µs of one host thread a "
        "kernel, copies and messages that share links; the host's own work keeps up with the bus. No such "
        "machine has confirmed the figures.",
        f"The paper's batches of 3,000 events a GPU (LastFM 1,000), fan-out 20 (10), one layer, widths {WIDTH}, {HEADS} heads, Table 2's "
        f"features; {STEPS} optimiser steps or a few more, evenly over the stand-in, timed from step to step, times as many as an epoch of "
        "the printed events has. Memory is in the hosts' (§5.3 has it on the devices).",
        f"Assumed: theta {SharingHyper().theta:g}, and of changes of shared nodes {SharingHyper().sent:.0%} pass alpha.",
    )
