"""Profiled: samples for a fit, from what torch.profiler saw of a schedule's rows, or of copies of any program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from chronoscale.errors import UserError
from chronoscale.real_exec.execution.interpreter import Pass
from chronoscale.real_exec.measurement.fit import CURVE, enough, tabulate
from chronoscale.strategies.costing.curves import DESCRIBED, Curve
from chronoscale.strategies.formats.kineto import COPIED, COPIES, DEVICE, LAUNCHES, RANGE, KinetoProfile
from chronoscale.strategies.row_name import ROW
from chronoscale.strategies.schedule import Ints, Op, Schedule
from chronoscale.strategies.trace import Source, Trace


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Rows of a schedule that a profile shows: traces of them, one a repeat. missed: rows of the rank that it does not show as often."""

    schedule: Schedule
    traces: tuple[Trace, ...]
    missed: int

    @property
    def samples(self) -> pd.DataFrame:
        """As a profile of ours has them (`fit.tabulate`), of the rows that all repeats show."""
        alone = replace(self.schedule, dep_ptr=np.zeros(len(self.schedule) + 1, np.int64), dep=np.zeros(0, np.int64))
        return tabulate([(alone.take(self.traces[0].task), [Pass(trace, np.zeros(0)) for trace in self.traces])])


def join(profile: KinetoProfile, schedule: Schedule) -> Joined:
    """Ranges of the interpreter (`ranges`) with the rows that they name; the k-th of a row is repeat k.

    On a device a row takes from the first start to the last end of what was launched while its range lasted, by whichever thread (autograd
    has its own); on the host as long as its range. Rows that fewer repeats show than others are left out, and those of a device that
    launched nothing.

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
    found = ranges.assign(row=ranges["row"].astype(np.int64))[["row", "start_ns", "ns"]]
    if profile.on_device:
        rows = found["row"].to_numpy()
        hosted = schedule.hosted[rows]
        found = pd.concat([found[hosted], _launched(profile, found)[~hosted].dropna().astype(np.int64)]).sort_values("start_ns")
    found = found.assign(repeat=found.groupby("row").cumcount())
    counts = found.groupby("row").size()
    most = int(counts.max()) if len(counts) else 0
    if not most:
        raise UserError(f"{profile.path}: its rows launched nothing on the device")
    shown: Ints = counts.index[counts == most].to_numpy(np.int64)
    repeats = [found[found["repeat"] == k].set_index("row").loc[shown] for k in range(most)]
    missed = int((schedule.rank == profile.rank).sum()) - len(shown)
    return Joined(schedule, tuple(_trace(profile, schedule, one) for one in repeats), missed)


def _launched(profile: KinetoProfile, ranges: pd.DataFrame) -> pd.DataFrame:
    """The ranges with the times of what was launched in them on the device; NaN where that is nothing. Ranges do not overlap: one thread
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


def _trace(profile: KinetoProfile, schedule: Schedule, found: pd.DataFrame) -> Trace:
    """Of one repeat; rows ascending."""
    rows, start, ns = found.index.to_numpy(np.int64), found["start_ns"].to_numpy(np.int64), found["ns"].to_numpy(np.int64)
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


def copies(profiles: Sequence[KinetoProfile]) -> pd.DataFrame:
    """Samples of copies between host and device, by their names: of any program. Columns as of `fit.tabulate`; what a profile does not tell
    is 0."""
    frames = []
    for profile in profiles:
        events = profile.events[(profile.events["category"] == COPIED) & (profile.events["bytes"] > 0)]
        for begin, (op, lane) in COPIES.items():
            mine = events[events["name"].str.startswith(begin)]
            if op is not Op.COPY and len(mine):
                known: dict[str, Any] = dict.fromkeys((*DESCRIBED, "width", "variant", "alloc"), 0)
                known |= {"op": op.name, "lane": "", "collective": -1, "place": lane.name, "schedule": "modelled", "alone": False}
                known |= {"ns": mine["ns"].to_numpy(), "bytes": mine["bytes"].to_numpy(), "ranks": profile.ranks, "spread": 0.0}
                frames.append(pd.DataFrame(known))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def fittable(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The samples that a fit takes, and in words what has too few: curves with less than `fit.LEAST`."""
    if not len(table):
        return table, []
    taken = enough(table)
    few = table.drop(taken.index).groupby(CURVE).size()
    return taken, [f"{Curve(*curve)} ({count})" for curve, count in zip(few.index, few, strict=True)]
