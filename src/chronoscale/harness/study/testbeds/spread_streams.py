"""Spread streams: optimiser steps on generated event streams with hot nodes, in place of a paper's data sets, on several machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets.generate.events import RandomStream
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.harness.study.point import StudyPoint
from chronoscale.harness.study.replay import Replayed
from chronoscale.harness.study.testbeds.host_costs import Rates, ServerCosts
from chronoscale.reports.published import published
from chronoscale.simulator import presets
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel, DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.streams.rows.phase import VALIDATE
from chronoscale.strategies.streams.spread.phase import BACK
from chronoscale.strategies.streams.spread.strategy import SpreadStrategy
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import EventHyper, Hyper, ModelChoice, SharingHyper, Workload

SHARING = ("policy", "shared", "theta", "alpha")  # settings that are SharingHyper's


def sharing_of(settings: Mapping[str, Any]) -> SharingHyper:
    """Return how MemShare's ranks share the memory of hot nodes at a study's point.

    settings: of the point, of which `policy` (of partitioning), `shared` (share of nodes that all ranks have), `theta` (share of remote
    neighbours sampled) and `alpha` (how far a memory turns before ranks send it) are read; defaults for those that are missing. Boundary
    decay is the paper's: without a cap, and without a least number of neighbours.
    """
    return SharingHyper(weight_cap=0.0, at_least_one=False, **{name: settings[name] for name in SHARING if name in settings})


def printed_counts(paper: str, table: int, dataset: str) -> dict[str, int]:
    """Return nodes, edges, node_width and edge_width that a paper's table prints of a data set, for the generated streams of studies.

    paper: its key. table: its number.
    """
    line = next(line for line in published(paper).tables[table].rows if line["dataset"] == dataset)
    return {what: int(float(line[what])) for what in ("nodes", "edges", "node_width", "edge_width")}


class SpreadStreams(BaseModel):
    """Testbed of MemShare's studies: optimiser steps on generated event streams with hot nodes, on several simulated machines.

    mails: messages that a node's mailbox holds. trains, tests: shares of the events. fanout: sampled neighbours, by data set. skew:
    exponent of Zipf's law for the ends of events. pairs: distinct (src, dst), by data set. apart: how many times fewer events a node some
    streams have. host: rates at which hosts sample and copy, None: at the rate of the bus. Settings of a point: `divisor`:
    how many times smaller the stream is than published; `batch`: events a GPU and step; `least`: steps planned; `tests`: inference instead
    of training; `pipelined`: False: a strategy that overlaps does not; and those of `sharing_of`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    paper: str
    width: int
    heads: int
    time: int
    mails: int
    trains: float
    tests: float
    fanout: Mapping[str, int]
    skew: float
    pairs: Mapping[str, int]
    apart: Mapping[str, int]
    host: Rates | None = None

    def counts(self, dataset: str) -> dict[str, int]:
        """Return nodes, edges, node_width and edge_width (features) that MemShare's Table 2 prints of a data set."""
        return printed_counts(self.paper, 2, dataset)

    def generator(self, dataset: str, divisor: int) -> RandomStream:
        """Return the generator of the random event stream that MemShare's studies use in place of a data set.

        dataset: its name. divisor: how many times fewer nodes, events and pairs it has than published; events are divided by `apart`,
        too.
        """
        printed, apart = self.counts(dataset), self.apart.get(dataset, 1)
        nodes, events = printed["nodes"] // divisor, printed["edges"] // apart // divisor
        pairs = min(max(self.pairs[dataset] // divisor, nodes), nodes * (nodes - 1) // 2, events)
        return RandomStream(nodes, events, pairs, source_skew=self.skew, destination_skew=self.skew, name=dataset)

    @property
    def streams(self) -> str:
        """Return what generated streams depend on besides data set and divisor, as JSON."""
        return self.model_dump_json(include={"paper", "skew", "pairs", "apart"})

    def steps(self, point: StudyPoint) -> int:
        """Return how many optimiser steps the paper's epoch has at a point of MemShare's studies.

        With setting `tests` those of its test, which DistTGL runs on one GPU (§5.3).
        """
        tests = point.setting("tests", False)
        ranks = 1 if tests and point.strategy == "disttgl" else point.gpus
        batch: int = point.setting("batch")
        return -(-round((self.tests if tests else self.trains) * self.counts(point.dataset)["edges"]) // (batch * ranks))

    def cluster(self, point: StudyPoint) -> Cluster:
        return presets.scaled(presets.cluster(point.cluster), point.gpus)

    def workload(self, point: StudyPoint) -> Workload:
        """Return what a point of MemShare's studies trains: features of Table 2's widths, batches spread evenly over the training events.

        With setting `tests`, as many batches of the validation events. Events are generated.
        """
        data, batch, wanted = prepared(self, point.dataset, point.setting("divisor")), point.setting("batch"), point.setting("least")
        tests = point.setting("tests", False)
        of, ranks = (
            (len(data.split.validation), 1 if point.strategy == "disttgl" else point.gpus) if tests else (data.training_events, point.gpus)
        )
        every = max(of // (batch * ranks * wanted), 1)
        given = EventHyper(Protocol(), every=every, sharing=sharing_of(dict(point.settings)))
        limit = every * wanted if tests else 0  # memory of what trains before is not read
        hyper = Hyper(batch_size=batch, fanout=(self.fanout[point.dataset],), validate=tests, batches=limit, events=given)
        widths = self.counts(point.dataset)
        stats = replace(stream_statistics(data), node_width=widths["node_width"], edge_width=widths["edge_width"])
        choice = ModelChoice(point.model, self.width, 1, self.width, heads=self.heads, time=self.time, mails=self.mails)
        return Workload(f"{point.dataset}, generated", stats, shape_for(choice, stats, hyper), hyper)

    def planner(self, point: StudyPoint) -> Strategy:
        planner = strategy(point.strategy)
        if isinstance(planner, SpreadStrategy) and not point.setting("pipelined", True):
            return replace(planner, sharing=replace(planner.sharing, pipelined=False))
        return planner

    def costs(self, point: StudyPoint, cluster: Cluster) -> CostModel:
        if self.host is None:
            return DatasheetCosts(cluster.device)
        return ServerCosts(replace(self.host, efficiency=None), efficient=True, feeds=False, other=cluster.device)

    def epoch_s(self, point: StudyPoint, schedule: Schedule, trace: Trace) -> float:
        return step_s(schedule, trace, point.setting("tests", False)) * self.steps(point)

    def check(self, replayed: Replayed) -> None:
        """Accept every simulated epoch of MemShare's studies: node memory lies in the hosts' memory."""


def testbed(paper: str, **assumed: Any) -> SpreadStreams:
    """Return the testbed of MemShare's studies. paper: its key. assumed: fields of `SpreadStreams`, from the paper's `paper.yaml`."""
    return SpreadStreams(paper=paper, **assumed)


_MADE: dict[tuple[str, str, int], EventStream] = {}
_PREPARED: dict[tuple[str, str, int], PreparedStream] = {}


def stream(testbed: SpreadStreams, dataset: str, divisor: int) -> EventStream:
    """Return the generated events that MemShare's studies use in place of a data set, without features, generated once a process.

    dataset: its name. divisor: how many times smaller than published.
    """
    place = (testbed.streams, dataset, divisor)
    if place not in _MADE:
        _MADE[place] = EventStream.from_blocks(list(testbed.generator(dataset, divisor)))
    return _MADE[place]


def prepared(testbed: SpreadStreams, dataset: str, divisor: int) -> PreparedStream:
    """Return the generated events of MemShare's studies split by time and indexed for sampling, made once a process.

    dataset: its name. divisor: how many times smaller than published.
    """
    place = (testbed.streams, dataset, divisor)
    if place not in _PREPARED:
        _PREPARED[place] = PreparedStream.of(stream(testbed, dataset, divisor), Protocol())
    return _PREPARED[place]


def step_s(schedule: Schedule, trace: Trace, tests: bool) -> float:
    """Return the mean simulated seconds from the end of an optimiser step to that of the next, without the last; with `tests`, of a batch
    that is tested."""
    last = (trace.op == (Op.FORWARD if tests else Op.OPTIMIZE)) & _counted(schedule, trace, tests)
    units, at = np.unique(schedule.unit[trace.task[last]], return_inverse=True)
    ends = np.zeros(len(units), np.int64)
    np.maximum.at(ends, at, trace.end_ns[last])
    gaps = np.diff(np.sort(ends))
    return float(gaps[: max(len(gaps) - 1, 1)].mean()) / 1e9  # the last step has fewer events


def _counted(schedule: Schedule, trace: Trace, tests: bool) -> NDArray[np.bool_]:
    """Return which tasks of a trace are of batches that train, with `tests` of those that are tested, bool [tasks]."""
    return np.asarray((schedule.step[trace.task] == VALIDATE) == tests)


def spread_step(replayed: Replayed) -> dict[str, Any]:
    """Return the simulated seconds and bytes of an optimiser step, means of ranks; a metric of MemShare's studies.

    `step_s`: from the end of a step to that of the next; `epoch_s`: of all of the paper's steps; `stages`: seconds of 'sampling', 'remote
    fetching', 'memory updating', 'message passing', 'backward' and 'remote aggregation' (lanes overlap, so that they add up to more); bytes
    `fetched` from other ranks, `returned` to them (contributions to rows that they own), and `spoken`: of shared hot nodes, all-gathered.
    """
    schedule, trace, tests = replayed.schedule, replayed.trace, replayed.point.setting("tests", False)
    counted = _counted(schedule, trace, tests)
    last = (trace.op == (Op.FORWARD if tests else Op.OPTIMIZE)) & counted
    units = np.unique(schedule.unit[trace.task[last]])
    a_step = 1 / (len(units) * replayed.point.gpus)
    spent = trace.duration_ns * counted / 1e9 * a_step
    moved = np.asarray(trace.bytes * counted, np.float64) * a_step
    exchanged, back, gathered = trace.op == Op.ALLTOALL, schedule.layer[trace.task] == BACK, trace.op == Op.ALLGATHER
    of = {
        "sampling": trace.op == Op.SAMPLE,
        "remote fetching": exchanged & ~back,
        "memory updating": trace.op == Op.MEMORY_UPDATE,
        "message passing": np.isin(trace.op, [Op.AGGREGATE, Op.FORWARD]),
        "backward": np.isin(trace.op, [Op.BACKWARD, Op.ALLREDUCE, Op.OPTIMIZE]),
        "remote aggregation": (exchanged & back) | gathered,
    }
    bed = replayed.testbed
    assert isinstance(bed, SpreadStreams)
    volumes = {"fetched": exchanged & ~back, "returned": exchanged & back, "spoken": gathered}
    return {
        "step_s": step_s(schedule, trace, tests),
        "epoch_s": bed.epoch_s(replayed.point, schedule, trace),
        "stages": {name: float(spent[rows].sum()) for name, rows in of.items()},
        **{name: float(moved[rows].sum()) for name, rows in volumes.items()},
    }
