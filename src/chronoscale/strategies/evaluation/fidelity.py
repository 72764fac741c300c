"""Fidelity: a predicted trace joined with measured ones, task by task, and what of them has no partner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from chronoscale.datasets.arrays import Int32, UInt8
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.planning.cuda_graphs import fold_graphs
from chronoscale.strategies.schedule import Ints, Op
from chronoscale.strategies.trace import Source, Trace

ITERATION, TOTAL = "ITERATION", "TOTAL"
SAMPLED = (Source.MEASURED, Source.FITTED)  # durations that samples of the operation stand behind


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a strategy's predicted epoch could be compared with measurements of it.

    rows: operations in the prediction or in a measurement; compared: those in all. share: how much of the measured time those take, 0 to 1;
    NaN where nothing took time. unmeasured, unpredicted: names of operations with rows that the other side lacks. unsampled: operations
    whose prediction rests on no measurement (a datasheet, an extrapolation).
    """

    rows: int
    compared: int
    share: float
    unmeasured: tuple[str, ...] = ()
    unpredicted: tuple[str, ...] = ()
    unsampled: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether everything was compared, and with predictions that rest on measurements."""
        return self.compared == self.rows and not self.unsampled

    def __str__(self) -> str:
        parts = [f"{self.compared:,} of {self.rows:,} rows compared"]
        if self.compared < self.rows:
            parts[0] += f" ({self.share:.1%} of the measured time)"
        gaps = (("predicted only", self.unmeasured), ("measured only", self.unpredicted), ("predicted without samples", self.unsampled))
        return "; ".join([*parts, *(f"{gap}: {', '.join(ops)}" for gap, ops in gaps if ops)])


def coverage(predicted: Trace, measured: Sequence[Trace]) -> Coverage:
    """Return how much of the predicted epoch of a strategy's schedule repeated measurements cover: the rows that both have, and their share
    of time.

    predicted, measured: traces of one schedule, simulated and executed. Raises ValueError when they are of different schedules.
    """
    predicted = fold_graphs(predicted, measured[0]) if len(measured) else predicted
    both, measured_tasks = _common_tasks(predicted, measured)[0], np.concatenate([trace.task for trace in measured])
    tasks = np.union1d(predicted.task, measured_tasks)
    compared_ns = np.array([_entries(trace, both).duration_ns.sum() for trace in measured], np.float64)
    total_ns = np.array([trace.duration_ns.sum() for trace in measured], np.float64)
    unsampled = predicted.op[np.isin(predicted.task, both) & ~np.isin(predicted.source, SAMPLED)]
    return Coverage(
        rows=len(tasks),
        compared=len(both),
        share=float(np.median(compared_ns / total_ns)) if total_ns.all() else float("nan"),
        unmeasured=_op_names(predicted.op[~np.isin(predicted.task, both)]),
        unpredicted=_op_names(np.concatenate([trace.op[~np.isin(trace.task, both)] for trace in measured])),
        unsampled=_op_names(unsampled),
    )


def fidelity(predicted: Trace, measured: Sequence[Trace], iteration: Int32 | None = None, span_ns: float | None = None) -> pd.DataFrame:
    """Compare the predicted epoch of a strategy's schedule with repeated measurements, in a table with a line for each operation.

    Columns: `op`; `predicted_ms`, `measured_ms` (median of the repeats); `error_pct`, signed; `spread_pct`: standard deviation of the
    repeats, which no error can beat; `task_error_pct`: median of the single rows' signed errors, each against the median of its repeats;
    `tasks`: the rows that are in all traces, which a line sums; `epoch_share`: what an operation takes of the measured epoch, mean of the
    ranks (of 1; lanes overlap, so that all together may take more), NaN in the lines of iteration and epoch.

    predicted, measured: traces of one schedule, joined by the rows' numbers. Line ITERATION is there where `iteration` (int [rows of the
    schedule]) says to which optimiser step a row belongs: the median over iterations, each as long as it moves the end of all rows so far,
    so that lengths add up to the epoch. Line TOTAL is the epoch's span; the predicted one is `span_ns` where that is given (simulations
    that draw random waits state their own).

    Raises ValueError when the traces are of different schedules.
    """
    predicted = fold_graphs(predicted, measured[0]) if len(measured) else predicted
    both, op = _common_tasks(predicted, measured)
    prediction, repeats = _entries(predicted, both), [_entries(trace, both) for trace in measured]
    times = np.stack([trace.duration_ns for trace in repeats])
    rows = []
    for code in np.unique(op):
        selected = op == code
        rows.append(
            _fidelity_row(
                Op(code).name,
                prediction.duration_ns[selected].sum(),
                times[:, selected].sum(1),
                prediction.duration_ns[selected],
                times[:, selected],
            )
        )
    if iteration is not None and len(both):
        lengths, measured_lengths = (
            _iteration_lengths(prediction, iteration[both]),
            np.stack([_iteration_lengths(trace, iteration[both]) for trace in repeats]),
        )
        rows.append(_fidelity_row(ITERATION, float(np.median(lengths)), np.median(measured_lengths, axis=1), lengths, measured_lengths))
    no_tasks = np.zeros(0, np.int64)
    spans = np.array([trace.span_ns for trace in repeats])
    rows.append(_fidelity_row(TOTAL, prediction.span_ns if span_ns is None else span_ns, spans, no_tasks, no_tasks[None]))
    table = pd.DataFrame([{**row, "tasks": len(both)} if row["op"] == TOTAL else row for row in rows])
    epoch_ms = predicted.ranks * float(np.median(spans)) / 1e6
    share = table["measured_ms"] / epoch_ms if epoch_ms > 0 else float("nan")
    return table.assign(epoch_share=share).assign(epoch_share=lambda shown: shown["epoch_share"].mask(shown["op"].isin([ITERATION, TOTAL])))


def _fidelity_row(name: str, predicted: float, measured: Floats | Ints, predictions: Ints, samples: Ints) -> dict[str, object]:
    """Return one line of the table, from sums [repeats] of what is measured and each task's ns, predicted [tasks] and measured [repeats,
    tasks]."""
    middle, medians = float(np.median(measured)), np.median(samples, axis=0)
    timed = medians > 0
    return {
        "op": name,
        "predicted_ms": predicted / 1e6,
        "measured_ms": middle / 1e6,
        "error_pct": 100 * (predicted / middle - 1) if middle > 0 else float("nan"),
        "spread_pct": 100 * float(np.std(measured) / middle) if len(measured) > 1 and middle > 0 else float("nan"),
        "task_error_pct": 100 * float(np.median(predictions[timed] / medians[timed] - 1)) if timed.any() else float("nan"),
        "tasks": len(predictions),
    }


def _iteration_lengths(trace: Trace, iteration: Int32) -> Ints:
    """Return the length of each iteration, int64 ns: how far it moves the end of all rows so far."""
    numbers, of = np.unique(iteration, return_inverse=True)
    end = np.full(len(numbers), trace.start_ns.min())
    np.maximum.at(end, of, trace.end_ns)
    return np.diff(np.maximum.accumulate(end), prepend=trace.start_ns.min())


def _common_tasks(predicted: Trace, measured: Sequence[Trace]) -> tuple[Ints, Ints]:
    """Return the tasks that are in all traces, ascending, and their operations. Raises ValueError when the traces are of different
    schedules."""
    both = predicted.task
    for trace in measured:
        both = np.intersect1d(both, trace.task)
    prediction = _entries(predicted, both)
    for trace in measured:
        measurement = _entries(trace, both)
        if trace.ranks != predicted.ranks or (measurement.op != prediction.op).any() or (measurement.rank != prediction.rank).any():
            raise ValueError("fidelity joins traces of one schedule")
    return both, prediction.op.astype(np.int64)


def _entries(trace: Trace, tasks: Ints) -> Trace:
    """Return the entries of the given tasks (ascending), which the trace has."""
    order = np.argsort(trace.task)
    return trace.take(order[np.searchsorted(trace.task, tasks, sorter=order)])


def _op_names(codes: UInt8) -> tuple[str, ...]:
    """Return the names of operations by their codes."""
    return tuple(Op(code).name for code in np.unique(codes))
