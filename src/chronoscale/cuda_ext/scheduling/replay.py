"""Replay: when the rows of a schedule start and end, by the native engine. Nothing here needs torch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.native.arguments import address, cpu_library_or_warn, require_array
from chronoscale.cuda_ext.native.loader import require_success
from chronoscale.errors import UserError

Int64 = NDArray[np.int64]
_ARGUMENT = 1


class ScheduleRows(NamedTuple):
    """n rows of `streams` streams, each in its order. A row starts when the one before it in its stream and those of
    dep[dep_ptr[i]:dep_ptr[i + 1]] have ended; rows of one collective, numbered below `groups`, -1: none, start together."""

    streams: int
    stream: NDArray[np.int32]  # [n]
    ns: Int64  # [n]
    groups: int
    collective: Int64  # [n]
    dep_ptr: Int64  # [n + 1]
    dep: Int64


class HostTurns(NamedTuple):
    """g turns of `hosts` hosts, which stand together by host: row i starts `after` its turn's start or later, and a turn when the one
    before is over and its gate, a row, has ended (-1: none)."""

    hosts: int
    turn: Int64  # [n]
    after: Int64  # [n], -2^60 or less: whenever
    host: Int64  # [g]
    length: Int64  # [g]
    gate: Int64  # [g]


class LaunchedRows(NamedTuple):
    """n rows whose kernels hosts launch, one a rank, in their order."""

    rank: NDArray[np.int32]  # [n]
    lane: NDArray[np.uint8]  # [n]
    iteration: NDArray[np.int32]  # [n]
    kernels: Int64  # [n]
    ns: Int64  # [n]
    on_host: NDArray[np.bool_]  # [n] what the host does itself
    steps: NDArray[np.bool_]  # [n] the optimiser's
    dep_ptr: Int64  # [n + 1]
    dep: Int64
    launch_ns: Int64  # [n] that each kernel of a row takes its host


class ResourceShares(NamedTuple):
    """What rows take of `resources` resources: row i, after its first delay[i] ns, the shares [ptr[i], ptr[i + 1]), multiples of 2^-36, for
    its demand, in a unit that all have in common. A collective's are its first row's. crowd: rows that are expected to be in one
    another's way (not 0), to which a replay adds those that were, or that it took to be; a guess that changes no time."""

    resources: int
    delay: Int64  # [n]
    demand: NDArray[np.float64]  # [n] > 0 of rows that take any
    ptr: Int64  # [n + 1]
    resource: NDArray[np.int32]
    share: NDArray[np.float64]
    crowd: NDArray[np.uint8]  # [n]


def host_turns(of: LaunchedRows, hosts: int, lanes: int) -> HostTurns | None:
    """The turns of hosts (`simulator.launches`). None where there is no native library, with a warning.

    Raises UserError for arrays that do not fit one another, MachineError when memory runs out.
    """
    rows = len(of.ns)
    types = (np.int32, np.uint8, np.int32, np.int64, np.int64, np.bool_, np.bool_)
    for name, dtype in zip(LaunchedRows._fields[:7], types, strict=True):
        require_array(name, getattr(of, name), dtype, rows)
    require_array("dep_ptr", of.dep_ptr, np.int64, rows + 1)
    require_array("dep", of.dep, np.int64, int(of.dep_ptr[-1]))
    require_array("launch_ns", of.launch_ns, np.int64, rows)
    if (library := cpu_library_or_warn("schedules are replayed")) is None:
        return None
    turn, after, made = np.empty(rows, np.int64), np.empty(rows, np.int64), np.zeros(1, np.int64)
    host, length, gate = (np.empty(2 * rows, np.int64) for _ in range(3))
    outputs = (address(array) for array in (turn, after, host, length, gate, made))
    status = library.cs_launches(rows, hosts, lanes, *(address(array) for array in of), *outputs)
    if status == _ARGUMENT:
        raise UserError("replay: a rank, lane or dependency of what is launched is out of range")
    require_success("replay", status)
    return HostTurns(hosts, turn, after, *(array[: int(made[0])].copy() for array in (host, length, gate)))


def replay(lines: ScheduleRows, turns: HostTurns | None, taken: ResourceShares | None) -> tuple[Int64, Int64] | None:
    """Start and end of each row (ns), int64 [n]; -1 where it never starts. None where there is no native library, with a warning.

    Raises UserError for arrays that do not fit one another, MachineError when memory runs out.
    """
    rows, groups = len(lines.ns), 0 if turns is None else len(turns.host)
    require_array("stream", lines.stream, np.int32, rows)
    for name, array, size in (("ns", lines.ns, rows), ("collective", lines.collective, rows), ("dep_ptr", lines.dep_ptr, rows + 1)):
        require_array(name, array, np.int64, size)
    require_array("dep", lines.dep, np.int64, int(lines.dep_ptr[-1]))
    if turns is not None:
        for name, size in (("turn", rows), ("after", rows), ("host", groups), ("length", groups), ("gate", groups)):
            require_array(name, getattr(turns, name), np.int64, size)
    if taken is not None:
        require_array("delay", taken.delay, np.int64, rows)
        require_array("demand", taken.demand, np.float64, rows)
        require_array("ptr", taken.ptr, np.int64, rows + 1)
        require_array("resource", taken.resource, np.int32, int(taken.ptr[-1]))
        require_array("share", taken.share, np.float64, int(taken.ptr[-1]))
        require_array("crowd", taken.crowd, np.uint8, rows, writable=True)
    if (library := cpu_library_or_warn("schedules are replayed")) is None:
        return None
    waits = address(lines.collective), address(lines.dep_ptr), address(lines.dep)
    of = lines.streams, address(lines.stream), address(lines.ns), lines.groups, *waits
    launched = (0, 0, *[None] * 5) if turns is None else (groups, turns.hosts, *(address(array) for array in turns[1:]))
    shared = (0, *[None] * 6) if taken is None else (taken.resources, *(address(array) for array in taken[1:]))
    start, end = np.empty(rows, np.int64), np.empty(rows, np.int64)
    status = library.cs_replay(rows, *of, *launched, *shared, address(start), address(end))
    if status == _ARGUMENT:
        raise UserError("replay: a stream, row, collective, turn or resource is out of range, or a length, demand or share is not positive")
    require_success("replay", status)
    return start, end
