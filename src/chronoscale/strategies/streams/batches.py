"""Batches: an epoch on events as rows. A unit is an iteration's batch on one rank; strategies differ in what is gathered and what overlaps.

Rows of optimiser step i have iteration = unit = i and step 0. Batches that validate follow: unit = steps + j, step 1, in the last
iteration.
Node memory and mailbox lie in the host's memory, one copy a rank; H2D rows of layer 0 bring what of it a batch reads. Ranks read them as
they were before the iteration, and all-gather the rows that it updates, so that all copies stay equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.streams.deal import Deal
from chronoscale.datasets.streams.neighbourhood import Sampling
from chronoscale.datasets.streams.work import BatchStatistics
from chronoscale.errors import UserError
from chronoscale.strategies.builder import NONE, Builder, Columns
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.streams.feeding import Feeding
from chronoscale.strategies.streams.kernels import STATE, kernels_of
from chronoscale.strategies.streams.models import StreamShape
from chronoscale.strategies.streams.shapes import shape_of
from chronoscale.strategies.streams.work import class_work, embed_work, layer_work, score_work, update_work
from chronoscale.strategies.workload import Workload

FP32, INDEX, TIME, TRUTH = 4, 8, 8, 1
TRAIN, VALIDATE = 0, 1  # `step` of an epoch's rows
# Places of rows in an iteration. What is fetched is the next one's, unless nothing overlaps: behind what computes, as one thread of the
# host launches a GPU's rows in row order, and before what has to wait for that.
READ, COMPUTE, FETCH, WRITE, PLACES = range(5)


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Handles of rows that end an earlier phase: int64 [2, ranks], the computing of its last two batches, and [ranks], all of it."""

    computed: Ints
    over: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """The batches of one part: what is the same for all of its rows. `first`: its first unit."""

    workload: Workload
    sampling: Sampling
    work: BatchStatistics
    ranks: int
    step: int
    first: int

    @property
    def shape(self) -> StreamShape:
        return shape_of(self.workload)

    @property
    def iterations(self) -> int:
        return len(self.work) // self.ranks

    @property
    def unit(self) -> Ints:
        return self.first + np.repeat(np.arange(self.iterations), self.ranks)

    def site(self, place: int) -> Columns:
        """A row a batch, `place` places after its iteration's begin."""
        rank = np.tile(np.arange(self.ranks), self.iterations)
        iteration = self.unit if self.step == TRAIN else self.first - 1
        return {"rank": rank, "order": PLACES * self.unit + place, "unit": self.unit, "step": self.step, "iteration": iteration}

    def features(self) -> Ints:
        """Bytes of node and edge features."""
        found: Ints = FP32 * (self.work.nodes * self.shape.features + self.work.edges * self.shape.edge)
        return found

    def held(self) -> Ints:
        """Bytes on the device until the batch is over: indices, features of nodes, and those of edges, which attention reads in slots."""
        edges = self.slots() * self.shape.edge * bool(self.shape.layers)
        found: Ints = self.index() + FP32 * (self.work.nodes * self.shape.features + edges)
        return found

    def slots(self) -> Ints:
        """Of all levels, filled or not."""
        found: Ints = (self.work.targets[:, :-1] * np.array(self.sampling.fanouts, np.int64)).sum(1)
        return found

    def index(self) -> Ints:
        """Bytes of the roots' times, and of the indices that make trees of rows."""
        found: Ints = TIME * self.work.roots + INDEX * self.work.targets.sum(1) + (2 * INDEX + FP32 + TRUTH) * self.slots()
        return found


def epoch(name: str, workload: Workload, ranks: int, feeding: Feeding, overlaps: bool) -> Schedule:
    """One epoch: every training batch once, in order, then every batch that validates."""
    if ranks < 1:
        raise UserError(f"a schedule needs at least one rank, got {ranks}")
    hyper, shape, data = workload.hyper, shape_of(workload), workload.events
    sampling = feeding.sampling(hyper, shape)
    resident, host = 4 * shape.parameters * FP32, data.num_nodes * state_bytes(shape)
    builder = Builder(name, ranks, resident, "events", host, str(feeding), kernels_of(workload, ranks))
    nothing = Ends(np.full((2, ranks), NONE, np.int64), np.full(ranks, NONE, np.int64))
    limits = (hyper.batch_size, sampling, hyper.batches, hyper.events.every)
    training = Phase(workload, sampling, data.work(False, ranks, *limits), ranks, TRAIN, 0)
    done = _phase(builder, training, overlaps, nothing)
    if hyper.validate:
        validation = Phase(workload, sampling, data.work(True, ranks, *limits), ranks, VALIDATE, training.iterations)
        done = _phase(builder, validation, overlaps, done)
        if ranks > 1:
            unit, ready = training.iterations + validation.iterations, done.computed[-1] if overlaps else done.over
            site: Columns = {
                "rank": np.arange(ranks),
                "order": PLACES * unit,
                "iteration": training.iterations - 1,
                "unit": unit,
                "step": VALIDATE,
            }
            scored: Columns = {"collective": 2 * unit, "bytes": FP32 * data.validation * (shape.outputs or 2)}
            builder.add(Op.ALLREDUCE, Lane.COMM, site, scored, after=(ready,))
    return builder.finish()


