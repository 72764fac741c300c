"""Stores: where a strategy keeps a signal's readings, what a rank holds there, and the rows that bring a batch from there to the device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chronoscale.strategies.planning.builder import Builder, Columns
from chronoscale.strategies.schedule import Ints, Lane, Op
from chronoscale.strategies.workload import Workload

FP64 = 8
IN_FLIGHT = 2  # batches whose readings are held at once
MEASURE, SETTLE = 0, 1  # `step` of MATERIALISE in a preparation: moments of a part; standardise, and copy where windows are copied


class ReadingBytes(NamedTuple):
    """Bytes of a signal's readings as strategies store them: of one step, of all steps, of every window copied out (PGT-I eq. 1), of one
    array and an index of windows (eq. 2)."""

    row: int
    whole: int
    copied: int
    indexed: int

    @classmethod
    def of(cls, workload: Workload) -> ReadingBytes:
        """Return the bytes of a workload's readings. Raises UserError for another family or a series that is too short."""
        data, windows = workload.signal, workload.windows
        of_windows = (size(data.sensors, data.channels, data.itemsize) for size in (windows.materialised_bytes, windows.index_bytes))
        row = data.sensors * data.channels * data.itemsize
        return cls(row, data.steps * row, *of_windows)


@dataclass(frozen=True, slots=True, eq=False)
class WindowBatches:
    """Batches of an epoch on a signal, as planners need them: a site for each (batch, rank), rank by rank; `count` int64 [sites]: windows
    of each, 0 where a rank has none.

    site: the rows' columns rank, unit and so on. local: windows come from a fixed part of them for each rank.
    """

    workload: Workload
    ranks: int
    site: Columns
    count: Ints
    local: bool

    @property
    def there(self) -> NDArray[np.bool_]:
        """Mask of the sites (batch and rank) that have windows, bool [sites]."""
        return self.count > 0

    def readings(self, steps: Ints) -> Columns:
        """Return the work columns of planned rows that move the readings of so many time steps, int64 [sites]."""
        data = self.workload.signal
        return {"nodes": data.sensors, "rows": steps, "width": data.channels, "bytes": steps * ReadingBytes.of(self.workload).row}

    def windows(self) -> Columns:
        """Return the work columns of planned rows that move every window of a batch by itself, overlaps copied."""
        return self.readings(self.count * self.workload.windows.reach)


class Arrival(NamedTuple):
    """Planned rows that bring a batch to the device: handles of the one that reads first and of those that the forward pass waits for;
    `held`, device bytes allocated until the batch is over; int64 [sites]."""

    read: Ints
    after: tuple[Ints, ...]
    held: Ints


