"""Rows of batches whose node memory is spread over ranks, and the rows of other batches that they wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chronoscale.strategies.planning.builder import NONE, Builder, Columns
from chronoscale.strategies.schedule import Ints, Lane, Op
from chronoscale.strategies.streams.kernels import STATE
from chronoscale.strategies.streams.models import FP32
from chronoscale.strategies.streams.rows.computation import add_backward, add_forward, add_update
from chronoscale.strategies.streams.rows.phase import INDEX, TRAIN, pending_bytes, state_bytes
from chronoscale.strategies.streams.rows.work import update_work
from chronoscale.strategies.streams.spread.phase import (
    BACK,
    BEGIN,
    COMMON,
    COMMUNE,
    COMPUTE,
    FETCH,
    GRADIENTS,
    IDS,
    OWN,
    PREPARE,
    READ,
    ROWS,
    SETTLE,
    SHARED,
    SYNCHRONISED_ROWS,
    UPDATE,
    SpreadPhase,
    contribution_bytes,
)


class BatchHandles(NamedTuple):
    """Planned rows of batches of events whose node memory is spread over ranks (MemShare ...), as handles int64 [iterations, ranks] each.

    first, last: of a batch; fetched: what brings remote rows; opened: what reads the rank's own memory; settled: what settles the batch's
    changes of memory; computed: its computation.
    """

    first: Ints
    last: Ints
    fetched: Ints
    opened: Ints
    settled: Ints
    computed: Ints


class RowChain:
    """Planned rows of batches of events (MemShare, MSPipe ...), one after another: each waits for the one before it in its batch, or, where
    lanes overlap, for the rows that it names."""

    def __init__(self, builder: Builder, phase: SpreadPhase) -> None:
        self._builder, self._overlaps = builder, phase.sharing.pipelined
        self.first = self.last = np.full(len(phase.work), NONE, np.int64)

    def add(
        self, op: Op, lane: Lane, site: Columns, *columns: Columns, where: NDArray[np.bool_] | None = None, after: Sequence[Ints] = ()
    ) -> Ints:
        """Add a row to every batch of the plan, after the one before it, or, where lanes overlap, after those in `after`; return its
        handles."""
        rows = self._builder.add(op, lane, site, *columns, where=where, after=after if self._overlaps else (self.last,))
        return self.follow(rows)

    def follow(self, rows: Ints) -> Ints:
        """Append rows that were added elsewhere (their handles) to the chain, and return them."""
        self.first, self.last = np.where(self.first >= 0, self.first, rows), np.where(rows >= 0, rows, self.last)
        return rows


def add_batches(builder: Builder, phase: SpreadPhase) -> BatchHandles:
    """Add the rows of all batches to a plan whose ranks spread node memory: sampling, reads, computation, and writes of memory.

    phase: the batches of training or of validation. Returns handles (int64 [iterations, ranks] each) of rows that batches wait for.
    """
    work = phase.work
    there = phase.work.events > 0
    line = RowChain(builder, phase)
    sent, requested, held = _add_sampling(line, phase)
    fetched, opened, fetched_bytes = _add_reads(line, phase, (sent, requested), builder.kernels.count(STATE))
    held = held + fetched_bytes
    flops, written = update_work(phase.shape, work.nodes)
    rows: Columns = {"nodes": work.nodes, "rows": work.nodes, "width": phase.shape.memory}
    costs: Columns = {"flops": flops, "alloc": written // 2 * (phase.step == TRAIN)}
    after = (sent, fetched[0], fetched[1])
    updated = line.add(Op.MEMORY_UPDATE, Lane.COMPUTE, phase.place(BEGIN), rows, costs, where=there, after=after)
    settled = _add_writes(line, phase, updated) if phase.sharing.pipelined else updated
    computed, total = add_forward(builder, phase, phase.place(COMPUTE), np.full_like(updated, NONE), held)
    line.follow(computed)
    if phase.step == TRAIN:
        computed = line.follow(add_backward(builder, phase, phase.place(COMPUTE), total, held))
        entered, over = add_update(builder, phase, phase.place(UPDATE), computed, phase.collective(GRADIENTS))
        if not phase.sharing.pipelined:
            builder.link(np.where(there, NONE, entered), line.last)
        line.follow(over)
    if not phase.sharing.pipelined:
        settled = _add_writes(line, phase, updated)
    shape = phase.iterations, phase.ranks
    return BatchHandles(*(part.reshape(shape) for part in (line.first, line.last, fetched[0], opened, settled, computed)))


def link_batches(builder: Builder, unit: BatchHandles, phase: SpreadPhase) -> None:
    """Let planned batches of events wait for the earlier ones that they need, where ranks spread node memory.

    unit: handles of the batches' rows, as `add_batches` returns them. phase: the batches of training or of validation. Where nothing
    overlaps, a batch waits for the one before. Else remote rows and memory are read when what they may miss at most is all that is not
    settled, and before more is.
    """
    if not phase.sharing.pipelined:
        builder.link(unit.first[1:].ravel(), unit.last[:-1].ravel())
        return
    behind = phase.staleness
    for read in (unit.fetched, unit.opened):
        builder.link(read[1 + behind :].ravel(), unit.settled[: -1 - behind].ravel())
        if behind:
            builder.link(unit.settled[:-behind].ravel(), read[behind:].ravel())


def _add_sampling(line: RowChain, phase: SpreadPhase) -> tuple[Ints, Ints, Ints]:
    """Add the rows that need no memory: sampling, features that the rank has, and ids of those that it has not.

    Returns the rows that bring the first, those that request the others, and the bytes allocated until the batch is over.
    """
    work = phase.work
    there = phase.work.events > 0
    site = phase.place(PREPARE, phase.ahead)
    nodes, edges = phase.local()
    index, own = phase.index(), FP32 * phase.shape.features * nodes + phase.edge() * edges
    sizes: Columns = {"nodes": work.roots, "edges": work.sampled.sum(1), "rows": work.targets.sum(1)}
    sampled = line.add(Op.SAMPLE, Lane.HOST, site, sizes, {"bytes": index}, where=there)
    rows: Columns = {"nodes": nodes, "edges": edges, "rows": nodes + edges, "bytes": own}
    gathered = line.add(Op.GATHER, Lane.HOST, site, rows, where=there, after=(sampled,))
    sizes = {"rows": nodes + edges, "bytes": own + index, "alloc": own + index}
    sent = line.add(Op.H2D, Lane.H2D, site, sizes, where=there, after=(gathered,))
    requested = np.full_like(sent, NONE)
    if phase.exchanges:
        asks: Columns = {"layer": IDS, "bytes": phase.ids(), "rows": work.asked_nodes + work.asked_edges, "kernels": 0}
        requested = line.add(Op.ALLTOALL, Lane.COMM, site, {"collective": phase.collective(IDS)}, asks, after=(sampled,))
    return sent, requested, own + index


def _add_reads(line: RowChain, phase: SpreadPhase, ready: tuple[Ints, Ints], kernels: Ints) -> tuple[tuple[Ints, Ints], Ints, Ints]:
    """Add the rows that fetch other ranks' rows and read the rank's own memory.

    Returns the rows that bring either, the row that reads own memory, and the bytes allocated until the batch is over.
    """
    work = phase.work
    there = phase.work.events > 0
    held = np.zeros(len(phase.work), np.int64)
    remote = np.full(len(work), NONE, np.int64)
    if phase.exchanges:
        held = phase.row() * (work.asked_nodes + work.cached_nodes) + phase.edge() * (work.asked_edges + work.cached_edges)
        sizes: Columns = {"layer": ROWS, "bytes": phase.fetched(), "nodes": work.asked_nodes, "edges": work.asked_edges, "kernels": 0}
        rows: Columns = {"rows": work.asked_nodes + work.asked_edges, "alloc": held}
        together: Columns = {"collective": phase.collective(ROWS)}
        remote = line.add(Op.ALLTOALL, Lane.COMM, phase.reading(FETCH), together, sizes, rows, after=ready)
    nodes, _ = phase.local()
    moved = nodes * pending_bytes(phase.shape)
    rows = {"nodes": nodes, "rows": nodes, "width": phase.shape.memory, "bytes": moved}
    opened = line.add(Op.MEMORY_READ, Lane.HOST, phase.reading(READ), rows, where=there)
    sizes = {"rows": nodes, "layer": 0, "bytes": moved, "alloc": moved, "kernels": kernels}
    arrived = line.add(Op.H2D, Lane.H2D, phase.reading(READ), sizes, where=there, after=(opened,))
    return (remote, arrived), opened, held + moved


def _add_writes(line: RowChain, phase: SpreadPhase, updated: Ints) -> Ints:
    """Add the rows that send a batch's changes of memory to the rows' ranks, write them there, and synchronise shared nodes.

    Returns the rows that settle what is not shared.
    """
    shape = phase.shape
    work = phase.work
    sharing = phase.sharing
    site = phase.place(SETTLE)
    each = contribution_bytes(shape)
    row = FP32 * shape.memory
    width = shape.memory + shape.mail
    memory_rows: Columns = {"rows": work.computed, "width": width, "bytes": work.computed * row}  # mails are made of it there
    ready = line.add(Op.D2H, Lane.D2H, site, memory_rows, where=work.events > 0, after=(updated,))
    down = ready
    if phase.exchanges:
        moved = np.maximum(work.sent, work.come)
        sizes: Columns = {"layer": BACK, "rows": moved, "bytes": each * moved, "kernels": 0}
        ready = line.add(Op.ALLTOALL, Lane.COMM, site, {"collective": phase.collective(BACK)}, sizes, after=(down,))
    sizes = {"layer": OWN, "rows": work.settled, "width": width, "bytes": work.settled * state_bytes(shape)}
    settled = line.add(Op.MEMORY_WRITE, Lane.HOST, site, sizes, where=(work.events > 0) | phase.exchanges, after=(ready,))
    if sharing.synchronised == "never" or not (phase.exchanges and sharing.shared):
        return settled
    site, everything = phase.place(COMMUNE), sharing.synchronised == "all"
    sent_rows, received_rows = (np.rint(phase.sent * rows).astype(np.int64) for rows in (work.shared, work.everywhere))
    row_bytes = each if everything else INDEX + state_bytes(shape)
    op, layer, changes, moved = Op.ALLGATHER, -1, work.shared, sent_rows
    if phase.members < phase.ranks:  # each rank sends to those of its group alone, or receives of them, whichever is more
        op, layer, others = Op.ALLTOALL, SYNCHRONISED_ROWS, phase.members - 1
        changes, moved = (
            np.maximum(others * work.shared, work.everywhere - work.shared),
            np.maximum(others * sent_rows, received_rows - sent_rows),
        )
    sizes = {"layer": layer, "nodes": changes, "rows": moved, "width": width, "bytes": row_bytes * moved, "kernels": 0}
    gathered = line.add(op, Lane.COMM, site, {"collective": phase.collective(SHARED)}, sizes, after=(down if everything else settled,))
    sizes = {"layer": COMMON, "rows": received_rows, "width": width, "bytes": received_rows * state_bytes(shape)}
    line.add(Op.MEMORY_WRITE, Lane.HOST, site, sizes, after=(gathered,))
    return settled
