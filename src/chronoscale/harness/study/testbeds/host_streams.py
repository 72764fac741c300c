"""Host streams: epochs of one GPU on generated stand-ins of event streams, whose features lie in the host's memory."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from chronoscale.batching.streams.caching.loading import Loading
from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.batching.streams.sampling.redundancy import BATCH, FANOUT
from chronoscale.batching.streams.statistics import BatchStatistics, count_batches
from chronoscale.datasets import catalogue
from chronoscale.datasets.generate.sessions import SessionStream
from chronoscale.datasets.streams import draws
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.harness.study.point import StudyPoint
from chronoscale.harness.study.replay import Replayed
from chronoscale.harness.study.testbeds.host_costs import Rates, ServerCosts
from chronoscale.harness.study.testbeds.spread_streams import printed_counts
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.streams.strategy import StreamStrategy
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import EventHyper, Hyper, ModelChoice, Workload


def stand_in(dataset: str, most: int = 0) -> SessionStream:
    """Return the generator of the random event stream that FAST's studies use in place of a data set.

    most: events that it is shortened to, 0: whole. A stream whose nodes come and go over all of it is never shortened.
    """
    made = catalogue.load_generator(f"{dataset}_like")
    assert isinstance(made, SessionStream)
    return made.shortened(most) if most and len(made) > most and not made.items else made


@lru_cache(maxsize=4)
def prepared(dataset: str, most: int) -> PreparedStream:
    """Return the generated stream that FAST's studies use in place of a data set, without features, split by time; kept for the process.

    most: events at most, 0: all.
    """
    return PreparedStream.of(stand_in(dataset, most).stream(), Protocol())


class HostStreams(BaseModel):
    """Testbed of FAST's studies: simulated epochs on one GPU, features in host memory; its fields are what all workloads share.

    layers, hidden, heads, time (width of the encoding): of the models. windows: number of windows of time by model; window_batches: batches
    of events each, on average. Settings of a point: `most` events of a generated stream; `batches` planned, and `presample`d; `cached`:
    share of the features on the device; `ahead`: batches fetched ahead instead of the strategy's own; `once`: whether rows cross the bus
    once a batch, whatever the strategy does; `rates`: those of `Rates`, as JSON.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    paper: str
    layers: int
    hidden: int
    heads: int
    time: int
    windows: dict[str, int]
    window_batches: int

    def counts(self, dataset: str) -> dict[str, int]:
        """Return nodes, edges, node_width and edge_width (features a node and an event) that FAST's Table 3 prints of a data set."""
        return printed_counts(self.paper, 3, dataset)

    def choice(self, model: str, hidden: int = 0) -> ModelChoice:
        """Return the model that FAST's studies train. model: its name, such as 'tgat'. hidden: width, 0: the testbed's."""
        width = hidden or self.hidden
        return ModelChoice(model, width, self.layers, width, heads=self.heads, time=self.time)

    def steps(self, dataset: str) -> int:
        """Return how many batches a training epoch has at the data set's published size, to which studies scale simulated epochs."""
        return -(-round(self.counts(dataset)["edges"] * Protocol().train) // BATCH)

    def cluster(self, point: StudyPoint) -> Cluster:
        return rates_of(point).cluster

    def workload(self, point: StudyPoint) -> Workload:
        """Return what a point of FAST's studies trains: features of Table 3's widths, batches spread evenly over the generated stream."""
        of, data = dict(point.settings), prepared(point.dataset, point.setting("most"))
        batches, windows, cached = of["batches"], self.windows.get(point.model, 1), of.get("cached", 0.0)
        span = float(np.asarray(data.whole.stream.t[data.training_events - 1]) - np.asarray(data.whole.stream.t[0]))
        events = EventHyper(
            Protocol(),
            every=max(-(-data.training_events // BATCH) // batches, 1),
            cache_ratio=cached,
            presample=1 if cached == 1 else of["presample"],
            windows=windows,
            duration=span * self.window_batches * BATCH / data.training_events if windows > 1 else 0.0,
        )
        hyper = Hyper(batch_size=BATCH, fanout=(FANOUT,) * self.layers, validate=False, events=events)
        widths, work = self.counts(point.dataset), Counted(data, batches)
        stats = replace(stream_statistics(data), node_width=widths["node_width"], edge_width=widths["edge_width"], work=work)
        return Workload(point.dataset, stats, shape_for(self.choice(point.model), stats, hyper), hyper)

    def planner(self, point: StudyPoint) -> StreamStrategy:
        planner, ahead = strategy(point.strategy), point.setting("ahead", -1)
        assert isinstance(planner, StreamStrategy)
        feeding = replace(planner.feeding, compressed=planner.feeding.compressed or point.setting("once", False))
        return replace(planner, feeding=feeding, ahead=planner.ahead if ahead < 0 else ahead)

    def costs(self, point: StudyPoint, cluster: Cluster) -> CostModel:
        return ServerCosts(rates_of(point), self.planner(point).feeding.operators == "edges" or point.strategy == "fast")

    def epoch_s(self, point: StudyPoint, schedule: Schedule, trace: Trace) -> float:
        return self.steps(point.dataset) / schedule.iterations * trace.span_ns / 1e9

    def check(self, replayed: Replayed) -> None:
        """Accept every simulated epoch of FAST's studies: a cache takes what room a device leaves it."""


def testbed(paper: str, **assumed: Any) -> HostStreams:
    """Return the testbed of FAST's studies. paper: its key, 'fast'. assumed: fields of `HostStreams`, from the `paper.yaml`."""
    return HostStreams(paper=paper, **assumed)


def rates_of(point: StudyPoint) -> Rates:
    """Return the host's speeds that a point of FAST's studies is simulated with: its setting `rates` (JSON), else the defaults."""
    return Rates(**json.loads(point.setting("rates", "{}")))


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Batch counts of FAST's generated streams for a planner, of a few consecutive batches where a cache changes from batch to batch.

    Called as `PreparedStream.work` is. `batches` of them are counted in the middle of training; as many before fill the cache, and as many
    after give it something to keep. For other caches it is `PreparedStream.work` itself.
    """

    data: PreparedStream
    batches: int

    def __call__(
        self, validates: bool, ranks: int, size: int, sampling: Sampling, limit: int, every: int, loading: Loading
    ) -> BatchStatistics:
        data, batches = self.data, self.batches
        if loading.placement is None or not loading.placement.dynamic:
            return data.work(validates, ranks, size, sampling, limit, every, loading)
        key = f"middle {batches} {sampling} {loading}"
        if key not in data.cache.values:
            first = max(data.training_events // 2 - 3 * batches * size // 2, 0)
            deal = BatchAssignment(range(first, min(first + 3 * batches * size, data.training_events)), ranks, size)
            others, seed = data.negatives_of(False, 0, data.protocol.seed), draws.derive_key(data.protocol.seed, 0)
            counts = count_batches(data.training, deal, sampling, others, seed, data.residents(ranks, size, sampling, limit, loading))
            third = slice(len(counts) // 3, len(counts) // 3 + batches)
            data.cache.values[key] = BatchStatistics(**{field.name: getattr(counts, field.name)[third] for field in fields(counts)})
        one = data.cache.values[key]
        assert isinstance(one, BatchStatistics)
        return one
