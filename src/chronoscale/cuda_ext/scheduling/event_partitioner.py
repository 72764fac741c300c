"""One-pass partitioner of event streams: events go to parts block after block, each looked at once. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.native.arguments import INT32_LIMIT, cpu_library_or_warn
from chronoscale.cuda_ext.native.loader import require_success
from chronoscale.cuda_ext.reference import event_partitioner as event_partitioner_reference
from chronoscale.errors import UserError, unknown

Rule = Literal["attention", "average"]
RULES: tuple[Rule, ...] = get_args(Rule)
SHARED, UNSEEN = -1, -2  # in place of a node's part


@dataclass(frozen=True, slots=True, eq=False)
class EventPartitioner:
    """State of the native one-pass partitioner of event streams, carried from block to block of events. `start` makes it.

    It takes some 8 N P bytes, for N nodes and P parts, however long the stream. node int32 [N]: the node's part, SHARED, or UNSEEN before
    its first event. attention float64 [N, P], since float64 [N]: sums over a node's events in a part, times e^(decay * (since - time)).
    node_counts, events int64 [P]: nodes and events of a part. clock float64 [P]: the time of its last event (rule attention), the sum of
    its events' times (rule average).
    """

    rule: Rule
    decay: float
    node: NDArray[np.int32]
    attention: NDArray[np.float64]
    since: NDArray[np.float64]
    node_counts: NDArray[np.int64]
    events: NDArray[np.int64]
    clock: NDArray[np.float64]

    @classmethod
    def start(cls, shared: NDArray[np.bool_], parts: int, decay: float = 0.0, rule: Rule = "attention") -> EventPartitioner:
        """Start the native one-pass partitioner of an event stream: return its state before the first event.

        shared bool [N]: nodes that all parts have. decay: of attention, by the unit of the events' times.

        Rule attention (MemShare, section 3.2): an event with one shared end, and another that has a part, goes there; any other to
        argmax over parts p of [Att(u, t, p) + Att(v, t, p) + 1] · BN · BE · BT (eq. 10 to 15), the lowest of those that score alike,
        and its ends that have no part yet with it. ε of eq. 13 and 14, which the paper leaves open, is 1, the least by which counts
        differ; eq. 15 needs none: where all times are one BT is 1.

        Rule average (DisTGL, Fang et al., DASFAA 2024): in place of BN · BE · BT max(0, 1 - load / (1.5 · mean load)) · e^(-|average
        time - mean of all events| / mean), the average with this event in it.

        Raises UserError for an unknown rule, parts < 1, a mask of another kind, and a decay that is negative or not finite.
        """
        if rule not in RULES:
            raise unknown("rule", rule, RULES)
        if shared.dtype != np.bool_ or shared.ndim != 1 or not 1 <= parts < INT32_LIMIT or not (decay >= 0 and isfinite(decay)):
            raise UserError(
                f"streaming: shared {shared.dtype} {list(shared.shape)}, {parts} parts, decay={decay}; expected bool [N], at least one "
                "part, and a finite decay of at least 0"
            )
        node = np.where(shared, SHARED, UNSEEN).astype(np.int32)
        sums = np.zeros((len(shared), parts)), np.zeros(len(shared))
        return cls(rule, float(decay), node, *sums, np.zeros(parts, np.int64), np.zeros(parts, np.int64), np.zeros(parts))

    def assign(self, src: NDArray[np.int32], dst: NDArray[np.int32], time: NDArray[np.float64]) -> NDArray[np.int32]:
        """Deal the next events to parts natively: return the part of each, int32 [M], and remember them.

        src, dst int32 [M]; time float64 [M], counted from the stream's first event. Raises UserError for arrays of another kind, ids
        outside [0, N), and times that fall, are negative or not finite.
        """
        src, dst, time = np.ascontiguousarray(src), np.ascontiguousarray(dst), np.ascontiguousarray(time)
        columns: dict[str, NDArray[Any]] = {"src": src, "dst": dst, "time": time}
        fits = src.dtype == np.int32 and dst.dtype == np.int32 and time.dtype == np.float64 and src.ndim == 1
        if not fits or not src.shape == dst.shape == time.shape:
            received = ", ".join(f"{name} {column.dtype} {list(column.shape)}" for name, column in columns.items())
            raise UserError(f"streaming: {received}; expected int32 [M], int32 [M] and float64 [M]")
        if not len(src):
            return np.empty(0, np.int32)
        if min(src.min(), dst.min()) < 0 or max(src.max(), dst.max()) >= len(self.node):
            raise UserError(f"streaming: node ids must lie in [0, {len(self.node)})")
        if not np.isfinite(time).all() or time[0] < 0 or (time[1:] < time[:-1]).any():
            raise UserError("streaming: times must be finite, not negative, and never fall")
        part = np.empty(len(src), np.int32)
        if (library := cpu_library_or_warn("events are dealt to parts")) is None:
            event_partitioner_reference.assign(self, src, dst, time, part)
            return part
        state = (self.node, self.attention, self.since, self.node_counts, self.events, self.clock, part)
        status = library.cs_stream_parts(
            *(*self.attention.shape, len(src)),
            *(array.ctypes.data for array in columns.values()),
            *(self.rule == "average", self.decay),
            *(array.ctypes.data for array in state),
        )
        require_success("stream_parts", status)
        return part
