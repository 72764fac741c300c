"""One pass of a restreaming partitioner of event streams, which counts the rows that parts fetch. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.native.arguments import INT32_LIMIT, cpu_library_or_warn
from chronoscale.cuda_ext.native.loader import require_success
from chronoscale.cuda_ext.reference import restream as restream_reference
from chronoscale.errors import UserError

SHARED, UNSEEN = -1, -2  # in place of a node's part


@dataclass(frozen=True, slots=True)
class RestreamSettings:
    """Settings of how a restreaming partitioner weighs rows against balance.

    batch: events a part in a global batch. fanout: latest events of a node that a batch reads. node_bytes, event_bytes: of a node's row and
    of an event's features. pressure: rows (of both kinds) that a part is charged for each `batch` events that it has more than another.
    batch_slack: share by which a part's events of a global batch may exceed the parts' mean, rounded up; total_slack: by which its events
    so far may, and two more, unless `batch_slack` is less.

    Raises UserError for a batch or fan-out below 1, and for other numbers that are negative or not finite.
    """

    batch: int = 600
    fanout: int = 10
    node_bytes: float = 400.0
    event_bytes: float = 688.0
    pressure: float = 32.0
    batch_slack: float = 0.05
    total_slack: float = 0.02

    def __post_init__(self) -> None:
        for name in ("batch", "fanout"):
            if not 1 <= (count := getattr(self, name)) < INT32_LIMIT:
                raise UserError(f"restreaming: {name}={count}; expected at least 1")
        for name in ("node_bytes", "event_bytes", "pressure", "batch_slack", "total_slack"):
            if not ((number := getattr(self, name)) >= 0 and isfinite(number)):
                raise UserError(f"restreaming: {name}={number}; expected a finite number of at least 0")

    @property
    def charge(self) -> float:
        """Bytes that a part is charged for each event that it has more than another."""
        return self.pressure * (self.node_bytes + self.event_bytes) / self.batch


class FetchedRows(NamedTuple):
    """Rows that parts fetch from others, each once a batch: of nodes, and of events."""

    nodes: int
    events: int


@dataclass(frozen=True, slots=True, eq=False)
class RestreamPass:
    """State of one pass of the native restreaming partitioner over an event stream, carried from call to call. `start` makes it.

    It takes some N (12 fanout + 20 P) bytes, for N nodes and P parts, however long the stream. node int32 [N]: the node's part, SHARED, or
    UNSEEN before its first event; pull float64 [N, P]: bytes that later reads of one event of the node save in that part. recent int32 [N,
    fanout, 3]: other end, number and part of the latest events; degree int64 [N]: events so far. reads int32 [N, P]: batches in which a
    part reads the node's row; slots int64 [N, P]: recent events that a part reads for the node. load int64 [P]: events of a part.
    event_rows int64 [1]: rows of events fetched.
    """

    settings: RestreamSettings
    node: NDArray[np.int32]
    pull: NDArray[np.float64]
    recent: NDArray[np.int32]
    degree: NDArray[np.int64]
    reads: NDArray[np.int32]
    slots: NDArray[np.int64]
    load: NDArray[np.int64]
    event_rows: NDArray[np.int64]

    @classmethod
    def start(cls, node: NDArray[np.int32], pull: NDArray[np.float64], settings: RestreamSettings) -> RestreamPass:
        """Start a pass of the restreaming partitioner: return its state before the first event.

        node int32 [N]: the parts that nodes have, SHARED where all have one, UNSEEN where none has it yet: it goes with its first event.
        pull float64 [N, P]: as the pass before left it (`next_pull`), zeros in the first. Both are copied. Raises UserError for arrays of
        another kind, a node outside of the P >= 1 parts, and pulls that are not finite.
        """
        fits = node.dtype == np.int32 and node.ndim == 1 and pull.dtype == np.float64 and pull.ndim == 2
        if not fits or pull.shape[0] != node.size or not 1 <= pull.shape[1] < INT32_LIMIT:
            raise UserError(
                f"restreaming: node {node.dtype} {list(node.shape)}, pull {pull.dtype} {list(pull.shape)}; expected int32 [N] and "
                "float64 [N, P] of at least one part"
            )
        count, parts = pull.shape
        if count and not UNSEEN <= node.min() <= node.max() < parts:
            raise UserError(f"restreaming: parts of nodes must lie in [{UNSEEN}, {parts}), got {node.min()} to {node.max()}")
        if not np.isfinite(pull).all():
            raise UserError("restreaming: pulls must be finite")
        recent, degree = np.zeros((count, settings.fanout, 3), np.int32), np.zeros(count, np.int64)
        reads, slots = np.zeros((count, parts), np.int32), np.zeros((count, parts), np.int64)
        load, event_rows = np.zeros(parts, np.int64), np.zeros(1, np.int64)
        return cls(settings, node.copy(), np.array(pull, order="C"), recent, degree, reads, slots, load, event_rows)

    @property
    def parts(self) -> int:
        """Number of parts."""
        return int(self.pull.shape[1])

    def assign(self, src: NDArray[np.int32], dst: NDArray[np.int32]) -> NDArray[np.int32]:
        """Assign the next events to parts natively: return the part of each, int32 [M], and remember them.

        src, dst int32 [M]: whole global batches, but for the last call's last one. Of parts that have room in the batch an event goes where
        fewest bytes are fetched for it: rows that its ends and their recent events need and that the part neither has nor fetches for
        another event of the same node, less the ends' `pull`, plus `charge` for each event of the part; of equals to the part with fewest
        events, the lowest.

        Raises UserError for arrays of another kind, ids outside [0, N), events after a part of a batch, and 2^31 events or more.
        """
        src, dst = np.ascontiguousarray(src), np.ascontiguousarray(dst)
        if src.dtype != np.int32 or dst.dtype != np.int32 or src.ndim != 1 or src.shape != dst.shape:
            raise UserError(f"restreaming: src {src.dtype} {list(src.shape)}, dst {dst.dtype} {list(dst.shape)}; expected int32 [M] twice")
        part = np.empty(src.size, np.int32)
        if not src.size:
            return part
        if min(src.min(), dst.min()) < 0 or max(src.max(), dst.max()) >= self.node.size:
            raise UserError(f"restreaming: node ids must lie in [0, {self.node.size})")
        first, batch, settings = int(self.load.sum()), self.parts * self.settings.batch, self.settings
        if first % batch or first + src.size >= INT32_LIMIT:
            raise UserError(f"restreaming: {src.size} events after {first}; expected whole batches of {batch}, and below 2^31 events")
        if (library := cpu_library_or_warn("events are dealt to parts")) is None:
            restream_reference.assign(self, src, dst, part)
            return part
        state = (self.pull, self.node, self.recent, self.degree, self.reads, self.slots, self.load, self.event_rows, part)
        weights = (settings.node_bytes, settings.event_bytes, settings.charge, settings.batch_slack, settings.total_slack)
        sizes = (*self.pull.shape, settings.fanout, batch, first, src.size)
        status = library.cs_restream(*sizes, src.ctypes.data, dst.ctypes.data, *weights, *(array.ctypes.data for array in state))
        require_success("restream", status)
        return part

    def homes(self) -> NDArray[np.int32]:
        """Return the parts in which nodes' rows are fetched least, given where this pass has put the events, int32 [N]: those that read
        them in most batches, and of equals the one that the node has. SHARED and UNSEEN stay."""
        placed = np.flatnonzero(self.node >= 0)
        reads, node = self.reads[placed], self.node.copy()
        own = reads[np.arange(placed.size), node[placed]]
        node[placed] = np.where(own < reads.max(1, initial=0), reads.argmax(1), node[placed])
        return node

    def fetched(self, node: NDArray[np.int32]) -> FetchedRows:
        """Count the rows that parts fetch where nodes have the parts `node`, int32 [N], and events those that this pass gave them."""
        placed = np.flatnonzero(node >= 0)
        local = self.reads[placed, node[placed]]
        return FetchedRows(int(self.reads[placed].sum(dtype=np.int64) - local.sum(dtype=np.int64)), int(self.event_rows[0]))

    def next_pull(self) -> NDArray[np.float64]:
        """Return the pull of each part on a node's events in a further pass, float64 [N, P]: the bytes of an event times how often the part
        has read one of the node's."""
        pull: NDArray[np.float64] = self.settings.event_bytes * (self.slots / np.maximum(self.degree, 1)[:, None])
        return pull
