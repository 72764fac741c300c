"""Batches: windows dealt to ranks, lowered to schedule rows. PGT-I's strategies and its baselines differ in how a batch reaches the device.

Rows follow SCHEDULES.md, "Signals". A unit is a batch: training batches first (step 0), then those that validate (step 1).
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import ArrayLike

from chronoscale.datasets.windows import Deal, Windows
from chronoscale.strategies.builder import NONE, Builder, Columns
from chronoscale.strategies.forecasters import forward_bytes, forward_flops, saved_bytes
from chronoscale.strategies.rows import FP32
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.workload import Hyper, Workload

LOCAL = frozenset({"gen-dist-index", "ddp-batch"})  # each rank keeps its part; whole batches are shuffled in it (PGT-I §5.4)
FP64, COUNT = 8, 8  # bytes of a sum or moment, of a number of readings
AHEAD = 2  # batches in flight at most where the next one is prefetched
ERRORS = 5  # sums and counts of a validation's errors
MOMENTS = 3  # a channel's count, mean and sum of squares


class Supply(Enum):
    """How a batch of windows reaches a rank's device."""

    HOST = "gathered in host memory, prefetched"
    DEVICE = "cut on the device from the whole series"
    ENGINE = "fetched from the workers of a data engine, when it is needed"
    BLOCK = "read as one block of consecutive steps, prefetched, and cut on the device"


def deals(windows: Windows, hyper: Hyper, ranks: int, strategy_name: str) -> tuple[Deal, Deal | None]:
    """How an epoch deals training and validation windows (None: not asked for, or there are none): what is planned is what is executed.

    Raises UserError for 0 ranks.
    """
    local = strategy_name in LOCAL
    training = Deal(windows.train, ranks, hyper.batch_size, local, seed=hyper.seed, limit=hyper.batches)
    if not hyper.validate or not windows.validation:
        return training, None
    return training, Deal(windows.validation, ranks, hyper.batch_size, local, shuffled=False, limit=hyper.batches)


def step_bytes(workload: Workload) -> int:
    """Bytes of one time step of a signal."""
    return workload.signal.sensors * workload.signal.channels * workload.signal.itemsize


def series_bytes(workload: Workload) -> int:
    """Bytes of the whole signal, once."""
    return workload.signal.steps * step_bytes(workload)


def materialised_bytes(workload: Workload) -> int:
    """Bytes of all windows copied out (PGT-I eq. 1)."""
    return workload.windows.materialised_bytes(workload.signal.sensors, workload.signal.channels, workload.signal.itemsize)


def preparation(name: str, workload: Workload, ranks: int, host: int) -> tuple[Builder, Columns]:
    """What rows of `prepare` are added to, and the columns that place one on every rank."""
    return Builder(name, ranks, _states(workload), "preparation", host), {"rank": np.arange(ranks), "order": 0}


def share_moments(builder: Builder, site: Columns, workload: Workload, after: tuple[Ints, ...] = ()) -> tuple[Ints, ...]:
    """All ranks add up the moments of their parts (none for one rank): the scaler is the same everywhere."""
    if builder.ranks == 1:
        return ()
    moved = {"bytes": MOMENTS * workload.signal.channels * FP64, "collective": 0}
    return (builder.add(Op.ALLREDUCE, Lane.COMM, site, moved, after=after),)


def requests(windows: Ints, workers: int) -> Ints:
    """Workers that hold one of `windows` windows (int64, any shape) spread at random over `workers`: expected, rounded, at least 1."""
    met = workers * (1 - (1 - 1 / workers) ** windows.astype(np.float64))
    return np.asarray(np.where(windows > 0, np.maximum(np.rint(met), 1), 0), np.int64)


def epoch(name: str, workload: Workload, ranks: int, supply: Supply, host: int) -> Schedule:
    """One epoch of data-parallel training. `host`: bytes that a rank holds in host memory at most.

    Raises UserError for a workload that is not a signal, 0 ranks, or a series shorter than a window.
    """
    training, validation = deals(workload.windows, workload.hyper, ranks, name)
    sizes = training.sizes() if validation is None else np.concatenate([training.sizes(), validation.sizes()])
    resident = _states(workload) + (series_bytes(workload) if supply is Supply.DEVICE else 0)
    return _Epoch(Builder(name, ranks, resident, "windows", host), workload, sizes, training.iterations, supply).lower(name in LOCAL)


def _states(workload: Workload) -> int:
    return 4 * workload.model.parameters * FP32  # values, gradients, Adam's two moments


