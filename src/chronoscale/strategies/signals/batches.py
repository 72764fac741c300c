"""Batches: an epoch on a signal as rows. A unit is a batch of windows; strategies differ in where its readings lie and who brings them.

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
from chronoscale.strategies.signals.feeding import Feeding
from chronoscale.strategies.signals.forecasters import forward_flops, saved_bytes
from chronoscale.strategies.signals.kernels import kernels_of
from chronoscale.strategies.signals.stores import FP64, Batches
from chronoscale.strategies.workload import Workload

FP32 = 4
TRAIN, VALIDATE = 0, 1  # `step` of an epoch's rows


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Handles int64 [batches, ranks]: the last computation of each batch, and what ends it; a first row of NONE stands before `over`."""

    computed: Ints
    over: Ints


def epoch(name: str, workload: Workload, ranks: int, feeding: Feeding) -> Schedule:
    """One epoch: every training window once, then every validation window. Raises UserError for a series that is too short."""
    hyper, resident = workload.hyper, 4 * workload.model.parameters * FP32 + feeding.store.device_bytes(workload)
    builder = _builder(name, workload, ranks, feeding, resident, "windows")
    training, validation = (deal(workload.windows, hyper, ranks) for deal in (feeding.training, feeding.validation))
    nothing = Ends(np.empty((0, ranks), np.int64), np.full((1, ranks), NONE, np.int64))
    done = _phase(builder, workload, feeding, training, TRAIN, 0, nothing)
    done = _phase(builder, workload, feeding, validation, VALIDATE, training.iterations, done)
    if validation.iterations and ranks > 1:
        unit = training.iterations + validation.iterations
        at: Columns = {"rank": np.arange(ranks), "order": unit, "iteration": training.iterations - 1, "unit": unit, "step": VALIDATE}
        builder.add(Op.ALLREDUCE, Lane.COMM, at, {"collective": unit, "bytes": 5 * FP64}, after=(done.computed[-1],))  # errors
    return builder.finish()


def preparation(name: str, workload: Workload, ranks: int, feeding: Feeding) -> Schedule:
    """What happens once, before the first epoch: standardising, and bringing readings to where the strategy keeps them."""
    data = workload.signal
    builder = _builder(name, workload, ranks, feeding, feeding.store.device_bytes(workload), "preparation")
    site: Columns = {"rank": np.arange(ranks), "order": 0, "nodes": data.sensors, "width": data.channels}
    feeding.store.prepare(builder, workload, site)
    return builder.finish()


def _builder(name: str, workload: Workload, ranks: int, feeding: Feeding, resident: int, kind: str) -> Builder:
    if ranks < 1:
        raise UserError(f"a schedule needs at least one rank, got {ranks}")
    host, kernels = feeding.store.host_bytes(workload, ranks), kernels_of(workload, ranks) if kind == "windows" else SINGLE
    return Builder(name, ranks, resident, kind, host, str(feeding), kernels)


def _phase(builder: Builder, workload: Workload, feeding: Feeding, deal: WindowAssignment, step: int, first: int, before: Ends) -> Ends:
    """Batches of one deal, from unit `first` on, after those that ended with `before`."""
    data, model, windows, ranks = workload.signal, workload.model, workload.windows, deal.ranks
    if not deal.iterations:
        return before
    count = deal.sizes().ravel()
    unit = first + np.repeat(np.arange(deal.iterations), ranks)
    rank = np.tile(np.arange(ranks), deal.iterations)
    site: Columns = {"rank": rank, "order": unit, "unit": unit, "step": step, "iteration": unit if step == TRAIN else first - 1}
    batches = Batches(workload, ranks, site, count, feeding.local)
    read, after, held = feeding.store.bring(builder, batches)
    shape = (model, data.sensors, data.edges, count, windows.window, windows.horizon)
    saved = np.asarray(saved_bytes(*shape), np.int64) * (step == TRAIN)
    work: Columns = {"nodes": data.sensors, "edges": data.edges, "rows": count * data.sensors, "width": model.hidden}
    told = {**{name: work[name] for name in ("nodes", "edges", "rows")}, "batch": count, "later": step != TRAIN}
    moved = [builder.kernels.bytes(op.name, **told) for op in (Op.FORWARD, Op.BACKWARD)]
    forward: Columns = {**work, "flops": forward_flops(*shape), "bytes": moved[0], "alloc": saved}
    over: Columns = {"free": 0 if step == TRAIN else held}
    last = builder.add(Op.FORWARD, Lane.COMPUTE, site, forward, over, where=batches.there, after=after)
    updated = last
    if step == TRAIN:
        twice: Columns = {**work, "flops": 2 * np.asarray(forward_flops(*shape)), "bytes": moved[1]}
        last = builder.add(Op.BACKWARD, Lane.COMPUTE, site, twice, {"free": held + saved}, where=batches.there)
        updated = _update(builder, workload, site, unit, last)
    computed = np.concatenate([before.computed, last.reshape(-1, ranks)])
    if (ahead := feeding.store.ahead) == 0:  # on demand: asked for when the batch before is over
        ended = np.concatenate([before.over, (last if step == VALIDATE else updated).reshape(-1, ranks)])
        builder.link(read, ended[-deal.iterations - 1 : -1].ravel())
        return Ends(computed, ended)
    if ahead is not None:
        earlier = np.concatenate([np.full((ahead, ranks), NONE), computed])[first : first + deal.iterations]
        builder.link(read, earlier.ravel())
    return Ends(computed, before.over)


def _update(builder: Builder, workload: Workload, site: Columns, unit: Ints, backward: Ints) -> Ints:
    """All-reduce of the gradients with the count of readings, and the optimiser's step; on every rank, with windows or without."""
    parameters = workload.model.parameters
    ready = backward
    if builder.ranks > 1:
        reduced: Columns = {"collective": unit, "bytes": parameters * FP32 + 2 * FP32}
        ready = builder.add(Op.ALLREDUCE, Lane.COMM, site, reduced, after=(backward,))
    taken: Columns = {"rows": parameters, "flops": 10 * parameters}
    return builder.add(Op.OPTIMIZE, Lane.COMPUTE, site, taken, after=(ready,))