class Store(ABC):
    """Place where a strategy on signals keeps the readings, which knows how many bytes that takes and plans the rows that bring batches to
    the device.

    ahead: how many batches are read before the one that trains is over; 0: on demand, None: on the device, in the order of its stream.
    """

    name: str
    ahead: int | None = IN_FLIGHT

    @abstractmethod
    def host_bytes(self, workload: Workload, ranks: int) -> int:
        """Return the most that a rank holds in host memory, for plans (PGT-I eq. 1 and 2).

        as-published: Algorithm 1 standardises inputs into a new array (line 19) while the data as read are still there; index-batching,
        too, standardises into a new array while the file's one channel is there; and what goes to the device is loaded whole first.
        """

    def device_bytes(self, workload: Workload) -> int:
        """Return the bytes of readings that stay on the device throughout training, for plans."""
        return 0

    @abstractmethod
    def bring(self, builder: Builder, batches: WindowBatches) -> Arrival:
        """Add the rows that bring every batch of an epoch to the device to a plan; return their handles."""

    def prepare(self, builder: Builder, workload: Workload, site: Columns) -> None:
        """Add the rows of what happens once before the first epoch to a plan, on every rank (`site`): by default one array is standardised
        in host memory."""
        self.settle(builder, site, ReadingBytes.of(workload).whole, ReadingBytes.of(workload).row)

    def settle(self, builder: Builder, site: Columns, size: int, row: int, after: tuple[Ints, ...] = (), lane: Lane = Lane.HOST) -> None:
        """Add the row that standardises readings before the first epoch to a plan: `size` bytes, of `row` bytes a time step, on every rank
        (`site`)."""
        builder.add(Op.MATERIALISE, lane, site, {"bytes": size, "rows": size // row, "step": SETTLE}, after=after)


def follows_published(workload: Workload) -> bool:
    """Return whether a plan on a signal counts memory as the published code takes it (variant as-published)."""
    return workload.hyper.variant == "as-published"


def add_moments(builder: Builder, workload: Workload, site: Columns, alone: bool) -> tuple[Ints, ...]:
    """Add to a plan's preparation the rows that compute a signal's mean and deviation, each rank's of its part of the period, and
    all-reduce them; return their handles.

    site: columns of a row on every rank. alone: whether a single rank, too, reads the period.
    """
    data, row = workload.signal, ReadingBytes.of(workload).row
    period = data.steps if workload.hyper.standardise == "series" else workload.windows.training_steps
    ranks = builder.ranks
    read = np.diff(-(-period * np.arange(ranks + 1) // ranks))
    part: Columns = {"bytes": read * row, "rows": read, "step": MEASURE if ranks > 1 else SETTLE}
    after = builder.add(Op.MATERIALISE, Lane.HOST, site, part, where=np.full(ranks, alone or ranks > 1))
    if ranks > 1:
        shared: Columns = {"collective": 0, "bytes": ranks * 3 * data.channels * FP64}
        after = builder.add(Op.ALLREDUCE, Lane.COMM, site, shared, after=(after,))
    return (after,)


def add_window_transfer(builder: Builder, batches: WindowBatches, read: Ints) -> Arrival:
    """Add to a plan on a signal the rows that copy batches of windows from host to device.

    batches: of all ranks and steps; one of them on one rank is a site. read: for each site the handle of the row that gathers its windows
    on the host, which the copy waits for, int64 [sites].
    """
    windows = batches.windows()
    sent = builder.add(Op.H2D, Lane.H2D, batches.site, windows, {"alloc": windows["bytes"]}, where=batches.there, after=(read,))
    return Arrival(read, (sent,), np.asarray(windows["bytes"], np.int64))


class HostStore(Store):
    """Store of a signal's readings in host memory: windows are gathered there, then copied to the device."""

    def bring(self, builder: Builder, batches: WindowBatches) -> Arrival:
        read = builder.add(Op.GATHER, Lane.HOST, batches.site, batches.windows(), where=batches.there)
        return add_window_transfer(builder, batches, read)


class WindowStore(HostStore):
    """Store of a signal's windows, every one copied out, in host memory (PyTorch Geometric Temporal's way, PGT-I eq. 1)."""

    name = "windows"

    def host_bytes(self, workload: Workload, ranks: int) -> int:
        sizes, windows = ReadingBytes.of(workload), workload.windows
        inputs = sizes.copied * windows.window // windows.reach
        return sizes.copied + (inputs + sizes.whole if follows_published(workload) else 0)

    def prepare(self, builder: Builder, workload: Workload, site: Columns) -> None:
        self.settle(builder, site, ReadingBytes.of(workload).copied, ReadingBytes.of(workload).row)


class ArrayStore(HostStore):
    """Store of a signal as one array in host memory, from which windows are gathered by start index (PGT-I's index-batching, eq. 2)."""

    name = "array"

    def host_bytes(self, workload: Workload, ranks: int) -> int:
        data, sizes = workload.signal, ReadingBytes.of(workload)
        return sizes.indexed + (sizes.whole + data.steps * data.sensors * data.itemsize if follows_published(workload) else 0)


class DeviceStore(Store):
    """Store of a signal as one array on the device, where windows are gathered (PGT-I's GPU-index-batching)."""

    name = "device"
    ahead = None

    def host_bytes(self, workload: Workload, ranks: int) -> int:
        return ReadingBytes.of(workload).indexed if follows_published(workload) else 8 * len(workload.windows)

    def device_bytes(self, workload: Workload) -> int:
        return ReadingBytes.of(workload).whole

    def bring(self, builder: Builder, batches: WindowBatches) -> Arrival:
        windows = batches.windows()
        memory: Columns = {"alloc": windows["bytes"], "kernels": 2}  # the steps' numbers go to the device first
        read = builder.add(Op.GATHER, Lane.COMPUTE, batches.site, windows, memory, where=batches.there)
        return Arrival(read, (), np.asarray(windows["bytes"], np.int64))

    def prepare(self, builder: Builder, workload: Workload, site: Columns) -> None:
        sizes = ReadingBytes.of(workload)
        sent = builder.add(Op.H2D, Lane.H2D, site, {"bytes": sizes.whole, "rows": workload.signal.steps})
        self.settle(builder, site, sizes.whole, sizes.row, (sent,), Lane.COMPUTE)


class EngineStore(Store):
    """Store of a signal's windows, every one copied out, spread over all ranks by a data engine such as Dask: fetched through it, then
    copied to the device."""

    name = "spread"
    ahead = 0

    def host_bytes(self, workload: Workload, ranks: int) -> int:
        return -(-ReadingBytes.of(workload).copied // ranks)

    def bring(self, builder: Builder, batches: WindowBatches) -> Arrival:
        own = np.minimum(batches.count, 1) if batches.local else expected_workers(batches.count, batches.ranks)
        request_counts: Columns = {"nodes": own, "edges": own.reshape(-1, batches.ranks).sum(1).repeat(batches.ranks)}
        read = builder.add(Op.FETCH, Lane.COMM, batches.site, batches.windows(), request_counts, where=batches.there)
        return add_window_transfer(builder, batches, read)

    def prepare(self, builder: Builder, workload: Workload, site: Columns) -> None:
        sizes, after = ReadingBytes.of(workload), add_moments(builder, workload, site, alone=False)
        self.settle(builder, site, sizes.copied // builder.ranks, sizes.row, after)


class PartStore(Store):
    """Store of a part of a signal's array on each rank, in a mapped file (PGT-I §5.4): one block is fetched, copied to the device, and
    windows are cut out there."""

    name = "part"

    def host_bytes(self, workload: Workload, ranks: int) -> int:
        windows = workload.windows
        block = min(workload.hyper.batch_size, len(windows.train)) + windows.reach - 1
        return IN_FLIGHT * block * ReadingBytes.of(workload).row + 8 * len(windows)

    def bring(self, builder: Builder, batches: WindowBatches) -> Arrival:
        block = batches.readings(batches.count + batches.workload.windows.reach - 1)
        windows = batches.windows()
        read = builder.add(Op.FETCH, Lane.HOST, batches.site, block, where=batches.there)
        sent = builder.add(Op.H2D, Lane.H2D, batches.site, block, {"alloc": block["bytes"]}, where=batches.there, after=(read,))
        cut: Columns = {"alloc": windows["bytes"], "kernels": 1}
        builder.add(Op.GATHER, Lane.COMPUTE, batches.site, windows, cut, where=batches.there, after=(sent,))
        return Arrival(read, (), np.asarray(windows["bytes"], np.int64) + np.asarray(block["bytes"], np.int64))

    def prepare(self, builder: Builder, workload: Workload, site: Columns) -> None:
        add_moments(builder, workload, site, alone=True)  # blocks are standardised as they are read


def expected_workers(count: Ints, workers: int) -> Ints:
    """Return on how many of a data engine's `workers` the windows of a batch lie, for plans: in expectation over `count` windows drawn at
    random, int64, rounded; 0 for no window."""
    return np.where(count > 0, np.maximum(np.rint(workers * (1 - (1 - 1 / workers) ** count)), 1), 0).astype(np.int64)


WINDOWS = WindowStore()
ARRAY = ArrayStore()
DEVICE = DeviceStore()
SPREAD = EngineStore()
PART = PartStore()
STORES: Mapping[str, Store] = {store.name: store for store in (WINDOWS, ARRAY, DEVICE, SPREAD, PART)}
