"""Metrics of traces, measured or simulated alike: busy and idle time, exposed communication, imbalance, efficiency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from chronoscale.strategies.schedule import COLLECTIVES, Ints, Lane, Op
from chronoscale.strategies.trace import TRACE_COLUMNS, Source, Trace


def frame(trace: Trace) -> pd.DataFrame:
    """Return a trace (times of a schedule's rows, executed or simulated) as a table to look at, one line a row.

    Columns are the trace's (task, rank, lane, op, start_ns, end_ns, bytes, source), with names in place of the codes of op, lane and
    source.
    """
    table = pd.DataFrame({name: getattr(trace, name) for name in TRACE_COLUMNS})
    for name, kind in (("op", Op), ("lane", Lane), ("source", Source)):
        table[name] = np.array([code.name for code in kind])[table[name].to_numpy()]
    return table


def busy_ns(trace: Trace) -> Ints:
    """Return how long a strategy keeps each rank busy with anything but collectives, from a trace of its schedule; int64 [ranks] ns.
    Moments in which several lanes run count once."""
    return _covered_ns(trace, ~np.isin(trace.op, [int(op) for op in COLLECTIVES]))


def occupied_ns(trace: Trace) -> Ints:
    """Return how long a strategy keeps each rank busy with anything, collectives included, from a trace of its schedule; int64 [ranks] ns.
    Moments in which several lanes run count once; the rest of the epoch the rank waits for other ranks, or for its host."""
    return _covered_ns(trace, np.ones(len(trace), bool))


def _covered_ns(trace: Trace, work: NDArray[np.bool_]) -> Ints:
    """Return the time that the rows in `work`, bool [rows], cover on each rank, each moment once; int64 [ranks]."""
    rank = trace.rank[work].astype(np.int64)
    start = trace.start_ns[work]
    end = trace.end_ns[work]
    busy = np.zeros(trace.ranks, np.int64)
    if not len(rank):
        return busy
    order = np.lexsort((start, rank))
    rank, start, end = rank[order], start[order], end[order]
    offset = rank * (end.max() - start.min() + 1)  # keeps ranks apart, so that one running maximum serves all
    covered = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(end + offset)[:-1]])
    fresh = np.maximum(end + offset - np.maximum(start + offset, covered), 0)
    np.add.at(busy, rank, fresh)
    return busy


def exposed_communication_ns(trace: Trace) -> Ints:
    """Return how long each rank communicates while it computes nothing, that is, how much communication a strategy does not hide, from a
    trace of its schedule; host transfers are left out; int64 [ranks] ns (FlareDTDG §4.3)."""
    communicates = trace.lane == Lane.COMM
    rows = np.flatnonzero(communicates | np.isin(trace.lane, [Lane.COMPUTE, Lane.COMPUTE2]))
    rank, time = np.tile(trace.rank[rows], 2).astype(np.int64), np.concatenate([trace.start_ns[rows], trace.end_ns[rows]])
    change, exchange = np.repeat([1, -1], len(rows)), np.tile(communicates[rows], 2)
    order = np.lexsort((time, rank))
    under_way, computing = (np.cumsum((change * kind)[order]) for kind in (exchange, ~exchange))
    last = np.flatnonzero((under_way[:-1] > 0) & (computing[:-1] == 0))  # nothing is under way from one rank's end to the next one's begin
    exposed = np.zeros(trace.ranks, np.int64)
    np.add.at(exposed, rank[order][last], np.diff(time[order])[last])
    return exposed


def imbalance(trace: Trace) -> float:
    """Return how unevenly a strategy loads its ranks, from a trace of its schedule: busy time of the most over that of the least loaded
    rank, waiting for synchronisation excluded (REAL §7.5); inf when one is idle."""
    return busiest_over_idlest(busy_ns(trace))


def busiest_over_idlest(busy: Ints) -> float:
    """Return a strategy's imbalance: the largest over the smallest of its ranks' busy times, int64 [ranks]; inf where one is 0."""
    return float(busy.max() / busy.min()) if busy.min() > 0 else float("inf")


def time_by_op(trace: Trace) -> pd.Series[float]:
    """Return the seconds that a strategy's epoch spends in each kind of operation, summed over ranks, by its name, from a trace of its
    schedule."""
    seconds = np.bincount(trace.op, weights=trace.duration_ns / 1e9, minlength=len(Op))
    return pd.Series({op.name: float(seconds[op]) for op in Op if (trace.op == op).any()}, dtype=float)


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures by which strategies are compared: epoch time, imbalance, bytes ... of one strategy on one number of ranks, from traces of its
    repeated epoch."""

    strategy: str
    ranks: int
    epoch_s: float
    spread_s: float  # half of the range between the quartiles over repeats; 0 for one
    repeats: int
    imbalance: float
    utilisation: float  # mean busy share of the epoch
    h2d_bytes: int
    collective_s: float  # mean time a rank spends inside collectives
    sources: str
    device: str

    @classmethod
    def of(cls, traces: Sequence[Trace]) -> Summary:
        """Return the summary of the repeats of one epoch, executed or simulated; epoch time is their median, and the median repeat's trace
        stands for all in the other figures."""
        spans = np.array([trace.span_ns for trace in traces])
        middle = traces[int(np.argsort(spans, kind="stable")[(len(spans) - 1) // 2])]
        low, high = np.quantile(spans, [0.25, 0.75])
        together = np.isin(middle.op, [int(op) for op in COLLECTIVES])
        return cls(
            strategy=middle.strategy,
            ranks=middle.ranks,
            epoch_s=float(np.median(spans)) / 1e9,
            spread_s=float(high - low) / 2e9,
            repeats=len(traces),
            imbalance=imbalance(middle),
            utilisation=float(busy_ns(middle).mean()) / max(middle.span_ns, 1),
            h2d_bytes=int(middle.bytes[middle.op == Op.H2D].sum()),
            collective_s=float(middle.duration_ns[together].sum()) / 1e9 / middle.ranks,
            sources=", ".join(middle.sources),
            device=middle.device,
        )


def parallel_efficiency(epoch_s: Mapping[int, float]) -> dict[int, float]:
    """Return how well a strategy scales: throughput per GPU over that of the run on the fewest, for each number of ranks, from its epoch
    times (ranks -> s); 1 is perfect (REAL §7.5: the smallest is one GPU)."""
    if not epoch_s:
        return {}
    base = min(epoch_s)
    return {ranks: epoch_s[base] * base / (seconds * ranks) for ranks, seconds in sorted(epoch_s.items())}
