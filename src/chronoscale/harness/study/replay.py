"""Replay: a point planned and replayed, and metrics by name of what that gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from chronoscale.errors import UserError, unknown
from chronoscale.harness.study.findings import NAN
from chronoscale.harness.study.point import StudyPoint, StudyResult
from chronoscale.reports.breakdown import Breakdown
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.evaluation.metrics import busy_ns, exposed_communication_ns, imbalance
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Workload

GB = 1e9
# Operations of a kind of transfer, as REAL's Figure 10 parts them.
KINDS: Mapping[str, tuple[Op, ...]] = {
    "CPU-GPU": (Op.H2D, Op.D2H),
    "gradients": (Op.ALLREDUCE,),
    "neighbours": (Op.ALLTOALL, Op.ALLGATHER),
    "hidden states": (Op.SEND, Op.RECV),
    "intra-GPU": (Op.COPY,),
}


class Testbed(Protocol):
    """Interface of what plans and simulates the points of a paper's studies: machines, workload, strategy and costs of each point."""

    def cluster(self, point: StudyPoint) -> Cluster:
        """Return the simulated machines of a study's point."""
        ...

    def workload(self, point: StudyPoint) -> Workload:
        """Return what a study's point trains. Raises UserError for data that are not installed."""
        ...

    def planner(self, point: StudyPoint) -> Strategy:
        """Return the strategy that plans a study's point, changed as the point's settings say."""
        ...

    def costs(self, point: StudyPoint, cluster: Cluster) -> CostModel:
        """Return the cost model that predicts durations on the cluster of a study's point."""
        ...

    def epoch_s(self, point: StudyPoint, schedule: Schedule, trace: Trace) -> float:
        """Return the seconds of an epoch of the paper's length, of a study's point that was simulated."""
        ...

    def check(self, replayed: Replayed) -> None:
        """Raise UserError where a study's simulated epoch does not fit into memory."""
        ...


@dataclass(frozen=True, eq=False)
class Replayed:
    """Point of a study with its planned schedule and simulated trace, from which the study's metrics are read."""

    point: StudyPoint
    testbed: Testbed
    cluster: Cluster
    workload: Workload
    schedule: Schedule
    trace: Trace

    @cached_property
    def seconds(self) -> dict[str, float]:
        """Return the simulated seconds that an epoch's tasks take, summed over all ranks, by name of operation, such as 'ALLREDUCE'."""
        spent = np.bincount(self.trace.op, self.trace.duration_ns / 1e9, len(Op))
        return {op.name: float(spent[op]) for op in Op}

    @cached_property
    def peaks(self) -> Any:
        """Return the most bytes that each rank's device holds at once in the simulated epoch, float64 [ranks]."""
        return peaks(self.schedule, self.trace)

    @cached_property
    def parts(self) -> Breakdown:
        """Return what the simulated epoch's time goes to, such as computing and communication, in seconds."""
        return Breakdown.middle([self.trace])

    def of(self, op: str) -> Any:
        """Return which tasks of the schedule are of one operation, bool [tasks].

        op: its name, such as 'H2D'. Raises KeyError for an unknown one.
        """
        return self.schedule.op == Op[op]


@dataclass(frozen=True, slots=True, eq=False)
class PointInputs:
    """What a study's point is planned and replayed with."""

    cluster: Cluster
    planner: Strategy
    costs: CostModel
    workload: Workload

    @classmethod
    def of(cls, point: StudyPoint, testbed: Testbed) -> PointInputs:
        """Return what a testbed gives a point. Raises UserError as the testbed."""
        cluster, planner = testbed.cluster(point), testbed.planner(point)
        return cls(cluster, planner, testbed.costs(point, cluster), testbed.workload(point))


def plan_and_replay(point: StudyPoint, testbed: Testbed, inputs: PointInputs | None = None) -> Replayed:
    """Plan an epoch of a study's point by its strategy and simulate it on the point's cluster.

    testbed: says how. inputs: what it gives the point, None: it is asked. Raises UserError where the strategy refuses the workload.
    """
    given = inputs or PointInputs.of(point, testbed)
    schedule = given.planner.plan(given.workload, point.gpus, given.costs)
    return Replayed(point, testbed, given.cluster, given.workload, schedule, replay(schedule, given.cluster, given.costs))


