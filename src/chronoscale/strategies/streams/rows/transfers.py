"""Rows that bring a batch of events to the device: features ahead of it, node memory once it is known."""

from __future__ import annotations

import numpy as np

from chronoscale.strategies.planning.builder import Builder, Columns
from chronoscale.strategies.schedule import Ints, Lane, Op
from chronoscale.strategies.streams.kernels import EXPAND, KEEP, SENT, STATE
from chronoscale.strategies.streams.rows.phase import TRAIN, Phase, gathers, pending_bytes
from chronoscale.strategies.streams.rows.work import update_work


def add_fetch(builder: Builder, phase: Phase, ahead: Columns, compute: Columns) -> tuple[Ints, Ints, Ints]:
    """Add the rows that sample batches of events, gather and send their features, and bring them to where they are read, to a plan.

    phase: the batches of training or validation. ahead, compute: the rows' columns (rank, unit ...) where batches are prepared, and where
    they are computed. Returns handles of the first row and of the last (what `builder.add` returns, for rows that wait for them), and the
    bytes that stay allocated until the batch is over, int64 [batches] each.
    """
    shape = phase.shape
    work = phase.work
    there = phase.work.events > 0
    index = phase.index()
    moved = phase.features()
    sizes: Columns = {"nodes": work.roots, "edges": work.sampled.sum(1), "rows": work.targets.sum(1)}
    if phase.keeps:  # all batches of the part are sampled before its first
        first: Columns = {**ahead, "order": np.min(np.asarray(ahead["order"]))}
        builder.add(Op.SAMPLE, Lane.HOST, first, sizes, {"layer": 0, "bytes": index}, where=there)
    sampled = builder.add(Op.SAMPLE, Lane.HOST, ahead, sizes, {"bytes": index}, where=there)
    read, sent_rows = sampled, work.sent_nodes + work.sent_edges
    if gathers(shape):
        rows: Columns = {"nodes": work.sent_nodes, "edges": work.sent_edges, "rows": sent_rows, "bytes": moved}
        read = builder.add(Op.GATHER, Lane.HOST, ahead, rows, where=there)
    index = index + phase.names()
    held = index + phase.read()
    sizes = {"rows": sent_rows, "bytes": moved + index, "alloc": index + moved if phase.expands else held}
    launched: Columns = {"kernels": builder.kernels.count(SENT)} if phase.loading.compressed or phase.loading.placement else {}
    sent = builder.add(Op.H2D, Lane.H2D, ahead, sizes, launched, where=there, after=(read,))
    if not phase.expands:
        return sampled, sent, held
    cached_bytes = phase.loading.node * work.kept_nodes + phase.loading.edge * work.kept_edges
    rows = {"nodes": work.nodes, "edges": phase.slots(), "rows": work.nodes + phase.slots() + work.kept_nodes + work.kept_edges}
    costs: Columns = {"bytes": 2 * (phase.read() + cached_bytes), "alloc": phase.read(), "free": moved}
    launched = {"kernels": builder.kernels.count(KEEP if phase.keeps else EXPAND)}
    sent = builder.add(Op.GATHER, Lane.COMPUTE, compute, rows, costs, launched, where=there, after=(sent,))
    return sampled, sent, held


def add_state(builder: Builder, phase: Phase, known: tuple[Columns, tuple[Ints, ...]], compute: Columns) -> tuple[Ints, Ints]:
    """Add to a plan on events the rows (operations of a schedule) that bring node memory to the device and update it, one of each a batch.

    phase: the batches of training or validation. known: values of columns that those rows share (rank, unit ...), and the operations,
    as handles that `builder.add` returned, after which memory is known. compute: as the first, of operations that compute. Returns
    handles of the last operations, and the bytes that stay allocated until the batch is over, int64 [batches] each.
    """
    shape = phase.shape
    work = phase.work
    there = phase.work.events > 0
    (site, after), each = known, pending_bytes(shape)
    moved, size = work.state * each, work.nodes * each
    rows: Columns = {"nodes": work.state, "rows": work.state, "width": shape.memory, "bytes": moved}
    read = builder.add(Op.MEMORY_READ, Lane.HOST, site, rows, where=there, after=after)
    sizes: Columns = {"rows": work.state, "layer": 0, "bytes": moved, "alloc": moved, "kernels": builder.kernels.count(STATE)}
    arrived = builder.add(Op.H2D, Lane.H2D, site, sizes, where=there, after=(read,))
    if phase.loading.compressed:
        sizes = {"nodes": work.nodes, "rows": work.nodes, "layer": 0, "bytes": 2 * size, "alloc": size, "free": moved}
        more: Columns = {"kernels": builder.kernels.count(STATE)}  # the same tensors
        arrived = builder.add(Op.GATHER, Lane.COMPUTE, compute, sizes, more, where=there, after=(arrived,))
    flops, written = update_work(shape, work.nodes)
    rows = {"nodes": work.nodes, "rows": work.nodes, "width": shape.memory}
    costs: Columns = {"flops": flops, "alloc": written // 2 * (phase.step == TRAIN)}
    return builder.add(Op.MEMORY_UPDATE, Lane.COMPUTE, compute, rows, costs, where=there, after=(arrived,)), size
