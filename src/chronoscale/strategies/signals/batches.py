"""Batches: schedules of signals. A unit is a batch of windows; strategies differ in where its readings lie and who brings them.

Rows of optimiser step i have iteration = unit = i and step 0. Validation batches follow: unit = steps + j, step 1, in the last iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from chronoscale.datasets.signals.windows import Deal, Windows
from chronoscale.errors import UserError
from chronoscale.strategies.builder import NONE, Builder, Columns
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.signals.forecasters import forward_bytes, forward_flops, saved_bytes
from chronoscale.strategies.workload import Hyper, Workload

FP32, FP64 = 4, 8
IN_FLIGHT = 2  # batches whose readings are held at once
TRAIN, VALIDATE = 0, 1  # `step` of an epoch's rows
MEASURE, SETTLE = 0, 1  # `step` of MATERIALISE in a preparation: moments of a part; standardise, and copy where windows are copied


class Store(StrEnum):
    """Where readings lie, and so how a batch reaches the device."""

    WINDOWS = "windows"  # every window copied out, in host memory: GATHER, H2D
    ARRAY = "array"  # one array in host memory: GATHER by start index, H2D
    DEVICE = "device"  # one array on the device: GATHER there
    SPREAD = "spread"  # every window copied out, over the workers of a data engine: FETCH through it, H2D
    PART = "part"  # a mapped part a rank: FETCH one block, H2D, windows are cut out on the device


@dataclass(frozen=True, slots=True)
class Feeding:
    """How a strategy feeds its batches; `local`: from a fixed part of the windows a rank, in whole batches (PGT-I §5.4)."""

    store: Store
    local: bool = False

    def training(self, windows: Windows, hyper: Hyper, ranks: int) -> Deal:
        """Windows that are trained on, shuffled every epoch."""
        return Deal(windows.train, ranks, hyper.batch_size, self.local, seed=hyper.seed, limit=hyper.batches)

    def validation(self, windows: Windows, hyper: Hyper, ranks: int) -> Deal:
        """Windows that validate, in order of time; none unless asked for."""
        chosen = windows.validation if hyper.validate else range(0)
        return Deal(chosen, ranks, hyper.batch_size, self.local, shuffled=False, limit=hyper.batches)


def host_bytes(feeding: Feeding, workload: Workload, ranks: int) -> int:
    """The most that a rank holds in host memory (PGT-I eq. 1 and 2).

    as-published: Algorithm 1 standardises inputs into a new array (line 19) while the data as read are still there; index-batching, too,
    standardises into a new array while the file's one channel is there; and what goes to the device is loaded whole first.
    """
    data, windows, hyper = workload.signal, workload.windows, workload.hyper
    if ranks < 1:
        raise UserError(f"a schedule needs at least one rank, got {ranks}")
    published = hyper.variant == "as-published"
    copied = windows.materialised_bytes(data.sensors, data.channels, data.itemsize)
    whole = windows.index_bytes(data.sensors, data.channels, data.itemsize)
    row, index = data.sensors * data.channels * data.itemsize, 8 * len(windows)
    inputs = copied * windows.window // windows.reach
    block = (min(hyper.batch_size, len(windows.train)) + windows.reach - 1) * row
    return {
        Store.WINDOWS: copied + (inputs + data.steps * row if published else 0),
        Store.ARRAY: whole + (data.steps * row + data.steps * data.sensors * data.itemsize if published else 0),
        Store.DEVICE: whole if published else index,
        Store.SPREAD: -(-copied // ranks),
        Store.PART: IN_FLIGHT * block + index,
    }[feeding.store]


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Handles int64 [batches, ranks]: the last computation of each batch, and what ends it; a first row of NONE stands before `over`."""

    computed: Ints
    over: Ints


