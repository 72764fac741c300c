"""Tally: the figures of an epoch, added up stretch by stretch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from chronoscale.simulator.memory import TaskPlace, find_peaks
from chronoscale.strategies.evaluation.metrics import Summary, busiest_over_idlest, busy_ns
from chronoscale.strategies.planning.stretch import Stretch
from chronoscale.strategies.schedule import COLLECTIVES, IDLE, Ints, Op, Schedule
from chronoscale.strategies.trace import Source, Trace

_TOGETHER = [int(op) for op in COLLECTIVES]


@dataclass(slots=True, eq=False)
class Tally:
    """Figures of a long simulated epoch, added up stretch by stretch, without their opening steps. schedule: the last stretch's.

    Int64: op_ns and rows [ops], over all ranks; busy_ns [ranks]; held, peak [ranks]: bytes beside `resident`, now and at most; place [4,
    ranks]: where the peak is (task, op, unit, iteration).
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
        """Add the figures of a simulated stretch whose rows start and end at these times (ns on the epoch's clock), int64 [n] each.

        sources: where durations come from. lockstep: whether its ranks run in lockstep.
        """
        schedule = self.schedule = stretch.schedule
        ranks = schedule.ranks
        self.first_ns = min(self.first_ns, int(begin[ranks:].min()))
        self.last_ns = max(self.last_ns, int(end.max()))
        self.h2d_bytes += int(schedule.bytes[schedule.op == Op.H2D].sum())
        self.sources |= sources
        (self._add_lockstep if lockstep else self._add_any)(stretch, begin, end)

    def _add_lockstep(self, stretch: Stretch, begin: Ints, end: Ints) -> None:
        """Add rows of a stretch in lockstep, a row of all ranks at a time.

        Those of a rank follow one another, and all ranks have the same.
        """
        schedule, ranks = stretch.schedule, stretch.schedule.ranks
        op = schedule.op[ranks::ranks]
        duration = (end - begin)[ranks:].reshape(-1, ranks)
        self.rows += ranks * np.bincount(op, minlength=len(Op))
        np.add.at(self.op_ns, op, duration.sum(1))
        self.busy_ns += duration.sum(0, where=~np.isin(op, _TOGETHER)[:, None])
        if not np.isin(op, IDLE).all():
            self.works = set(range(ranks))
        allocated, freed = (column[ranks:].reshape(-1, ranks) for column in (schedule.alloc, schedule.free))
        at = np.full(ranks, -1)
        for i in range(len(op)):
            self.held += allocated[i]
            more = self.held > self.peak
            if more.any():
                at[more] = i
                np.maximum(self.peak, self.held, out=self.peak)
            self.held -= freed[i]
        self._note_places(stretch, np.where(at >= 0, (at + 1) * ranks + np.arange(ranks), -1))

    def _add_any(self, stretch: Stretch, begin: Ints, end: Ints) -> None:
        """Add rows of any stretch. At both of its ends nothing runs on a rank but an optimiser step, so that busy times add up."""
        schedule, ranks = stretch.schedule, stretch.schedule.ranks
        trace = Trace.of(schedule, begin, end, np.zeros(len(schedule), np.uint8), "").take(np.arange(ranks, len(schedule)))
        self.rows += np.bincount(trace.op, minlength=len(Op))
        np.add.at(self.op_ns, trace.op, trace.duration_ns)
        self.busy_ns += busy_ns(trace)
        self.works |= set(trace.rank[~np.isin(trace.op, IDLE)].tolist())
        peaks = find_peaks(schedule, trace)
        most = self.held + peaks.bytes - schedule.resident
        self._note_places(stretch, np.where(most > self.peak, peaks.row, -1))
        self.peak = np.maximum(self.peak, most)
        np.add.at(self.held, schedule.rank[ranks:], (schedule.alloc - schedule.free)[ranks:])

    def _note_places(self, stretch: Stretch, row: Ints) -> None:
        """Note where new peaks are. row: of the stretch, int64 [ranks], -1 where there is none."""
        schedule, new = stretch.schedule, np.flatnonzero(row >= 0)
        at = row[new]
        task, iteration = stretch.row + at - schedule.ranks, stretch.first + schedule.iteration[at] - 1
        self.place[:, new] = np.stack([task, schedule.op[at], schedule.unit[at], iteration])

    @property
    def span_ns(self) -> int:
        """Return the length of the simulated epoch, ns."""
        return self.last_ns - self.first_ns

    @property
    def idle(self) -> int:
        """Return how many ranks have no work."""
        return self.schedule.ranks - len(self.works)

    @property
    def peaks(self) -> Ints:
        """Return the peak device memory of each rank (bytes), int64 [ranks]."""
        return self.schedule.resident + self.peak

    @property
    def top(self) -> tuple[int, TaskPlace | None]:
        """Return the rank that holds most memory, and the task at which it does; None for its resident data."""
        rank = int(np.argmax(self.peak))
        place = TaskPlace(*self.place[:, rank].tolist())
        return rank, place if place.task >= 0 else None

    @property
    def op_seconds(self) -> pd.Series[float]:
        """Return the simulated seconds in each operation that occurs, summed over ranks."""
        return pd.Series({op.name: float(self.op_ns[op]) / 1e9 for op in Op if self.rows[op]}, dtype=float)

    def summary(self, device: str) -> Summary:
        """Summarise the long epoch as that of a trace. device: how the summary names where it was simulated."""
        schedule, span = self.schedule, self.span_ns
        return Summary(
            strategy=schedule.name,
            ranks=schedule.ranks,
            epoch_s=span / 1e9,
            spread_s=0.0,
            repeats=1,
            imbalance=busiest_over_idlest(self.busy_ns),
            utilisation=float(self.busy_ns.mean()) / max(span, 1),
            h2d_bytes=self.h2d_bytes,
            collective_s=float(self.op_ns[_TOGETHER].sum()) / 1e9 / schedule.ranks,
            sources=", ".join(source.name.lower() for source in sorted(self.sources)),
            device=device,
        )
