"""How far off attention is with boundary decay, and what its forms fetch: theta 0.1, ten latest neighbours, four ranks.

TGN (width 100, `clock: gaps`) is trained for an epoch on one rank, batches of 600, and then reads the training events once more as they
come: node memory is that of one rank, rows of a cache are as old as they are. Of every eighth iteration of the second half, roots (ends of
events, and one negative of all destinations each) that have an earlier neighbour are compared with all their latest neighbours, draw by
draw. What is compared is what attention gives a root of its neighbours, 0 without any; all in % of the root of its mean square:

bias    of the mean of all draws, less what chance alone leaves of it (the variance of a mean of so many draws)
of spread  that, in % of how far roots' full outputs are from their mean, root of its mean square
off     root of the mean square of a draw's deviation
empty   draws, in %, that have no neighbour; largest: weight
rows    of nodes and of events that ranks fetch in such an iteration, in all; `cached`: rows of earlier iterations are not fetched again

Parts are of `shared-nodes` with a tenth of the nodes in all parts. decay: δ times the stream's span. What is cached has the draws of all
iterations before, each draw its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import NamedTuple
from unittest import mock

import numpy as np
import torch
from core.case import Case, Passes, Setting, Subject
from setups.data import events_of
from torch import Tensor

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.ranks.distributed_stream import DistributedStream
from chronoscale.batching.streams.ranks.distribution import RankAssignment, StreamDistribution
from chronoscale.batching.streams.ranks.remote_reads import look_up, remote_row_cache, rows_by_owner
from chronoscale.batching.streams.ranks.remote_row_cache import RemoteRowCache
from chronoscale.batching.streams.sampling import neighbourhood
from chronoscale.batching.streams.sampling.boundary import Boundary
from chronoscale.batching.streams.sampling.neighbourhood import Neighbourhood, Sampling
from chronoscale.datasets import store
from chronoscale.datasets.streams import draws
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.job import Item, Settings
from chronoscale.real_exec.streams.material import StreamMaterial
from chronoscale.real_exec.streams.models import attention
from chronoscale.real_exec.streams.models.tgn import TGN
from chronoscale.real_exec.streams.program import EventProgram
from chronoscale.real_exec.streams.tree import Hop, Tree
from chronoscale.real_exec.streams.updates import UpdatedNodes, write_updates
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload

RANKS, TOGETHER, FANOUT, THETA, CAP = 4, 600, 10, 0.1, 4.0
ROOM = 65_536
FORMS: dict[str, tuple[Boundary | None, bool]] = {  # and whether rows are cached
    "no decay": (None, False),
    "no decay, cached": (None, True),
    "published": (Boundary(THETA), False),
    "published, cached": (Boundary(THETA), True),
    "published, not completed": (Boundary(THETA, complete=False), False),
    "at least one": (Boundary(THETA, at_least_one=True), False),
    "at least one, not completed": (Boundary(THETA, complete=False, at_least_one=True), False),
    "at least one, cap 4": (Boundary(THETA, cap=CAP, at_least_one=True), False),
    "at least one, cap 4, not completed": (Boundary(THETA, complete=False, cap=CAP, at_least_one=True), False),
    "at least one, cap 4, cached": (Boundary(THETA, cap=CAP, at_least_one=True), True),
    "stale rows, not completed": (Boundary(THETA, complete=False, cap=CAP, at_least_one=True, stale=True), True),
    "stale rows": (Boundary(THETA, cap=CAP, at_least_one=True, stale=True), True),
}


class Versions:
    """Node memory as it was: a row for each time that a node was written. latest int64 [N]: the version of each node now."""

    def __init__(self, fresh: Tensor) -> None:
        self._rows, self._count = [fresh], len(fresh)
        self.latest = np.arange(len(fresh))

    def append(self, nodes: np.ndarray, rows: Tensor) -> None:
        """Add rows of nodes that were written."""
        self.latest[nodes] = np.arange(self._count, self._count + len(rows))
        self._rows.append(rows)
        self._count += len(rows)

    def table(self) -> Tensor:
        """Return the rows of all versions [V, H]."""
        if len(self._rows) > 1:
            self._rows = [torch.cat(self._rows)]
        return self._rows[0]


class History:
    """What one draw of a form has on every rank: a cache of others' rows, and which version of each node's row is in it."""

    def __init__(self, form: str, distributed: DistributedStream, assignment: RankAssignment, decay: float, draw: int) -> None:
        boundary, cached = FORMS[form]
        if boundary is not None:
            boundary = Boundary(THETA, decay, boundary.complete, boundary.cap, boundary.at_least_one, boundary.stale)
        self.sampling, self.seed = Sampling((FANOUT,), boundary=boundary), draws.derive_key(7, draw)
        source = distributed.source(False)
        self._caches: list[RemoteRowCache | None] = [None] * RANKS
        if cached:
            self._caches = [remote_row_cache(source, assignment, distributed.spread, 0) for _ in range(RANKS)]
        self._version = np.zeros((RANKS, source.stream.num_nodes), np.int64) if cached else None

    @property
    def lasts(self) -> bool:
        """Whether an iteration depends on those before."""
        return self._version is not None

    def read(
        self, iteration: int, rank: int, distributed: DistributedStream, roots: tuple[np.ndarray, ...], latest: np.ndarray
    ) -> tuple[Neighbourhood, np.ndarray, np.ndarray]:
        """Sample a rank's batch; return it, the version that is read of each node's row [U], and how many rows are fetched, of nodes and of
        events [2]."""
        source, part, cache = distributed.source(False), distributed.local_part(False, rank), self._caches[rank]
        assert part is not None
        part = part if cache is None else part._replace(cached=cache.rows(True))
        sampled = neighbourhood.sample(source.tcsr, source.stream.t, roots, self.sampling, self.seed, local_part=part)
        tables = rows_by_owner(sampled, source, part, True)
        lookups = look_up(cache, iteration, tables, sampled)
        versions = latest[sampled.nodes]
        if lookups is not None and self._version is not None:
            at, hit = tables[0].order[tables[0].own :], lookups[0].hit
            versions[at[hit]] = self._version[rank, sampled.nodes[at[hit]]]
            self._version[rank, sampled.nodes[at[~hit]]] = versions[at[~hit]]
        fetched = [table.missing(lookup)[0].size for table, lookup in zip(tables, lookups or (None, None), strict=True)]
        return sampled, versions, np.array(fetched)


class Deviations:
    """Deviations of a form's draws, added up root by root: squares of full outputs, of deviations and of their mean, draws without a
    neighbour."""

    def __init__(self) -> None:
        self.full = self.off = self.bias = 0.0
        self.sums: Tensor | None = None
        self.roots = self.empty = self.iterations = self.count = 0
        self.largest, self.rows = 0.0, np.zeros(2)

    def add(self, full: Tensor, drawn: Tensor) -> None:
        """Add roots' full outputs [R, H] and draws [D, R, H]."""
        apart, count = drawn - full, len(drawn)
        mean = apart.mean(0)
        chance = apart.var(0, unbiased=True).sum(1) / count if count > 1 else torch.zeros(len(full))
        self.full += float(full.square().sum())
        self.sums = full.sum(0) + (0 if self.sums is None else self.sums)
        self.count += len(full)
        self.off += float(apart.square().sum()) / count
        self.bias += float((mean.square().sum(1) - chance).sum())

    def figures(self) -> dict[str, float]:
        """Return what is printed."""
        assert self.sums is not None
        spread = self.full - float(self.sums.square().sum()) / self.count
        percent = 100 / self.full**0.5
        return {
            "bias, %": percent * max(self.bias, 0.0) ** 0.5,
            "of spread, %": 100 * (max(self.bias, 0.0) / spread) ** 0.5,
            "off, %": percent * self.off**0.5,
            "empty, %": 100 * self.empty / self.roots,
            "largest": self.largest,
            "nodes": float(self.rows[0]) / self.iterations,
            "events": float(self.rows[1]) / self.iterations,
        }