def count(workload: Workload, ranks: int) -> int:
    """Rows of `epoch`."""
    hyper, shape, data, several = workload.hyper, shape_of(workload), workload.events, ranks > 1
    limits, memory = (ranks, hyper.batch_size, hyper.batches, hyper.events.every), bool(shape.memory)
    each = 3 + gathers(shape) + shape.layers + 3 * memory  # sample, send, forward; memory is read, sent, updated
    together = memory * (2 + several)  # memory is gathered, brought back, written
    training = Deal(range(data.training), *limits)
    found = training.batches * (each + 1) + training.iterations * ranks * (1 + several + together)
    if not hyper.validate:
        return found
    validation = Deal(range(data.validation), *limits)
    return found + validation.batches * each + validation.iterations * ranks * together + ranks * several


def gathers(shape: StreamShape) -> bool:
    """Whether a batch has rows of features, of nodes or of sampled events."""
    return bool(shape.features or shape.layers * shape.edge)


def state_bytes(shape: StreamShape) -> int:
    """Of one node's memory and mailbox, and their times, in the host's tables."""
    return (FP32 * shape.memory + TIME + shape.mails * (FP32 * shape.mail + TIME + TRUTH)) if shape.memory else 0


def pending_bytes(shape: StreamShape) -> int:
    """Of one node's row as it is read: memory, when it was heard of, mails, and what tells which there are and how old."""
    return FP32 * shape.memory + TIME + shape.mails * (FP32 * shape.mail + FP32 + 2 * TRUTH)


