"""Container of spatio-temporal data: a signal on the nodes of a static graph."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from chronoscale.datasets.account import Account
from chronoscale.datasets.arrays import Bool, Float32, Float64, Int32, Int64, release, require, require_finite, require_ids
from chronoscale.datasets.node_names import Names, require_names
from chronoscale.errors import UserError

SCAN_BYTES = 1 << 26


@dataclass(frozen=True, slots=True, eq=False)
class Signal:
    """Signal, a dataset of the family signals: readings of C channels at N nodes of a static graph, in T steps.

    values float32 or float64 [T, N, C]; edge_index int32 [2, E] (sources, destinations); edge_weight float32 [E] or None; missing bool [T,
    N, C] or None, True where there is no reading (the value there means nothing and may be NaN); node_ids int64 [N] or None (ids in the
    source); node_names [N], text, or None (what the source calls its sensors); times int64 [T], of each step, in order, ns since 1970 as
    the source's clock shows it, or None. Channels are values, of which the first is what models predict, and after them `calendar`
    channels that tell the time (`datasets.signals.calendar` adds them).

    Arrays may be memory-mapped. verified: the values were checked when they were written and are not read again. account: how it was read.

    Raises UserError for ids out of range, for values that are not finite where a reading is claimed, and where no channel is a value.
    """

    values: Float32 | Float64
    edge_index: Int32
    edge_weight: Float32 | None = None
    missing: Bool | None = None
    node_ids: Int64 | None = None
    name: str = ""
    verified: bool = False
    account: Account = field(default_factory=dict)
    calendar: int = 0
    node_names: Names | None = None
    times: Int64 | None = None

    def __post_init__(self) -> None:
        require(self.values, "Signal.values", "float32 float64", (None, None, None))
        require(self.edge_index, "Signal.edge_index", "int32", (2, None))
        require(self.edge_weight, "Signal.edge_weight", "float32", (self.edge_index.shape[1],))
        require(self.missing, "Signal.missing", "bool", self.values.shape)
        require(self.node_ids, "Signal.node_ids", "int64", (self.num_nodes,))
        require_names(self.node_names, "Signal.node_names", self.num_nodes)
        require(self.times, "Signal.times", "int64", (len(self),))
        require_ids(self.edge_index.ravel(), "Signal.edge_index", self.num_nodes)
        require_finite(self.edge_weight, "Signal.edge_weight")
        if not 0 <= self.calendar < max(self.num_channels, 1):
            raise UserError(f"Signal.calendar: {self.calendar} of {self.num_channels} channels; at least one is a value")
        if not self.verified:
            self.verify()

    @classmethod
    def from_readings(
        cls,
        values: Float32 | Float64,
        edge_index: Int32,
        edge_weight: Float32 | None = None,
        node_ids: Int64 | None = None,
        name: str = "",
        account: Account | None = None,
    ) -> Signal:
        """Build a signal from values [T, N, C] in which NaN is a missing reading. Raises UserError as the constructor does.

        edge_index int32 [2, E], edge_weight float32 [E]: the sensors' graph; node_ids int64 [N]: ids in the source; account: how it was
        read.
        """
        absent = np.isnan(values)
        return cls(values, edge_index, edge_weight, absent if absent.any() else None, node_ids, name, account=account or {})

    def verify(self) -> None:
        """Check all values, read in blocks of SCAN_BYTES. Raises UserError for the first that is neither finite nor marked as missing."""
        row = self.values[:1].nbytes
        size = max(SCAN_BYTES // max(row, 1), 1)
        for begin in range(0, len(self), size):
            wrong = ~np.isfinite(self.values[begin : begin + size])
            if self.missing is not None:
                wrong &= ~self.missing[begin : begin + size]
            if wrong.any():
                t, node, channel = (int(i) for i in np.argwhere(wrong)[0])
                raise UserError(f"Signal.values[{begin + t}, {node}, {channel}]: not finite and not marked as missing")

    def release(self) -> None:
        """Give the memory of the readings' pages back to the system, where they are mapped from a file (`arrays.release`)."""
        release(self.values)
        release(self.missing)

    def mark_missing(self, null: float) -> Signal:
        """Return the signal with the readings of channel 0 that equal `null` marked as missing: METR-LA, for one, has 0 where a sensor was
        silent.

        Other channels stay as they are: a time of day may well be 0.
        """
        absent = np.zeros(self.values.shape, np.bool_)
        absent[:, :, 0] = self.values[:, :, 0] == null
        return replace(self, missing=absent if self.missing is None else np.asarray(absent | self.missing))

    def __len__(self) -> int:
        return int(self.values.shape[0])

    @property
    def num_nodes(self) -> int:
        return int(self.values.shape[1])

    @property
    def num_channels(self) -> int:
        return int(self.values.shape[2])

    @property
    def absent(self) -> Int64:
        """Number of missing readings of each node and channel, int64 [N, C]; counted in blocks of SCAN_BYTES."""
        count = np.zeros(self.values.shape[1:], np.int64)
        if self.missing is not None:
            size = max(SCAN_BYTES // max(count.size, 1), 1)
            for begin in range(0, len(self), size):
                count += np.count_nonzero(self.missing[begin : begin + size], axis=0)
                release(self.missing)
        return count

    @property
    def missing_count(self) -> int:
        """Number of missing readings in the whole signal."""
        return int(self.absent.sum())

    @property
    def readings(self) -> int:
        """Number of readings that the signal has room for: of its values, without the channels that tell the time, which are never
        missing."""
        return len(self) * self.num_nodes * (self.num_channels - self.calendar)

    @property
    def dead_sensors(self) -> Int64:
        """Nodes where some channel has not a single reading, int64, ascending. Channels of the calendar are never missing, so that they do
        not make up for one without readings."""
        return np.flatnonzero((self.absent == max(len(self), 1)).any(1)).astype(np.int64)