class Trained(NamedTuple):
    """A trained TGN on a stream, and the stream on four ranks."""

    program: EventProgram
    model: TGN
    distributed: DistributedStream


def train(name: str, setting: Setting) -> Trained:
    """Train TGN for an epoch on one rank."""
    events = events_of(name)
    store.save(setting.scratch / "stream", events)
    PreparedStream.make(setting.scratch / "prepared", setting.scratch / "stream", Protocol())
    data = PreparedStream.load(setting.scratch / "prepared")
    hyper, choice = Hyper(batch_size=TOGETHER, fanout=(FANOUT,), validate=False), ModelChoice("tgn", 100, heads=2, clock="gaps")
    stats = stream_statistics(data)
    plan = strategy("tgl-unique").plan(Workload(name, stats, shape_for(choice, stats, hyper), hyper), 1, UNUSED)
    context = Context(settings=Settings(learning_rate=5e-4, device="cpu", threads=setting.threads))
    material = StreamMaterial.of(Item(plan.name, "", str(data.folder), hyper), choice, context)
    learner = material.learner(choice, context)
    program = EventProgram(plan, material, learner, hyper, context)
    execute(plan, program, CpuLanes(False), "cpu")
    assert isinstance(learner.model, TGN)
    learner.model.eval()
    return Trained(program, learner.model, DistributedStream(data, StreamDistribution(shared=0.1, cached_rows=ROOM), RANKS))


