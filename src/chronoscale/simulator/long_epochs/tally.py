"""Tally: what is told of an epoch, added up stretch by stretch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from chronoscale.simulator.memory import Place, fullest
from chronoscale.strategies.evaluation.metrics import Summary, busiest_over_idlest, busy_ns
from chronoscale.strategies.planning.stretch import Stretch
from chronoscale.strategies.schedule import COLLECTIVES, IDLE, Ints, Op, Schedule
from chronoscale.strategies.trace import Source, Trace

_TOGETHER = [int(op) for op in COLLECTIVES]


@dataclass(slots=True, eq=False)
class Tally:
    """Of the stretches so far, opening steps left out. schedule: the last one's. Int64: op_ns and rows [ops], over all ranks; busy_ns
    [ranks]; held, peak [ranks] bytes beside `resident`, now and at most; place [4, ranks]: where the peak is, as `memory.Place`.
    """

    schedule: Schedule
    rows: Ints = field(default_factory=lambda: np.zeros(len(Op), np.int64))
    op_ns: Ints = field(default_factory=lambda: np.zeros(len(Op), np.int64))
    first_ns: int = np.iinfo(np.int64).max
    last_ns: int = 0
    h2d_bytes: int = 0
    sources: set[Source] = field(default_factory=set)
    works: set[int] = field(default_factory=set)  # ranks
    busy_ns: Ints = field(init=False)
    held: Ints = field(init=False)
    peak: Ints = field(init=False)
    place: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.busy_ns, self.held, self.peak = (np.zeros(self.schedule.ranks, np.int64) for _ in range(3))
        self.place = np.full((4, self.schedule.ranks), -1, np.int64)

    def add(self, stretch: Stretch, begin: Ints, end: Ints, sources: set[Source], lockstep: bool) -> None:
        """A stretch whose rows start and end then, int64 [n] each, on the epoch's clock; lockstep: as `Lockstep` has them."""
        schedule = self.schedule = stretch.schedule
        ranks = schedule.ranks
        self.first_ns = min(self.first_ns, int(begin[ranks:].min()))
        self.last_ns = max(self.last_ns, int(end.max()))
        self.h2d_bytes += int(schedule.bytes[schedule.op == Op.H2D].sum())
        self.sources |= sources
        (self._in_step if lockstep else self._anyhow)(stretch, begin, end)

    def _in_step(self, stretch: Stretch, begin: Ints, end: Ints) -> None:
        """Rows of a rank follow one another, and all ranks have the same: figures by row of all ranks."""
        schedule, ranks = stretch.schedule, stretch.schedule.ranks
        op = schedule.op[ranks::ranks]
        lasted = (end - begin)[ranks:].reshape(-1, ranks)
        self.rows += ranks * np.bincount(op, minlength=len(Op))
        np.add.at(self.op_ns, op, lasted.sum(1))
        self.busy_ns += lasted.sum(0, where=~np.isin(op, _TOGETHER)[:, None])
        if not np.isin(op, IDLE).all():
            self.works = set(range(ranks))
        taken, given = (column[ranks:].reshape(-1, ranks) for column in (schedule.alloc, schedule.free))
        at = np.full(ranks, -1)
        for i in range(len(op)):
            self.held += taken[i]
            more = self.held > self.peak
            if more.any():
                at[more] = i
                np.maximum(self.peak, self.held, out=self.peak)
            self.held -= given[i]
        self._placed(stretch, np.where(at >= 0, (at + 1) * ranks + np.arange(ranks), -1))

    def _anyhow(self, stretch: Stretch, begin: Ints, end: Ints) -> None:
        """As of any trace. At both ends of a stretch nothing is under way on a rank but its step, so that busy times add up."""
        schedule, ranks = stretch.schedule, stretch.schedule.ranks
        trace = Trace.of(schedule, begin, end, np.zeros(len(schedule), np.uint8), "").take(np.arange(ranks, len(schedule)))
        self.rows += np.bincount(trace.op, minlength=len(Op))
        np.add.at(self.op_ns, trace.op, trace.duration_ns)
        self.busy_ns += busy_ns(trace)
        self.works |= set(trace.rank[~np.isin(trace.op, IDLE)].tolist())
        found = fullest(schedule, trace)
        most = self.held + found.bytes - schedule.resident
        self._placed(stretch, np.where(most > self.peak, found.row, -1))
        self.peak = np.maximum(self.peak, most)
        np.add.at(self.held, schedule.rank[ranks:], (schedule.alloc - schedule.free)[ranks:])

    def _placed(self, stretch: Stretch, row: Ints) -> None:
        """A new peak's row of the stretch, int64 [ranks], -1 where there is none."""
        schedule, new = stretch.schedule, np.flatnonzero(row >= 0)
        at = row[new]
        task, iteration = stretch.row + at - schedule.ranks, stretch.first + schedule.iteration[at] - 1
        self.place[:, new] = np.stack([task, schedule.op[at], schedule.unit[at], iteration])

    @property
    def span_ns(self) -> int:
        """The epoch, as `Trace.span_ns`."""
        return self.last_ns - self.first_ns

    @property
    def idle(self) -> int:
        """As `Schedule.idle`."""
        return self.schedule.ranks - len(self.works)

    @property
    def peaks(self) -> Ints:
        """As `memory.peaks`."""
        return self.schedule.resident + self.peak

    @property
    def top(self) -> tuple[int, Place | None]:
        """The rank that holds most, and where."""
        rank = int(np.argmax(self.peak))
        found = Place(*self.place[:, rank].tolist())
        return rank, found if found.task >= 0 else None

    @property
    def op_seconds(self) -> pd.Series[float]:
        """As `metrics.time_by_op`."""
        return pd.Series({op.name: float(self.op_ns[op]) / 1e9 for op in Op if self.rows[op]}, dtype=float)

    def summary(self, device: str) -> Summary:
        """As `Summary.of` one trace."""
        one, span = self.schedule, self.span_ns
        return Summary(
            strategy=one.name,
            ranks=one.ranks,
            epoch_s=span / 1e9,
            spread_s=0.0,
            repeats=1,
            imbalance=busiest_over_idlest(self.busy_ns),
            utilisation=float(self.busy_ns.mean()) / max(span, 1),
            h2d_bytes=self.h2d_bytes,
            collective_s=float(self.op_ns[_TOGETHER].sum()) / 1e9 / one.ranks,
            sources=", ".join(source.name.lower() for source in sorted(self.sources)),
            device=device,
        )