class _Epoch:
    """All batches of all ranks at once: a site is a batch and a rank. `sizes` int64 [batches, ranks]; the first `iterations` train."""

    def __init__(self, builder: Builder, workload: Workload, sizes: Ints, iterations: int, supply: Supply) -> None:
        self.builder, self.workload, self.supply = builder, workload, supply
        self.ranks, self.units, self.iterations = builder.ranks, len(sizes), iterations
        self.sizes, self.b = sizes, sizes.ravel()
        self.unit, rank = np.repeat(np.arange(self.units), self.ranks), np.tile(np.arange(self.ranks), self.units)
        self.trains, self.busy = self.unit < iterations, self.b > 0
        site = {"rank": rank, "order": self.unit, "unit": self.unit, "step": ~self.trains}
        self.site: Columns = {**site, "iteration": np.minimum(self.unit, iterations - 1)}

    def lower(self, local: bool) -> Schedule:
        """All rows; `local`: a batch lies on one worker."""
        first, ready, held = self._supplied(local)
        last, trained = self._computed(ready, held)
        if self.supply is Supply.ENGINE:
            self.builder.link(first, self._before(np.where(self.trains, trained, last), 1))
        elif self.supply is not Supply.DEVICE:
            self.builder.link(first, self._before(last, AHEAD))
        if self.units > self.iterations and self.ranks > 1:
            self._judged(last)
        return self.builder.finish()

    def _add(self, op: Op, lane: Lane, columns: Columns, after: tuple[Ints, ...] = ()) -> Ints:
        return self.builder.add(op, lane, self.site, columns, where=self.busy, after=after)

    def _supplied(self, local: bool) -> tuple[Ints, Ints, Ints]:
        """Rows up to the batch on the device: handles of the first, and of the one that computing waits for; bytes allocated, by site."""
        reach, step, width = self.workload.windows.reach, step_bytes(self.workload), self.workload.signal.channels
        batch: dict[str, ArrayLike] = {"rows": self.b * reach, "bytes": self.b * reach * step}
        held = self.b * reach * step
        if self.supply is Supply.DEVICE:
            first = self._add(Op.GATHER, Lane.COMPUTE, {**batch, "width": width, "alloc": held})
            return first, np.full_like(first, NONE), held
        if self.supply is Supply.BLOCK:
            steps = self.b + reach - 1
            block = {"rows": steps, "bytes": steps * step}
            first = self._add(Op.FETCH, Lane.HOST, block)
            ready = self._add(Op.H2D, Lane.H2D, {**block, "alloc": steps * step}, (first,))
            cut = self._add(Op.GATHER, Lane.COMPUTE, {**batch, "width": width, "alloc": held}, (ready,))
            return first, np.full_like(cut, NONE), held + steps * step
        if self.supply is Supply.ENGINE:
            asked = np.minimum(self.sizes, 1) if local else requests(self.sizes, self.ranks)
            served = np.repeat(asked.sum(1), self.ranks)
            first = self._add(Op.FETCH, Lane.COMM, {**batch, "nodes": asked.ravel(), "edges": served})
        else:
            first = self._add(Op.GATHER, Lane.HOST, {**batch, "width": width})
        return first, self._add(Op.H2D, Lane.H2D, {**batch, "alloc": held}, (first,)), held

    def _computed(self, ready: Ints, held: Ints) -> tuple[Ints, Ints]:
        """Forward and backward pass, gradients and update; handles of a batch's last pass and of its update, by site."""
        signal, hyper, model = self.workload.signal, self.workload.hyper, self.workload.model
        asked = model, signal.sensors, signal.edges, self.b, hyper.window, hyper.horizon
        flops, moved, saved = forward_flops(*asked), forward_bytes(*asked), saved_bytes(*asked)
        graph: dict[str, ArrayLike] = {
            "nodes": signal.sensors,
            "edges": signal.edges,
            "rows": self.b * signal.sensors,
            "width": model.hidden,
        }
        done = held + saved
        forward: Columns = {**graph, "flops": flops, "bytes": moved, "alloc": saved, "free": done * ~self.trains}
        last = self._add(Op.FORWARD, Lane.COMPUTE, forward, (ready,))
        backward: Columns = {**graph, "flops": 2 * flops, "bytes": 2 * moved, "free": done}
        learnt = self.builder.add(Op.BACKWARD, Lane.COMPUTE, self.site, backward, where=self.busy & self.trains)
        reduced: tuple[Ints, ...] = ()
        if self.ranks > 1:  # gradients and the number of readings that they are of, summed
            sums: Columns = {"collective": self.unit, "bytes": model.parameters * FP32 + COUNT}
            reduced = (self.builder.add(Op.ALLREDUCE, Lane.COMM, self.site, sums, where=self.trains, after=(learnt,)),)
        size = model.parameters
        update = {"bytes": 7 * size * FP32, "rows": size, "flops": 10 * size}  # Adam: reads four, writes three
        stepped = self.builder.add(Op.OPTIMIZE, Lane.COMPUTE, self.site, update, where=self.trains, after=reduced)
        return np.where(self.trains, learnt, last), stepped

    def _before(self, handles: Ints, batches: int) -> Ints:
        """What a rank had `batches` batches earlier."""
        earlier = np.full_like(handles, NONE)
        earlier[batches * self.ranks :] = handles[: -batches * self.ranks]
        return earlier

    def _judged(self, last: Ints) -> None:
        """Errors of the validation windows, summed over ranks."""
        rank, end = np.arange(self.ranks), last.reshape(self.units, self.ranks)[self.iterations :].max(0)
        site: Columns = {"rank": rank, "order": self.units, "unit": self.units, "step": 1, "iteration": self.iterations - 1}
        self.builder.add(Op.ALLREDUCE, Lane.COMM, site, {"collective": self.units, "bytes": ERRORS * FP64}, after=(end,))
