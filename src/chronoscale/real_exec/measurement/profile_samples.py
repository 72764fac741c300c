"""Profile samples: samples for a fit from what torch.profiler recorded of a schedule's rows, or of copies of any program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from chronoscale.errors import UserError
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.measurement.fit import CURVE_COLUMNS, tabulate_samples, with_enough_samples
from chronoscale.strategies.costing.curves import DESCRIBED, Curve
from chronoscale.strategies.formats.kineto import COPIED, COPIES, DEVICE, LAUNCHES, RANGE, KinetoProfile
from chronoscale.strategies.row_name import ROW
from chronoscale.strategies.schedule import Ints, Op, Schedule
from chronoscale.strategies.trace import Source, Trace


@dataclass(frozen=True, slots=True, eq=False)
class ProfiledRows:
    """Rows of a schedule that a recording of torch.profiler shows: a trace for each repeat.

    missed: how many of the rank's rows it does not show as often.
    """

    schedule: Schedule
    traces: tuple[Trace, ...]
    missed: int

    @property
    def samples(self) -> pd.DataFrame:
        """Return the profiled rows that all repeats show as a table for a fit of costs (`fit.tabulate_samples`)."""
        independent = replace(self.schedule, dep_ptr=np.zeros(len(self.schedule) + 1, np.int64), dep=np.zeros(0, np.int64))
        return tabulate_samples([(independent.take(self.traces[0].task), [Pass(trace, np.zeros(0)) for trace in self.traces])])


def match_rows(profile: KinetoProfile, schedule: Schedule) -> ProfiledRows:
    """Find in a recording of torch.profiler the rows of a schedule that a rank executed, by the ranges that the interpreter named after
    them.

    The k-th range of a row is repeat k. On a device, a row takes from the first start to the last end of what was launched while its range
    lasted, by whichever thread (autograd has its own); on the host, as long as its range. Left out are rows that fewer repeats show than
    others, and rows of a device that launched nothing.

    Raises UserError when no range names a row, and when the rows are another schedule's.
    """
    ranges = profile.events[profile.events["category"] == RANGE].reset_index(drop=True)
    parts = ranges["name"].str.extract(f"^{ROW.pattern}$")
    ranges = ranges.assign(row=parts[0].astype(float), op=parts[1])[parts[0].notna()].reset_index(drop=True)
    if not len(ranges):
        raise UserError(
            f"{profile.path}: no range names a row: a profiler has to record "
            "`chronoscale.real_exec.execution.interpreter.execute`; or leave the "
            "schedule out"
        )
    for row, op in zip(ranges["row"], ranges["op"], strict=True):
        if row >= len(schedule) or Op(schedule.op[int(row)]).name != op or schedule.rank[int(row)] != profile.rank:
            raise UserError(f"{profile.path}: row {row:.0f} is {op} of rank {profile.rank} there, and not in schedule '{schedule.name}'")
    spans = ranges.assign(row=ranges["row"].astype(np.int64))[["row", "start_ns", "ns"]]
    if profile.on_device:
        rows = spans["row"].to_numpy()
        hosted = schedule.hosted[rows]
        spans = pd.concat([spans[hosted], _device_spans(profile, spans)[~hosted].dropna().astype(np.int64)]).sort_values("start_ns")
    spans = spans.assign(repeat=spans.groupby("row").cumcount())
    counts = spans.groupby("row").size()
    most = int(counts.max()) if len(counts) else 0
    if not most:
        raise UserError(f"{profile.path}: its rows launched nothing on the device")
    shown: Ints = counts.index[counts == most].to_numpy(np.int64)
    repeats = [spans[spans["repeat"] == k].set_index("row").loc[shown] for k in range(most)]
    missed = int((schedule.rank == profile.rank).sum()) - len(shown)
    return ProfiledRows(schedule, tuple(_trace(profile, schedule, repeat) for repeat in repeats), missed)


def _device_spans(profile: KinetoProfile, ranges: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges with the times of what they launched on the device; NaN for nothing. They do not overlap: one thread
    issues rows."""
    calls = profile.events[profile.events["category"].isin(LAUNCHES) & (profile.events["correlation"] >= 0)]
    at = calls["start_ns"].to_numpy()
    of = np.searchsorted(ranges["start_ns"].to_numpy(), at, side="right") - 1
    end = (ranges["start_ns"] + ranges["ns"]).to_numpy()
    inside = (of >= 0) & (at <= end[np.maximum(of, 0)])
    owner = pd.DataFrame({"correlation": calls["correlation"].to_numpy()[inside], "of": of[inside]}).drop_duplicates("correlation")
    work = profile.events[profile.events["category"].isin(DEVICE)]
    joined = work.assign(end_ns=work["start_ns"] + work["ns"]).merge(owner, on="correlation").groupby("of")
    spans = joined.agg(start_ns=("start_ns", "min"), end_ns=("end_ns", "max")).reindex(range(len(ranges)))
    return pd.DataFrame({"row": ranges["row"], "start_ns": spans["start_ns"], "ns": spans["end_ns"] - spans["start_ns"]})


def _trace(profile: KinetoProfile, schedule: Schedule, spans: pd.DataFrame) -> Trace:
    """Return the trace of one repeat; rows ascend."""
    rows = spans.index.to_numpy(np.int64)
    start = spans["start_ns"].to_numpy(np.int64)
    ns = spans["ns"].to_numpy(np.int64)
    return Trace(
        strategy=schedule.name,
        ranks=schedule.ranks,
        device=f"profiled in {profile.path.name}",
        task=rows,
        rank=schedule.rank[rows],
        lane=schedule.lane[rows],
        op=schedule.op[rows],
        start_ns=start,
        end_ns=start + ns,
        bytes=schedule.bytes[rows],
        source=np.full(len(rows), Source.MEASURED, np.uint8),
    )


def copy_samples(profiles: Sequence[KinetoProfile]) -> pd.DataFrame:
    """Return a table, for a fit of costs, of the copies between host and device that torch.profiler recorded of any program; copies are
    recognised by name.

    Columns as of `fit.tabulate_samples`; those that a profile does not show are 0. Empty where there is no copy.
    """
    frames = []
    for profile in profiles:
        events = profile.events[(profile.events["category"] == COPIED) & (profile.events["bytes"] > 0)]
        for begin, (op, lane) in COPIES.items():
            mine = events[events["name"].str.startswith(begin)]
            if op is not Op.COPY and len(mine):
                known: dict[str, Any] = dict.fromkeys((*DESCRIBED, "width", "variant", "alloc", "clock_ns"), 0)
                known |= {"op": op.name, "lane": "", "collective": -1, "place": lane.name, "schedule": "modelled", "alone": False}
                known |= {"ns": mine["ns"].to_numpy(), "bytes": mine["bytes"].to_numpy(), "ranks": profile.ranks, "spread": 0.0}
                frames.append(pd.DataFrame(known))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def fittable_samples(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of a table of measured tasks that a fit of costs can use, and, in words, the curves that have too few (less than
    `fit.LEAST`).
    """
    if not len(table):
        return table, []
    taken = with_enough_samples(table)
    few = table.drop(taken.index).groupby(CURVE_COLUMNS).size()
    return taken, [f"{Curve(*curve)} ({count})" for curve, count in zip(few.index, few, strict=True)]