def _phase(builder: Builder, phase: Phase, overlaps: bool, before: Ends) -> Ends:
    """Rows of one part's batches, after those that ended with `before`."""
    if not len(phase.work):
        return before
    shape, work, ranks, there = phase.shape, phase.work, phase.ranks, phase.work.events > 0
    fetch, compute, write = (phase.site(place) for place in (FETCH - PLACES if overlaps else READ, COMPUTE, WRITE))
    sizes: Columns = {"nodes": work.roots, "edges": work.sampled.sum(1), "rows": work.targets.sum(1)}
    sampled = builder.add(Op.SAMPLE, Lane.HOST, fetch, sizes, {"bytes": phase.index()}, where=there)
    moved, held = phase.features(), phase.held()
    read = sampled
    if gathers(shape):
        rows: Columns = {"nodes": work.nodes, "edges": work.edges, "rows": work.nodes + work.edges, "bytes": moved}
        read = builder.add(Op.GATHER, Lane.HOST, fetch, rows, where=there)
    sizes = {"rows": work.nodes + work.edges, "bytes": moved + phase.index(), "alloc": held}
    sent = builder.add(Op.H2D, Lane.H2D, fetch, sizes, where=there, after=(read,))
    ready, state = sent, np.zeros(len(work), np.int64)
    if shape.memory:
        state = work.nodes * pending_bytes(shape)
        rows = {"nodes": work.nodes, "rows": work.nodes, "width": shape.memory, "bytes": state}
        known = phase.site(READ) if overlaps else compute  # behind what the batch before has written
        opened = builder.add(Op.MEMORY_READ, Lane.HOST, known, rows, where=there, after=(sent,) * (not overlaps))
        sizes = {"rows": work.nodes, "layer": 0, "bytes": state, "alloc": state, "kernels": builder.kernels.count(STATE)}
        arrived = builder.add(Op.H2D, Lane.H2D, known, sizes, where=there, after=(opened,))
        flops, size = update_work(shape, work.nodes)
        costs: Columns = {"flops": flops, "bytes": size, "alloc": size // 2 * (phase.step == TRAIN)}
        ready = builder.add(Op.MEMORY_UPDATE, Lane.COMPUTE, compute, rows, costs, where=there, after=(arrived,))
    last, total = _forward(builder, phase, compute, ready)
    if phase.step == TRAIN:
        flops, size, saved = total
        whole: Columns = {"nodes": work.nodes, "edges": phase.work.targets.sum(1), "rows": work.roots, "width": shape.hidden}
        back: Columns = {"flops": 2 * flops, "bytes": 2 * size, "free": held + state + saved}
        last = builder.add(Op.BACKWARD, Lane.COMPUTE, compute, whole, back, where=there)
        entered, over = _update(builder, phase, compute, last)
    else:
        entered = over = last
    if shape.memory:
        gathered, over = _write(builder, phase, write, over)
        entered = entered if phase.step == TRAIN else gathered
    computed = np.concatenate([before.computed, last.reshape(-1, ranks)])
    overs = np.concatenate([before.over[None], over.reshape(-1, ranks)])
    # A batch is fetched when the one before is over, or when the one before that is computed.
    builder.link(sampled, (computed[:-2] if overlaps else overs[:-1]).ravel())
    builder.link(np.where(there, NONE, entered), overs[:-1].ravel())  # without events a rank goes on to the exchange, of one buffer
    # A rank without events in the last iteration ends with what it did before.
    return Ends(np.maximum.accumulate(computed)[-2:], np.maximum.accumulate(overs)[-1])


def _forward(builder: Builder, phase: Phase, site: Columns, ready: Ints) -> tuple[Ints, tuple[Ints, Ints, Ints]]:
    """Layers over the levels, and the scores: the last row, and flops, bytes and bytes saved for backward of all, each [batches]."""
    shape, work, there = phase.shape, phase.work, phase.work.events > 0
    flops, size = update_work(shape, work.nodes) if shape.memory else np.zeros((2, len(work)), np.int64)
    saved = size // 2 * (phase.step == TRAIN)  # what is written is kept, and read once more in the forward pass
    total = [flops, size, saved]
    for layer in range(shape.layers):
        levels = range(shape.layers - layer)
        parts = [layer_work(shape, layer, work.targets[:, level], phase.sampling.fanouts[level]) for level in levels]
        flops, size = (np.asarray(sum(part[i] for part in parts), np.int64) for i in range(2))
        saved = size // 2 * (phase.step == TRAIN)
        targets = work.targets[:, : shape.layers - layer]
        slots = (targets * np.array(phase.sampling.fanouts[: shape.layers - layer], np.int64)).sum(1)
        sizes: Columns = {
            "nodes": work.targets[:, 1 : shape.layers - layer + 1].sum(1),
            "edges": slots,
            "rows": targets.sum(1),
            "layer": layer,
        }
        costs: Columns = {"width": shape.width(layer), "flops": flops, "bytes": size, "alloc": saved}
        builder.add(Op.AGGREGATE, Lane.COMPUTE, site, sizes, costs, where=there, after=(ready,) * (not layer and not shape.memory))
        total = [done + more for done, more in zip(total, (flops, size, saved), strict=True)]
    told = class_work(shape, work.events) if shape.outputs else score_work(shape, work.roots - work.events, work.events)
    flops, size = (one + other for one, other in zip(embed_work(shape, work.roots), told, strict=True))
    over: Columns = {"free": phase.held() + work.nodes * pending_bytes(shape) * bool(shape.memory)}
    sizes = {"nodes": work.roots, "rows": work.roots, "width": shape.hidden, "flops": flops, "bytes": size}
    last = builder.add(Op.FORWARD, Lane.COMPUTE, site, sizes, over if phase.step == VALIDATE else {}, where=there)
    return last, (total[0] + flops, total[1] + size, total[2])


def _update(builder: Builder, phase: Phase, site: Columns, backward: Ints) -> tuple[Ints, Ints]:
    """All-reduce of the gradients and the optimiser's step; on every rank, with events or without. Their first row, and their last."""
    parameters, ready = phase.shape.parameters, backward
    if phase.ranks > 1:
        reduced: Columns = {"collective": 2 * phase.unit, "bytes": parameters * FP32}
        ready = builder.add(Op.ALLREDUCE, Lane.COMM, site, reduced, after=(backward,))
    moved: Columns = {"bytes": 7 * parameters * FP32, "rows": parameters, "flops": 10 * parameters}  # Adam reads four values, writes three
    return ready, builder.add(Op.OPTIMIZE, Lane.COMPUTE, site, moved, after=(ready,))


def _write(builder: Builder, phase: Phase, site: Columns, over: Ints) -> tuple[Ints, Ints]:
    """What the batch did to memory: gathered from all ranks, brought to the host, and written with the mails that follow from it. Their
    first row, and their last."""
    shape, work, row = phase.shape, phase.work, phase.shape.memory * FP32
    ready = over
    if phase.ranks > 1:
        launched = builder.kernels.count(Op.ALLGATHER.name, present=work.events > 0)  # a rank without events has no rows to look up
        sent: Columns = {
            "collective": 2 * phase.unit + 1,
            "rows": work.updated,
            "width": shape.memory,
            "bytes": work.updated * row,
            "kernels": launched,
        }
        ready = builder.add(Op.ALLGATHER, Lane.COMM, site, sent, after=(ready,))
    brought: Columns = {"rows": work.written, "width": shape.memory, "bytes": work.written * row}
    down = builder.add(Op.D2H, Lane.D2H, site, brought, after=(ready,))
    mails = work.mailed * (state_bytes(shape) - row - TIME)
    written: Columns = {"rows": work.written, "edges": work.mailed, "width": shape.memory, "bytes": work.written * (row + TIME) + mails}
    return ready, builder.add(Op.MEMORY_WRITE, Lane.HOST, site, written, after=(down,))
