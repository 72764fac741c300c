"""An epoch on events as rows. A unit is one batch on one rank; strategies differ in what is gathered and what overlaps.

Rows of optimiser step i have iteration = unit = i and step 0. Batches that validate follow: unit = steps + j, step 1, in the last
iteration.
Node memory and mailbox lie in the host's memory, one copy a rank; H2D rows of layer 0 bring what of it a batch reads. Ranks read them as
they were before the iteration, and all-gather the rows that it updates, so that all copies stay equal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.errors import UserError
from chronoscale.strategies.planning.builder import NONE, Builder, Columns
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.streams.feeding import StreamFeeding
from chronoscale.strategies.streams.kernels import kernels_of
from chronoscale.strategies.streams.models import FP32, shape_of
from chronoscale.strategies.streams.rows import transfers
from chronoscale.strategies.streams.rows.computation import add_backward, add_forward, add_update
from chronoscale.strategies.streams.rows.phase import (
    COMPUTE,
    FETCH,
    PLACES,
    READ,
    TIME,
    TRAIN,
    VALIDATE,
    WRITE,
    Phase,
    gathers,
    state_bytes,
)
from chronoscale.strategies.workload import Workload


@dataclass(frozen=True, slots=True, eq=False)
class PhaseEnds:
    """Planned rows that end training's or validation's batches of events, as handles: of its last batches' computation, int64 [ahead + 1,
    ranks], and of all of it, [ranks]."""

    computed: Ints
    over: Ints


def plan_epoch(name: str, workload: Workload, ranks: int, feeding: StreamFeeding, ahead: int) -> Schedule:
    """Plan one epoch on an event stream, each rank with a whole copy of node memory: every training batch once, in order, then every
    validation batch.

    name: the strategy's, for the schedule. feeding: how batches are sampled, cached and sent. ahead: batches prepared while one trains.
    Raises UserError for 0 ranks, and for a model that was not counted.
    """
    if ranks < 1:
        raise UserError(f"a schedule needs at least one rank, got {ranks}")
    hyper = workload.hyper
    shape = shape_of(workload)
    data = workload.events
    sampling, loading = feeding.sampling(hyper, shape), feeding.loading(hyper, shape)
    edgewise = bool(feeding.operators) and shape.spatial == "attention"
    cache, host = loading.room(data.num_nodes, data.events).total, data.num_nodes * state_bytes(shape)
    resident = 4 * shape.parameters * FP32 + cache
    builder = Builder(name, ranks, resident, "events", host, str(feeding), kernels_of(workload, ranks, feeding))
    nothing = PhaseEnds(np.full((ahead + 1, ranks), NONE, np.int64), np.full(ranks, NONE, np.int64))
    limits = (hyper.batch_size, sampling, hyper.batches, hyper.events.every, loading)
    training = Phase(workload, sampling, data.work(False, ranks, *limits), ranks, TRAIN, 0, edgewise, loading)
    ends, lookahead = _add_phase(builder, training, ahead, nothing), training.lookahead_bytes()
    if hyper.validate:
        counted = data.work(True, ranks, *limits)
        validation = Phase(workload, sampling, counted, ranks, VALIDATE, training.iterations, edgewise, loading)
        ends, lookahead = _add_phase(builder, validation, ahead, ends), max(lookahead, validation.lookahead_bytes())
        if ranks > 1:
            unit, ready = training.iterations + validation.iterations, ends.computed[-1] if ahead else ends.over
            site: Columns = {
                "rank": np.arange(ranks),
                "order": PLACES * unit,
                "iteration": training.iterations - 1,
                "unit": unit,
                "step": VALIDATE,
            }
            scored: Columns = {"collective": 2 * unit, "bytes": FP32 * data.validation * (shape.outputs or 2)}
            builder.add(Op.ALLREDUCE, Lane.COMM, site, scored, after=(ready,))
    return replace(builder.finish(), cached=cache, host=host + lookahead)


def count_rows(workload: Workload, ranks: int, feeding: StreamFeeding) -> int:
    """Count the rows that `plan_epoch` will plan for an event stream, without sampling, so that plans too large for memory are refused.

    feeding: how the strategy samples, caches and sends batches.
    """
    hyper = workload.hyper
    shape = shape_of(workload)
    data = workload.events
    several = ranks > 1
    limits, memory = (ranks, hyper.batch_size, hyper.batches, hyper.events.every), bool(shape.memory)
    loading = feeding.loading(hyper, shape)
    cached, changes = loading.placement is not None, loading.placement is not None and loading.placement.dynamic
    each = 3 + gathers(shape) + shape.layers + 3 * memory  # sample, send, forward; memory is read, sent, updated
    each += gathers(shape) * ((cached or loading.compressed) + changes) + memory * loading.compressed  # expanded; sampled before
    together = memory * (2 + several)  # memory is gathered, brought back, written
    training = BatchAssignment(range(data.training), *limits)
    rows = training.batches * (each + 1) + training.iterations * ranks * (1 + several + together)
    if not hyper.validate:
        return rows
    validation = BatchAssignment(range(data.validation), *limits)
    return rows + validation.batches * each + validation.iterations * ranks * together + ranks * several


def _add_phase(builder: Builder, phase: Phase, ahead: int, before: PhaseEnds) -> PhaseEnds:
    """Add the rows of training's or validation's batches, after those that ended with `before`; return their ends."""
    if not len(phase.work):
        return before
    shape = phase.shape
    ranks = phase.ranks
    there = phase.work.events > 0
    fetch, compute, write = (phase.site(place) for place in (FETCH - PLACES * ahead if ahead else READ, COMPUTE, WRITE))
    sampled, ready, held = transfers.add_fetch(builder, phase, fetch, compute)
    if shape.memory:
        # Behind what the batch before has written.
        ready, size = transfers.add_state(builder, phase, (phase.site(READ), ()) if ahead else (compute, (ready,)), compute)
        held = held + size
    last, total = add_forward(builder, phase, compute, ready, held)
    if phase.step == TRAIN:
        last = add_backward(builder, phase, compute, total, held)
        entered, over = add_update(builder, phase, compute, last, 2 * phase.unit)
    else:
        entered = over = last
    if shape.memory:
        gathered, over = _add_write(builder, phase, write, over)
        entered = entered if phase.step == TRAIN else gathered
    computed = np.concatenate([before.computed, last.reshape(-1, ranks)])
    overs = np.concatenate([before.over[None], over.reshape(-1, ranks)])
    # A batch is fetched when the one before is over, or when one that so many were fetched behind is computed.
    builder.link(sampled, (computed[: -ahead - 1] if ahead else overs[:-1]).ravel())
    builder.link(np.where(there, NONE, entered), overs[:-1].ravel())  # without events a rank goes on to the exchange, of one buffer
    # A rank without events in the last iteration ends with what it did before.
    return PhaseEnds(np.maximum.accumulate(computed)[-ahead - 1 :], np.maximum.accumulate(overs)[-1])


def _add_write(builder: Builder, phase: Phase, site: Columns, over: Ints) -> tuple[Ints, Ints]:
    """Add the rows that write what a batch did to node memory: gathered from all ranks, sent to the host, and written with the mails that
    follow.

    Returns their first row, and their last.
    """
    shape = phase.shape
    work = phase.work
    row = phase.shape.memory * FP32
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
    memory_rows: Columns = {"rows": work.written, "width": shape.memory, "bytes": work.written * row}
    down = builder.add(Op.D2H, Lane.D2H, site, memory_rows, after=(ready,))
    mails = work.mailed * (state_bytes(shape) - row - TIME)
    written: Columns = {"rows": work.written, "edges": work.mailed, "width": shape.memory, "bytes": work.written * (row + TIME) + mails}
    return ready, builder.add(Op.MEMORY_WRITE, Lane.HOST, site, written, after=(down,))
