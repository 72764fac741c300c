"""Reader of what torch.profiler recorded on one rank (Kineto), exported to Chrome's trace-event format.

Categories, names and arguments of events: torch 2.13's exports, and pytorch/kineto (libkineto/src/output_json.cpp).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from chronoscale.datasets.unpacking import GZIP, gunzip
from chronoscale.errors import UserError
from chronoscale.strategies.schedule import Lane, Op
from chronoscale.strategies.trace import Source, Trace

HOST = "cpu_op"
RANGE = "user_annotation"
KERNEL = "kernel"
COPIED = "gpu_memcpy"
FILLED = "gpu_memset"
DEVICE, LAUNCHES = (KERNEL, COPIED, FILLED), ("cuda_runtime", "cuda_driver")
READ = (HOST, RANGE, *LAUNCHES, *DEVICE)  # categories; others are Python's frames, arrows, ranges as they came out on the device
COPIES = {"Memcpy HtoD": (Op.H2D, Lane.H2D), "Memcpy DtoH": (Op.D2H, Lane.D2H), "Memcpy DtoD": (Op.COPY, Lane.COMPUTE)}
NCCL = "nccl"  # what its kernels' names begin with
COLLECTIVES = {"AllReduce": Op.ALLREDUCE, "AllGather": Op.ALLGATHER, "ReduceScatter": Op.ALLGATHER, "SendRecv": Op.ALLTOALL}


@dataclass(frozen=True, slots=True, eq=False)
class KinetoProfile:
    """Profile that torch.profiler recorded on one rank (Kineto), read from its exported JSON: a table of events by their beginning.

    Columns: category, name, start_ns and ns (int64, from the first event), track (a thread, or a device's stream), bytes (of copies, else
    0), correlation (joins what ran on the device with the call that launched it; -1: none).
    """

    path: Path
    rank: int
    ranks: int
    device: str  # its GPU's name, '' without one
    events: pd.DataFrame

    @property
    def on_device(self) -> bool:
        """Whether anything in the profile ran on a GPU."""
        return bool(self.events["category"].isin(DEVICE).any())


def read(path: Path) -> KinetoProfile:
    """Read a profile that torch.profiler exported on one rank (Chrome trace JSON, compressed by gzip or not). Raises UserError naming the
    file and the event for what is none."""
    try:
        data = path.read_bytes()
        content = json.loads(gunzip(path, data) if data.startswith(GZIP) else data)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file, a trace of torch.profiler is expected") from None
    except (ValueError, OSError, EOFError) as error:  # JSON's and text's are values; gzip's the others
        raise UserError(f"{path}: not readable: {error}") from None
    events = content.get("traceEvents") if isinstance(content, Mapping) else content
    if not isinstance(events, list):
        raise UserError(f"{path}: no traceEvents in it, a trace of torch.profiler is expected")
    rows = [_read_event(path, number, event) for number, event in enumerate(events) if _is_work(path, number, event)]
    if not rows:
        raise UserError(f"{path}: no operation in it; a profiler that saw any exports events of {', '.join(READ)}")
    table = pd.DataFrame(rows, columns=["category", "name", "start", "length", "track", "bytes", "correlation"])
    begin = (table["start"] - table["start"].min()) * 1000
    table = table.assign(start_ns=np.rint(begin).astype(np.int64), ns=np.rint(table["length"] * 1000).astype(np.int64))
    table = table.drop(columns=["start", "length"]).sort_values(["start_ns", "ns"], ascending=[True, False], kind="stable")
    about = content.get("distributedInfo", {}) if isinstance(content, Mapping) else {}
    rank, ranks = (_require_count(path, about, name, default) for name, default in (("rank", 0), ("world_size", 1)))
    return KinetoProfile(path, rank, max(ranks, rank + 1), _device_name(content), table.reset_index(drop=True))


def _device_name(content: object) -> str:
    """Return the name of the first GPU, '' without one."""
    named = content.get("deviceProperties") if isinstance(content, Mapping) else None
    first = named[0] if isinstance(named, list) and named else {}
    return str(first.get("name", "")) if isinstance(first, Mapping) else ""


def _is_work(path: Path, number: int, event: Any) -> bool:
    """Return whether an event is a piece of work. Raises UserError for what is no event."""
    if not isinstance(event, Mapping):
        raise UserError(f"{path}, event {number}: expected an object, got {event!r:.40}")
    return event.get("ph") == "X" and event.get("cat") in READ


def _read_event(path: Path, number: int, event: Mapping[str, Any]) -> tuple[str, str, float, float, str, int, int]:
    """Return one event as a row of the table. Raises UserError for times that are none."""
    times = []
    for key, quantity in (("ts", "a time"), ("dur", "a length")):
        value = event.get(key)
        if not isinstance(value, int | float) or not math.isfinite(value) or abs(value) > 1e15 or (key == "dur" and value < 0):
            raise UserError(f"{path}, event {number} ({event.get('name')!r:.40}): {key} is {value!r:.40}, expected {quantity} in µs")
        times.append(float(value))
    args = event.get("args")
    size, correlation = (_integer_arg(args, name, default) for name, default in (("bytes", 0), ("correlation", -1)))
    return str(event["cat"]), str(event.get("name")), times[0], times[1], f"{event.get('pid')}/{event.get('tid')}", size, correlation


def _integer_arg(args: object, name: str, default: int) -> int:
    """Return an integer argument of an event, or the default where it is absent or none."""
    value = args.get(name, default) if isinstance(args, Mapping) else default
    return value if isinstance(value, int) and abs(value) < 1 << 63 else default


def _require_count(path: Path, about: Any, name: str, default: int) -> int:
    """Return a number of distributedInfo, or the default where it is absent. Raises UserError where it is none."""
    value = about.get(name, default) if isinstance(about, Mapping) else default
    if not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise UserError(f"{path}: distributedInfo: {name} is {value!r:.40}, expected a number")
    return value


def as_trace(profile: KinetoProfile) -> Trace:
    """Convert a torch.profiler profile to a trace to look at: what ran on the device, and what the host called (outermost calls only).

    Of the device, copies and NCCL's kernels lie in lanes of their own, other kernels of the busiest stream in COMPUTE, of further streams
    in COMPUTE2. Calls are the HOST's where there is a device, else COMPUTE. Kernels and calls are `Op.COMPUTE`: a profile knows no
    operations of ours but in ranges that name rows, which `real_exec.measurement.profile_samples` reads.
    """
    table = profile.events[profile.events["category"].isin(DEVICE) | is_outermost(profile.events)]
    kernels = table[(table["category"] == KERNEL) & ~table["name"].str.startswith(NCCL)]
    busy = kernels.groupby("track")["ns"].sum()
    first, calls = (str(busy.idxmax()) if len(busy) else ""), Lane.HOST if profile.on_device else Lane.COMPUTE
    shapes = [_op_and_lane(*row, first, calls) for row in zip(table["category"], table["name"], table["track"], strict=True)]
    start, ns = table["start_ns"].to_numpy(), table["ns"].to_numpy()
    count, device = len(table), "GPU" if profile.on_device else "CPU"
    return Trace(
        strategy=profile.path.name,
        ranks=profile.ranks,
        device=f"{profile.device or device}, as profiled in {profile.path.name}",
        task=np.arange(count),
        rank=np.full(count, profile.rank, np.int32),
        lane=np.array([lane for _, lane in shapes], np.uint8),
        op=np.array([op for op, _ in shapes], np.uint8),
        start_ns=start,
        end_ns=start + ns,
        bytes=table["bytes"].to_numpy(np.int64),
        source=np.full(count, Source.MEASURED, np.uint8),
    )


def _op_and_lane(category: str, name: str, track: str, first: str, calls: Lane) -> tuple[Op, Lane]:
    """Return the operation and the lane of an event; `first` is the busiest stream, `calls` the lane of calls."""
    if category == HOST:
        return Op.COMPUTE, calls
    if category == COPIED:
        return next((shape for begin, shape in COPIES.items() if name.startswith(begin)), (Op.COPY, Lane.COMPUTE))
    if category == KERNEL and name.startswith(NCCL):
        return next((op for word, op in COLLECTIVES.items() if word in name), Op.COMPUTE), Lane.COMM
    return Op.COMPUTE, Lane.COMPUTE if track == first else Lane.COMPUTE2


def is_outermost(events: pd.DataFrame) -> pd.Series[bool]:
    """Return which events of a torch.profiler profile are calls on the host that lie in no other call of their thread, bool [events]."""
    calls = events[events["category"] == HOST]
    end = calls["start_ns"] + calls["ns"]
    before = end.groupby(calls["track"]).transform(lambda ends: ends.cummax().shift(fill_value=-1))
    return pd.Series(False, index=events.index).mask(events.index.isin(calls.index[calls["start_ns"] >= before]), True).astype(bool)


def time_by_name(profile: KinetoProfile) -> pd.DataFrame:
    """Return where the time of a torch.profiler profile goes: for each name that ran on the device or was called on the host, category,
    count, total ms, median µs and spread (standard deviation) in %, the longest total first.

    Times of calls include those of the calls inside them.
    """
    table = profile.events[profile.events["category"].isin((*DEVICE, HOST))]
    grouped = table.groupby(["category", "name"], sort=False)["ns"]
    times = grouped.agg(count="count", total_ms="sum", median_us="median", spread_pct=lambda ns: 100 * ns.std(ddof=0) / max(ns.mean(), 1))
    times = times.assign(total_ms=times["total_ms"] / 1e6, median_us=times["median_us"] / 1e3)
    return pd.DataFrame(times.sort_values("total_ms", ascending=False, kind="stable").reset_index())