def epoch(name: str, workload: Workload, ranks: int, feeding: Feeding) -> Schedule:
    """One epoch: every training window once, then every validation window. Raises UserError for a series that is too short."""
    data, hyper, model = workload.signal, workload.hyper, workload.model
    row = data.sensors * data.channels * data.itemsize
    resident = 4 * model.parameters * FP32 + (data.steps * row if feeding.store is Store.DEVICE else 0)
    builder = Builder(name, ranks, resident, "windows", host_bytes(feeding, workload, ranks))
    training, validation = (deal(workload.windows, hyper, ranks) for deal in (feeding.training, feeding.validation))
    nothing = Ends(np.empty((0, ranks), np.int64), np.full((1, ranks), NONE, np.int64))
    done = _phase(builder, workload, feeding, training, TRAIN, 0, nothing)
    done = _phase(builder, workload, feeding, validation, VALIDATE, training.iterations, done)
    if validation.iterations and ranks > 1:
        unit = training.iterations + validation.iterations
        at: Columns = {"rank": np.arange(ranks), "order": unit, "iteration": training.iterations - 1, "unit": unit, "step": VALIDATE}
        builder.add(Op.ALLREDUCE, Lane.COMM, at, {"collective": unit, "bytes": 5 * FP64}, after=(done.computed[-1],))  # errors
    return builder.finish()


def _phase(builder: Builder, workload: Workload, feeding: Feeding, deal: Deal, step: int, first: int, before: Ends) -> Ends:
    """Batches of one deal, from unit `first` on, after those that ended with `before`."""
    data, model, windows, ranks = workload.signal, workload.model, workload.windows, deal.ranks
    if not deal.iterations:
        return before
    count = deal.sizes().ravel()  # a site is a batch and rank, rank by rank
    unit = first + np.repeat(np.arange(deal.iterations), ranks)
    rank = np.tile(np.arange(ranks), deal.iterations)
    site: Columns = {"rank": rank, "order": unit, "unit": unit, "step": step, "iteration": unit if step == TRAIN else first - 1}
    there = count > 0
    row = data.sensors * data.channels * data.itemsize
    batch = count * windows.reach * row
    copied: Columns = {"nodes": data.sensors, "rows": count * windows.reach, "width": data.channels, "bytes": batch}
    after: tuple[Ints, ...] = ()
    if feeding.store is Store.PART:
        steps = count + windows.reach - 1
        block: Columns = {"nodes": data.sensors, "rows": steps, "width": data.channels, "bytes": steps * row}
        read = builder.add(Op.FETCH, Lane.HOST, site, block, where=there)
        sent = builder.add(Op.H2D, Lane.H2D, site, block, {"alloc": steps * row}, where=there, after=(read,))
        builder.add(Op.GATHER, Lane.COMPUTE, site, copied, {"alloc": batch}, where=there, after=(sent,))
        held = batch + steps * row
    elif feeding.store is Store.DEVICE:
        read = builder.add(Op.GATHER, Lane.COMPUTE, site, copied, {"alloc": batch}, where=there)
        held = batch
    else:
        if feeding.store is Store.SPREAD:
            own = np.minimum(count, 1) if feeding.local else requests(count, ranks)
            request: Columns = {"nodes": own, "edges": own.reshape(-1, ranks).sum(1).repeat(ranks)}
            read = builder.add(Op.FETCH, Lane.COMM, site, copied, request, where=there)
        else:
            read = builder.add(Op.GATHER, Lane.HOST, site, copied, where=there)
        after = (builder.add(Op.H2D, Lane.H2D, site, copied, {"alloc": batch}, where=there, after=(read,)),)
        held = batch
    shape = (model, data.sensors, data.edges, count, windows.window, windows.horizon)
    saved = np.asarray(saved_bytes(*shape), np.int64) * (step == TRAIN)
    work: Columns = {"nodes": data.sensors, "edges": data.edges, "rows": count * data.sensors, "width": model.hidden}
    forward: Columns = {**work, "flops": forward_flops(*shape), "bytes": forward_bytes(*shape), "alloc": saved}
    last = builder.add(Op.FORWARD, Lane.COMPUTE, site, forward, {"free": 0 if step == TRAIN else held}, where=there, after=after)
    updated = last
    if step == TRAIN:
        twice: Columns = {**work, "flops": 2 * np.asarray(forward_flops(*shape)), "bytes": 2 * np.asarray(forward_bytes(*shape))}
        last = builder.add(Op.BACKWARD, Lane.COMPUTE, site, twice, {"free": held + saved}, where=there)
        updated = _update(builder, workload, site, unit, last, ranks)
    computed = np.concatenate([before.computed, last.reshape(-1, ranks)])
    if feeding.store is Store.SPREAD:  # on demand: asked for when the batch before is over
        over = np.concatenate([before.over, (last if step == VALIDATE else updated).reshape(-1, ranks)])
        builder.link(read, over[-deal.iterations - 1 : -1].ravel())
        return Ends(computed, over)
    if feeding.store is not Store.DEVICE:
        earlier = np.concatenate([np.full((IN_FLIGHT, ranks), NONE), computed])[first : first + deal.iterations]
        builder.link(read, earlier.ravel())
    return Ends(computed, before.over)


