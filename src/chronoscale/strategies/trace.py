"""Trace: when every row of a schedule started and ended, executed or simulated."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from chronoscale.datasets.arrays import Int32, UInt8
from chronoscale.records import reading
from chronoscale.strategies import columnar
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule


class Source(IntEnum):
    """Origin of a duration: a clock, a fitted curve, a datasheet, a paper, or a curve beyond its measurements; every duration of a trace
    has one."""

    MEASURED = 0
    FITTED = 1
    SPECIFIED = 2
    PUBLISHED = 3
    EXTRAPOLATED = 4


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Times of one epoch's operations, executed or simulated: when each row of a schedule started and ended, in row order. `task` is the
    row's number in its schedule; times are ns from a common zero. clock_ns: by how much times of ranks on two machines may be misplaced
    against each other, since each has a clock of its own; 0 on one machine, and simulated.

    A collective starts, for every rank, when its last rank arrives: waiting is not part of its duration.
    """

    strategy: str
    ranks: int
    device: str
    task: Ints
    rank: Int32
    lane: UInt8
    op: UInt8
    start_ns: Ints
    end_ns: Ints
    bytes: Ints
    source: UInt8
    clock_ns: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        columnar.check(f"trace of '{self.strategy}':", self, TRACE_COLUMNS)
        if len(self) and (self.rank.min() < 0 or self.rank.max() >= self.ranks or self.task.min() < 0):
            raise ValueError(f"trace of '{self.strategy}': rank outside 0..{self.ranks - 1}, or a task below 0")
        if len(self) and (self.op.max() > max(Op) or self.lane.max() > max(Lane) or self.source.max() > max(Source)):
            raise ValueError(f"trace of '{self.strategy}': unknown op, lane or source")
        if (self.end_ns < self.start_ns).any():
            raise ValueError(f"trace of '{self.strategy}': a task ends before it starts")

    @classmethod
    def of(cls, schedule: Schedule, start_ns: Ints, end_ns: Ints, source: UInt8, device: str) -> Trace:
        """Return a trace of every row of `schedule`, from its times; start and end int64 [rows] ns, source uint8 [rows] (where durations
        come from). device: what ran it, in words."""
        task = np.arange(len(schedule))
        return cls(
            schedule.name, schedule.ranks, device, task, schedule.rank, schedule.lane, schedule.op, start_ns, end_ns, schedule.bytes, source
        )

    @classmethod
    def untimed(cls, schedule: Schedule, device: str) -> Trace:
        """Return a trace without entries, of a pass over `schedule` that was executed and whose times mean nothing."""
        columns: dict[str, Any] = {name: np.empty(0, kind) for name, kind in TRACE_COLUMNS.items()}
        return cls(schedule.name, schedule.ranks, device, **columns)

    def __len__(self) -> int:
        return len(self.task)

    @property
    def device_name(self) -> str:
        """The name of the device alone, without the cluster and the costs that `device` names where it was simulated."""
        return re.sub(r" \([^()]*\), costs: .*", "", self.device, flags=re.DOTALL)

    @property
    def duration_ns(self) -> Ints:
        """The duration of each row that ran, int64 [entries] ns."""
        return self.end_ns - self.start_ns

    @property
    def span_ns(self) -> int:
        """How long the epoch took: first start to last end, ns; 0 for an empty trace."""
        return int(self.end_ns.max() - self.start_ns.min()) if len(self) else 0

    @property
    def sources(self) -> tuple[str, ...]:
        """Where the durations in this trace come from, in words: "measured", "fitted" ..."""
        return tuple(Source(value).name.lower() for value in np.unique(self.source))

    def fold(self, stands: Ints) -> Trace:
        """Return the trace with each set of a schedule's rows that ran as one CUDA graph folded into one entry, `Op.GRAPH`, from the first
        start to the last end.

        stands: int64 [entries], for each entry the number of the row that stands for its graph and whose place the folded entry takes; -1
        for a row by itself.
        """
        own = np.flatnonzero(stands >= 0)
        _, first, of = np.unique(stands[own], return_index=True, return_inverse=True)
        start, end = self.start_ns[own][first], self.end_ns[own][first]
        np.minimum.at(start, of, self.start_ns[own])
        np.maximum.at(end, of, self.end_ns[own])
        standing = own[self.task[own] == stands[own]]
        at = of[self.task[own] == stands[own]]
        columns = {name: getattr(self, name).copy() for name in ("op", "lane", "start_ns", "end_ns")}
        columns["op"][standing], columns["lane"][standing] = Op.GRAPH, Lane.COMPUTE
        columns["start_ns"][standing], columns["end_ns"][standing] = start[at], end[at]
        return replace(self, **columns).take(np.flatnonzero((stands < 0) | (stands == self.task)))

    def take(self, rows: Ints) -> Trace:
        """Return the entries at the given positions of the trace."""
        return replace(self, **{name: getattr(self, name)[rows] for name in TRACE_COLUMNS})

    def save(self, path: Path) -> None:
        """Write the trace as Parquet, one column each; strategy, ranks and device are the file's metadata."""
        columnar.save(path, self, TRACE_COLUMNS)

    @classmethod
    def load(cls, path: Path) -> Trace:
        """Read a Parquet file that `save` wrote. Raises UserError when it is missing, truncated or not a trace."""
        with reading(path, "trace"):
            return cls(**columnar.load(path, cls, TRACE_COLUMNS)[0])

    def chrome(self, schedule: Schedule) -> str:
        """Return the trace of `schedule` as Chrome trace-event JSON: a process for each rank, a thread for each lane; opens in Perfetto and
        chrome://tracing."""
        events: list[dict[str, object]] = []
        lanes = np.unique(np.stack([self.rank, self.lane.astype(np.int32)]), axis=1).T
        for rank in np.unique(self.rank):
            events.append({"ph": "M", "name": "process_name", "pid": int(rank), "args": {"name": f"rank {rank}"}})
        for rank, lane in lanes:
            events.append({"ph": "M", "name": "thread_name", "pid": int(rank), "tid": int(lane), "args": {"name": Lane(lane).name}})
        zero = int(self.start_ns.min()) if len(self) else 0
        described = ("iteration", "unit", "step", "layer", "nodes", "edges", "rows", "width", "flops")
        for i in range(len(self)):
            task = int(self.task[i])
            args: dict[str, object] = {name: int(getattr(schedule, name)[task]) for name in described}
            args |= {"task": task, "bytes": int(self.bytes[i]), "source": Source(self.source[i]).name.lower()}
            events.append(
                {
                    "ph": "X",
                    "name": Op(self.op[i]).name,
                    "pid": int(self.rank[i]),
                    "tid": int(self.lane[i]),
                    "ts": (int(self.start_ns[i]) - zero) / 1000,
                    "dur": int(self.end_ns[i] - self.start_ns[i]) / 1000,
                    "args": args,
                }
            )
        meta = {"strategy": self.strategy, "ranks": self.ranks, "device": self.device, "sources": list(self.sources)}
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": meta})


TRACE_COLUMNS = columnar.columns_of(Trace)