def attended(model: TGN, sampled: Neighbourhood, memory: Tensor, features: np.ndarray | None) -> Tensor:
    """Return what attention gives each root of its neighbours, [R, H]. memory [U, H]: of the batch's nodes."""
    (tree,) = sampled.trees
    hop = tree.hops[0]
    edge = None
    if features is not None:
        edge = (
            torch.from_numpy(features[sampled.edges])[torch.from_numpy(hop.edge)]
            if sampled.edges.size
            else torch.zeros(*hop.edge.shape, features.shape[1])
        )
    weight = None if hop.weight is None else torch.from_numpy(hop.weight)
    there = torch.from_numpy(hop.there)
    of = Hop(torch.from_numpy(hop.slot), there, torch.from_numpy(hop.elapsed), edge, int(there.sum()), weight)
    nodes = model.inputs(None, memory)
    seen: list[Tensor] = []
    project = attention.project_sums

    def recording(sums: Tensor, value: Tensor) -> Tensor:
        seen.append(project(sums, value))
        return seen[-1]

    with mock.patch.object(attention, "project_sums", recording):
        levels = [torch.from_numpy(level) for level in tree.levels]
        model.layer(0, [nodes[level] for level in levels], Tree(levels, [of]))
    return seen[0]


@torch.no_grad()
def measure(data: str, decay: float, count: int, setting: Setting) -> Passes:
    """Draw all forms `count` times, iteration by iteration, while node memory goes on."""
    program, model, distributed = train(data, setting)
    source, stats = distributed.source(False), distributed.data
    t, events = source.stream.t, stats.training_events
    assignment = distributed.assignment(range(events), TOGETHER // RANKS)
    unit = decay / float(t[-1] - t[0])
    features = program.material.edge_features
    features = features if features is None or source.numbers is None else features[source.numbers]
    program.state.reset()
    everything = torch.arange(source.stream.num_nodes)
    versions = Versions(program.steps.fresh(everything))
    deal = BatchAssignment(range(events), 1, TOGETHER)
    histories = {
        form: [History(form, distributed, assignment, unit, draw) for draw in range(count if FORMS[form][0] else 1)] for form in FORMS
    }
    deviations = {form: Deviations() for form in FORMS}
    start = time.perf_counter()
    for iteration in range(assignment.iterations):
        measured = iteration >= (half := assignment.iterations // 2) and (iteration - half) % 8 == 0
        for rank in range(RANKS):
            if not (own := assignment.rank_events(iteration, rank)).size:
                continue
            others = distributed.negatives(own, rank, 0, 0)[0]
            roots = source.roots(own, others, assignment.before(iteration, rank))
            full, has = torch.empty(0), np.empty(0, np.bool_)
            for form, several in histories.items():
                if not (measured or several[0].lasts):
                    continue
                outputs = []
                for history in several:
                    sampled, read, fetched = history.read(iteration, rank, distributed, roots, versions.latest)
                    if not measured:
                        continue
                    outputs.append(attended(model, sampled, versions.table()[torch.from_numpy(read)], features))
                    hop = sampled.trees[0].hops[0]
                    if form == "no decay":
                        full, has = outputs[0], hop.there.any(1)
                    deviations[form].rows += fetched / len(several)
                    deviations[form].empty += int((has & ~hop.there.any(1)).sum())
                    deviations[form].roots += int(has.sum())
                    if hop.weight is not None:
                        deviations[form].largest = max(deviations[form].largest, float(hop.weight.max()))
                if measured:
                    deviations[form].add(full[torch.from_numpy(has)], torch.stack(outputs)[:, torch.from_numpy(has)])
        for form in FORMS:
            deviations[form].iterations += measured
        updated = UpdatedNodes.of(source, deal, iteration)
        nodes = torch.from_numpy(updated.nodes)
        write_updates(deal.all_events(iteration), updated, program.steps.fresh(nodes), source, model, program.state, 0)
        versions.append(updated.nodes, program.steps.fresh(nodes))
    seconds = {"seconds": time.perf_counter() - start}
    return {form: [{**seconds, **one.figures()}] for form, one in deviations.items()}


def cases(quick: bool) -> Iterator[Case]:
    """Yield streams by decays."""
    streams = ("hubs-2000-60",) if quick else ("uci_messages", "jodie_wikipedia")
    for data, decay in product(streams, (1.0, 50.0)):
        yield Case({"data": data, "decay": decay}, partial(measure, data, decay, 2 if quick else 8))


SUBJECT = Subject(cases, 1)