def requests(count: Ints, workers: int) -> Ints:
    """Workers that hold one of `count` windows drawn at random, in expectation, rounded; 0 for no window."""
    return np.where(count > 0, np.maximum(np.rint(workers * (1 - (1 - 1 / workers) ** count)), 1), 0).astype(np.int64)


def _update(builder: Builder, workload: Workload, site: Columns, unit: Ints, backward: Ints, ranks: int) -> Ints:
    """All-reduce of the gradients with the count of readings, and the optimiser's step; on every rank, with windows or without."""
    parameters = workload.model.parameters
    ready = backward
    if ranks > 1:
        reduced: Columns = {"collective": unit, "bytes": parameters * FP32 + 2 * FP32}
        ready = builder.add(Op.ALLREDUCE, Lane.COMM, site, reduced, after=(backward,))
    moved: Columns = {"bytes": 7 * parameters * FP32, "rows": parameters, "flops": 10 * parameters}  # Adam reads four values, writes three
    return builder.add(Op.OPTIMIZE, Lane.COMPUTE, site, moved, after=(ready,))


def preparation(name: str, workload: Workload, ranks: int, feeding: Feeding) -> Schedule:
    """What happens once, before the first epoch: standardising, and bringing readings to where the strategy keeps them."""
    data, windows = workload.signal, workload.windows
    row = data.sensors * data.channels * data.itemsize
    copied, whole = windows.materialised_bytes(data.sensors, data.channels, data.itemsize), data.steps * row
    on_device = feeding.store is Store.DEVICE
    builder = Builder(name, ranks, whole if on_device else 0, "preparation", host_bytes(feeding, workload, ranks))
    site: Columns = {"rank": np.arange(ranks), "order": 0, "nodes": data.sensors, "width": data.channels}
    after: tuple[Ints, ...] = ()
    period = data.steps if workload.hyper.standardise == "series" else windows.training_steps
    if feeding.store in (Store.SPREAD, Store.PART):  # every rank reads its part of the period
        bounds = -(-period * np.arange(ranks + 1) // ranks)
        part: Columns = {"bytes": np.diff(bounds) * row, "rows": np.diff(bounds), "step": MEASURE if ranks > 1 else SETTLE}
        after = (builder.add(Op.MATERIALISE, Lane.HOST, site, part, where=np.full(ranks, feeding.store is Store.PART or ranks > 1)),)
        if ranks > 1:
            shared: Columns = {"collective": 0, "bytes": ranks * 3 * data.channels * FP64}
            after = (builder.add(Op.ALLREDUCE, Lane.COMM, site, shared, after=after),)
        if feeding.store is Store.PART:  # blocks are standardised as they are read
            return builder.finish()
    if on_device:
        after = (builder.add(Op.H2D, Lane.H2D, site, {"bytes": whole, "rows": data.steps}),)
    size = {Store.WINDOWS: copied, Store.SPREAD: copied // ranks}.get(feeding.store, whole)
    lane = Lane.COMPUTE if on_device else Lane.HOST
    builder.add(Op.MATERIALISE, lane, site, {"bytes": size, "rows": size // row, "step": SETTLE}, after=after)
    return builder.finish()
