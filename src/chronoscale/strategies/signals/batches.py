"""Epochs and preparations on a signal as rows. A unit is a batch of windows; strategies differ in where its readings lie.

Rows of optimiser step i have iteration = unit = i and step 0. Validation batches follow: unit = steps + j, step 1, in the last iteration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.batching.signals.windows import WindowAssignment
from chronoscale.errors import UserError
from chronoscale.strategies.costing.kernels import SINGLE
from chronoscale.strategies.planning.builder import NONE, Builder, Columns
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.signals.feeding import SignalFeeding
from chronoscale.strategies.signals.forecasters import forward_flops, saved_bytes
from chronoscale.strategies.signals.kernels import kernels_of
from chronoscale.strategies.signals.stores import FP64, WindowBatches
from chronoscale.strategies.workload import Workload

FP32 = 4
TRAIN, VALIDATE = 0, 1  # `step` of an epoch's rows


@dataclass(frozen=True, slots=True, eq=False)
class BatchEnds:
    """Ends of planned batches on a signal, handles of rows int64 [batches, ranks]: the last computation of each batch, and the row that
    ends it; a first row of -1 stands before `over`."""

    computed: Ints
    over: Ints


def plan_epoch(name: str, workload: Workload, ranks: int, feeding: SignalFeeding) -> Schedule:
    """Plan one epoch of training a forecaster on a signal: every training window once, then every validation window, as a schedule.

    name: the strategy's, for the schedule. feeding: where windows lie and how ranks get them. Raises UserError for a series that is too
    short.
    """
    hyper, resident = workload.hyper, 4 * workload.model.parameters * FP32 + feeding.store.device_bytes(workload)
    builder = _begin(name, workload, ranks, feeding, resident, "windows")
    training, validation = (deal(workload.windows, hyper, ranks) for deal in (feeding.training, feeding.validation))
    nothing = BatchEnds(np.empty((0, ranks), np.int64), np.full((1, ranks), NONE, np.int64))
    ends = _add_phase(builder, workload, feeding, training, TRAIN, 0, nothing)
    ends = _add_phase(builder, workload, feeding, validation, VALIDATE, training.iterations, ends)
    if validation.iterations and ranks > 1:
        unit = training.iterations + validation.iterations
        at: Columns = {"rank": np.arange(ranks), "order": unit, "iteration": training.iterations - 1, "unit": unit, "step": VALIDATE}
        builder.add(Op.ALLREDUCE, Lane.COMM, at, {"collective": unit, "bytes": 5 * FP64}, after=(ends.computed[-1],))  # errors
    return builder.finish()


def plan_preparation(name: str, workload: Workload, ranks: int, feeding: SignalFeeding) -> Schedule:
    """Plan what happens once before the first epoch on a signal, as a schedule: standardising, and moving readings to where the strategy
    (`name`) keeps them.

    Raises UserError for another family or a series that is too short.
    """
    data = workload.signal
    builder = _begin(name, workload, ranks, feeding, feeding.store.device_bytes(workload), "preparation")
    site: Columns = {"rank": np.arange(ranks), "order": 0, "nodes": data.sensors, "width": data.channels}
    feeding.store.prepare(builder, workload, site)
    return builder.finish()


def _begin(name: str, workload: Workload, ranks: int, feeding: SignalFeeding, resident: int, kind: str) -> Builder:
    """Return an empty builder of schedules of a kind. Raises UserError for 0 ranks."""
    if ranks < 1:
        raise UserError(f"a schedule needs at least one rank, got {ranks}")
    host, kernels = feeding.store.host_bytes(workload, ranks), kernels_of(workload, ranks) if kind == "windows" else SINGLE
    return Builder(name, ranks, resident, kind, host, str(feeding), kernels)


def _add_phase(
    builder: Builder, workload: Workload, feeding: SignalFeeding, deal: WindowAssignment, step: int, first: int, before: BatchEnds
) -> BatchEnds:
    """Add the batches of training or of validation (`step`), from unit `first` on, after those that ended with `before`; return their
    ends."""
    data = workload.signal
    model = workload.model
    windows = workload.windows
    ranks = deal.ranks
    if not deal.iterations:
        return before
    count = deal.sizes().ravel()
    unit = first + np.repeat(np.arange(deal.iterations), ranks)
    rank = np.tile(np.arange(ranks), deal.iterations)
    site: Columns = {"rank": rank, "order": unit, "unit": unit, "step": step, "iteration": unit if step == TRAIN else first - 1}
    batches = WindowBatches(workload, ranks, site, count, feeding.local)
    read, after, held = feeding.store.bring(builder, batches)
    shape = (model, data.sensors, data.edges, count, windows.window, windows.horizon)
    saved = np.asarray(saved_bytes(*shape), np.int64) * (step == TRAIN)
    work: Columns = {"nodes": data.sensors, "edges": data.edges, "rows": count * data.sensors, "width": model.hidden}
    variables = {**{name: work[name] for name in ("nodes", "edges", "rows")}, "batch": count, "later": step != TRAIN}
    moved = [builder.kernels.bytes(op.name, **variables) for op in (Op.FORWARD, Op.BACKWARD)]
    forward: Columns = {**work, "flops": forward_flops(*shape), "bytes": moved[0], "alloc": saved}
    over: Columns = {"free": 0 if step == TRAIN else held}
    last = builder.add(Op.FORWARD, Lane.COMPUTE, site, forward, over, where=batches.there, after=after)
    updated = last
    if step == TRAIN:
        twice: Columns = {**work, "flops": 2 * np.asarray(forward_flops(*shape)), "bytes": moved[1]}
        last = builder.add(Op.BACKWARD, Lane.COMPUTE, site, twice, {"free": held + saved}, where=batches.there)
        updated = _add_update(builder, workload, site, unit, last)
    computed = np.concatenate([before.computed, last.reshape(-1, ranks)])
    if (ahead := feeding.store.ahead) == 0:  # on demand: asked for when the batch before is over
        ended = np.concatenate([before.over, (last if step == VALIDATE else updated).reshape(-1, ranks)])
        builder.link(read, ended[-deal.iterations - 1 : -1].ravel())
        return BatchEnds(computed, ended)
    if ahead is not None:
        earlier = np.concatenate([np.full((ahead, ranks), NONE), computed])[first : first + deal.iterations]
        builder.link(read, earlier.ravel())
    return BatchEnds(computed, before.over)


def _add_update(builder: Builder, workload: Workload, site: Columns, unit: Ints, backward: Ints) -> Ints:
    """Add the all-reduce of the gradients with the count of readings, and the optimiser step, on every rank, with windows or without."""
    parameters = workload.model.parameters
    ready = backward
    if builder.ranks > 1:
        reduced: Columns = {"collective": unit, "bytes": parameters * FP32 + 2 * FP32}
        ready = builder.add(Op.ALLREDUCE, Lane.COMM, site, reduced, after=(backward,))
    step_work: Columns = {"rows": parameters, "flops": 10 * parameters}
    return builder.add(Op.OPTIMIZE, Lane.COMPUTE, site, step_work, after=(ready,))
