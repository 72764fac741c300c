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
    """Bytes of readings: of one step, of all steps, of every window copied out (PGT-I eq. 1), of one array and an index (eq. 2)."""

    row: int
    whole: int
    copied: int
    indexed: int

    @classmethod
    def of(cls, workload: Workload) -> ReadingBytes:
        """Return the bytes of a workload. Raises UserError for another family or a series that is too short."""
        data, windows = workload.signal, workload.windows
        of_windows = (size(data.sensors, data.channels, data.itemsize) for size in (windows.materialised_bytes, windows.index_bytes))
        row = data.sensors * data.channels * data.itemsize
        return cls(row, data.steps * row, *of_windows)


@dataclass(frozen=True, slots=True, eq=False)
class WindowBatches:
    """The batches of an epoch, one site for each (batch, rank), rank by rank; `count` int64 [sites]: windows of each, 0 where a rank has
    none.

    local: they come from a fixed part of the windows a rank.
    """

    workload: Workload
    ranks: int
    site: Columns
    count: Ints
    local: bool

    @property
    def there(self) -> NDArray[np.bool_]:
        """Whether a site has windows, bool [sites]."""
        return self.count > 0

    def readings(self, steps: Ints) -> Columns:
        """Return the work columns of rows that move so many steps' readings, int64 [sites]."""
        data = self.workload.signal
        return {"nodes": data.sensors, "rows": steps, "width": data.channels, "bytes": steps * ReadingBytes.of(self.workload).row}

    def windows(self) -> Columns:
        """Return the work columns of rows that move every window of a batch by itself."""
        return self.readings(self.count * self.workload.windows.reach)


class Arrival(NamedTuple):
    """How a batch arrives: handles of the row that reads first and of those that the forward pass waits for; device bytes held until the
    batch is over; int64 [sites]."""

    read: Ints
    after: tuple[Ints, ...]
    held: Ints


class Store(ABC):
    """A place where a signal's readings lie, which knows its memory and the rows that bring a batch from there to the device.

    ahead: how many batches are read before the one that trains is over; 0: on demand, None: on the device, in the order of its stream.
    """

    name: str
    ahead: int | None = IN_FLIGHT

    @abstractmethod
    def host_bytes(self, workload: Workload, ranks: int) -> int:
        """Return the most that a rank holds in host memory (PGT-I eq. 1 and 2).

        as-published: Algorithm 1 standardises inputs into a new array (line 19) while the data as read are still there; index-batching,
        too, standardises into a new array while the file's one channel is there; and what goes to the device is loaded whole first.
        """

    def device_bytes(self, workload: Workload) -> int:
        """Return the bytes that stay on the device from the preparation on."""
        return 0

    @abstractmethod
    def bring(self, builder: Builder, batches: WindowBatches) -> Arrival:
        """Add the rows that bring every batch to the device."""

    def prepare(self, builder: Builder, workload: Workload, site: Columns) -> None:
        """Add the rows of the preparation, a site a rank: by default one array is standardised in host memory."""
        self.settle(builder, site, ReadingBytes.of(workload).whole, ReadingBytes.of(workload).row)

    def settle(self, builder: Builder, site: Columns, size: int, row: int, after: tuple[Ints, ...] = (), lane: Lane = Lane.HOST) -> None:
        """Add the row that standardises `size` bytes of readings, `row` bytes a step."""
        builder.add(Op.MATERIALISE, lane, site, {"bytes": size, "rows": size // row, "step": SETTLE}, after=after)


def follows_published(workload: Workload) -> bool:
    """Return whether memory is taken as the published code takes it."""
    return workload.hyper.variant == "as-published"


def add_moments(builder: Builder, workload: Workload, site: Columns, alone: bool) -> tuple[Ints, ...]:
    """Add the rows that compute the moments which standardise, of each rank's part of the period, and all-reduce them; return their
    handles.

    alone: on one rank it reads the whole period, too.
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
    """Add the H2D rows of windows that `read` has read."""
    windows = batches.windows()
    sent = builder.add(Op.H2D, Lane.H2D, batches.site, windows, {"alloc": windows["bytes"]}, where=batches.there, after=(read,))
    return Arrival(read, (sent,), np.asarray(windows["bytes"], np.int64))


class HostStore(Store):
    """A store in host memory: GATHER, then H2D."""

    def bring(self, builder: Builder, batches: WindowBatches) -> Arrival:
        read = builder.add(Op.GATHER, Lane.HOST, batches.site, batches.windows(), where=batches.there)
        return add_window_transfer(builder, batches, read)


class WindowStore(HostStore):
    """A store of every window copied out, in host memory."""

    name = "windows"

    def host_bytes(self, workload: Workload, ranks: int) -> int:
        sizes, windows = ReadingBytes.of(workload), workload.windows
        inputs = sizes.copied * windows.window // windows.reach
        return sizes.copied + (inputs + sizes.whole if follows_published(workload) else 0)

    def prepare(self, builder: Builder, workload: Workload, site: Columns) -> None:
        self.settle(builder, site, ReadingBytes.of(workload).copied, ReadingBytes.of(workload).row)


class ArrayStore(HostStore):
    """A store of one array in host memory, from which windows are gathered by start index."""

    name = "array"

    def host_bytes(self, workload: Workload, ranks: int) -> int:
        data, sizes = workload.signal, ReadingBytes.of(workload)
        return sizes.indexed + (sizes.whole + data.steps * data.sensors * data.itemsize if follows_published(workload) else 0)


class DeviceStore(Store):
    """A store of one array on the device: GATHER there."""

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
    """A store of every window copied out, spread over the workers of a data engine: FETCH through it, then H2D."""

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
    """A store of a mapped part of the array on each rank: FETCH one block, H2D, then windows are cut out on the device."""

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
    """Return how many workers hold one of `count` windows drawn at random, in expectation, rounded; 0 for no window."""
    return np.where(count > 0, np.maximum(np.rint(workers * (1 - (1 - 1 / workers) ** count)), 1), 0).astype(np.int64)


WINDOWS = WindowStore()
ARRAY = ArrayStore()
DEVICE = DeviceStore()
SPREAD = EngineStore()
PART = PartStore()
STORES: Mapping[str, Store] = {store.name: store for store in (WINDOWS, ARRAY, DEVICE, SPREAD, PART)}