def step_s(replayed: Replayed) -> float:
    """Return the median simulated seconds between the ends of optimiser steps, metric `step_s` of studies; NaN for a single step."""
    rows = replayed.trace.op == Op.OPTIMIZE
    ends = np.zeros(replayed.schedule.iterations, np.int64)
    np.maximum.at(ends, replayed.schedule.iteration[replayed.trace.task[rows]], replayed.trace.end_ns[rows])
    return float(np.median(np.diff(ends))) / 1e9 if len(ends) > 1 else NAN


def _seconds_of(ops: Sequence[Op], one: Replayed) -> float:
    return float(sum(one.seconds[op.name] for op in ops))


def _convolved(one: Replayed) -> Any:
    return np.isin(one.schedule.op, [Op.AGGREGATE, Op.INCREMENT])


Metric = Callable[[Replayed], Any]
TIMED: Mapping[str, Metric] = {  # NaN where a point is out of memory
    "epoch_s": lambda r: r.trace.span_ns / 1e9,
    "step_s": step_s,
    "idle_s": lambda r: (r.trace.span_ns - float(np.mean(busy_ns(r.trace)))) / 1e9,
    "alone_s": lambda r: float(np.mean(exposed_communication_ns(r.trace))) / 1e9,
}
METRICS: Mapping[str, Metric] = {
    **TIMED,
    "peak_gb": lambda r: float(r.peaks.max()) / GB,
    "mean_gb": lambda r: float((r.peaks / GB).mean()),
    "flops": lambda r: float(r.schedule.flops[_convolved(r)].sum()),
    "increments": lambda r: float((r.schedule.op[_convolved(r)] == Op.INCREMENT).mean()),
    "h2d_gb": lambda r: float(r.schedule.bytes[r.of("H2D")].sum()) / GB,
    "imbalance": lambda r: imbalance(r.trace),
    "utilisation": lambda r: float(busy_ns(r.trace).mean()) / max(r.trace.span_ns, 1),
    "steps": lambda r: r.schedule.iterations,
    "note": lambda r: r.schedule.note,
    "gap": lambda r: r.schedule.gap,
    **{kind: partial(_seconds_of, ops) for kind, ops in KINDS.items()},
}
# `family:OPERATION`, or of a part of an epoch.
FAMILIES: Mapping[str, Callable[[Replayed, str], Any]] = {
    "rows": lambda r, op: int(r.of(op).sum()),
    "bytes": lambda r, op: float(r.schedule.bytes[r.of(op)].sum()),
    "edges": lambda r, op: float(r.schedule.edges[r.of(op)].sum()),
    "seconds": lambda r, op: r.seconds[op],
    "part": lambda r, part: r.parts.seconds.get(part, 0.0),
    "part_share": lambda r, part: r.parts.share(part),
}


def metric(name: str, own: Mapping[str, Metric]) -> Metric:
    """Return the function that reads a metric of a study off a simulated point.

    name: of the metric: a built-in one such as 'epoch_s', one of `own` (functions of the study's hooks), or `family:OPERATION` such as
    'bytes:H2D'. Raises UserError for an unknown one, with the nearest.
    """
    family, _, of = name.partition(":")
    if of and family in FAMILIES:
        return lambda one: FAMILIES[family](one, of)
    if (reader := METRICS.get(name) or own.get(name)) is None:
        raise unknown("metric", name, [*METRICS, *own, *(f"{family}:" for family in FAMILIES)])
    return reader


def measure(
    point: StudyPoint, testbed: Testbed, metrics: Sequence[str], own: Mapping[str, Metric], inputs: PointInputs | None = None
) -> StudyResult:
    """Plan and simulate a study's point and return its metrics by name.

    testbed: says how. metrics: names. own: name -> metric of the study's hooks. inputs: what the testbed gives the point, None: ask
    it. A strategy's refusal and lack of memory give a result with status and message. Raises UserError for an unknown metric or strategy.
    """
    if inputs is None:
        testbed.planner(point)  # a name that is wrong is no refusal
    known = {name: metric(name, own) for name in metrics}
    try:
        replayed = plan_and_replay(point, testbed, inputs)
    except UserError as error:
        return StudyResult("refused", str(error), {name: "" if name == "note" else NAN for name in metrics})
    return read(replayed, known)


def read(replayed: Replayed, metrics: Mapping[str, Metric]) -> StudyResult:
    """Return metrics, by name, of a study's simulated point; those of time are NaN where it does not fit into memory."""
    values = {name: reader(replayed) for name, reader in metrics.items()}
    try:
        replayed.testbed.check(replayed)
    except UserError as error:
        timed = {name: NAN for name in values if name in TIMED or name.startswith(("part:", "part_share:"))}
        return StudyResult("out of memory", str(error), values | timed)
    return StudyResult(values=values)
