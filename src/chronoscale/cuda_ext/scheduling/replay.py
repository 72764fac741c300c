"""Replay of schedules by the native engine: when each row starts and ends, and how hosts launch the rows' kernels. Needs no torch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.native.arguments import BAD_ARGUMENT, address, cpu_library_or_warn, require_array
from chronoscale.cuda_ext.native.loader import require_success
from chronoscale.errors import UserError

Int64 = NDArray[np.int64]


class ScheduleRows(NamedTuple):
    """Schedule as the simulator's native engine takes it: n rows (tasks) in `streams` streams that each run their rows in order.

    A row starts when the one before it in its stream and the rows dep[dep_ptr[i]:dep_ptr[i + 1]] have ended. Rows of one collective,
    numbered below `groups` (-1: of none), start together. ns: durations.
    """

    streams: int
    stream: NDArray[np.int32]  # [n]
    ns: Int64  # [n]
    groups: int
    collective: Int64  # [n]
    dep_ptr: Int64  # [n + 1]
    dep: Int64


class HostTurns(NamedTuple):
    """Kernel launches as the simulator's native engine takes them: g turns of `hosts` hosts, those of one host in order.

    Row i starts `after` ns from its turn's start or later. A turn starts when the host's turn before it is over and its gate, a row (-1:
    none), has ended.
    """

    hosts: int
    turn: Int64  # [n]
    after: Int64  # [n], -2^60 or less: whenever
    host: Int64  # [g]
    length: Int64  # [g]
    gate: Int64  # [g]


class LaunchedRows(NamedTuple):
    """Schedule's n rows as the native engine takes them to work out kernel launches, by one host a rank, in the rows' order."""

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
    """Shares of `resources` resources that n rows take while they run, as the simulator's native engine takes them.

    Row i, after its first delay[i] ns, takes the shares [ptr[i], ptr[i + 1]), multiples of 2^-36, until its demand is met, in a unit that
    all have in common. A collective's are its first row's.
    """

    resources: int
    delay: Int64  # [n]
    demand: NDArray[np.float64]  # [n] > 0 of rows that take any
    ptr: Int64  # [n + 1]
    resource: NDArray[np.int32]
    share: NDArray[np.float64]


def host_turns(launched: LaunchedRows, hosts: int, lanes: int) -> HostTurns | None:
    """Work out natively, for the simulator, in which order and when a host launches the kernels of a schedule's rows.

    launched: the rows, their kernels and dependencies. hosts: launching threads, one a rank; lanes: queues of a rank. Returns turns, in
    each of which a host launches without waiting; None, with a warning, without the native library. Raises UserError for arrays that do not
    fit one another, MachineError when memory runs out.
    """
    num_rows = len(launched.ns)
    types = (np.int32, np.uint8, np.int32, np.int64, np.int64, np.bool_, np.bool_)
    for name, dtype in zip(LaunchedRows._fields[:7], types, strict=True):
        require_array(name, getattr(launched, name), dtype, num_rows)
    require_array("dep_ptr", launched.dep_ptr, np.int64, num_rows + 1)
    require_array("dep", launched.dep, np.int64, int(launched.dep_ptr[-1]))
    require_array("launch_ns", launched.launch_ns, np.int64, num_rows)
    if (library := cpu_library_or_warn("schedules are replayed")) is None:
        return None
    turn, after, turn_count = np.empty(num_rows, np.int64), np.empty(num_rows, np.int64), np.zeros(1, np.int64)
    host, length, gate = (np.empty(2 * num_rows, np.int64) for _ in range(3))
    outputs = (address(array) for array in (turn, after, host, length, gate, turn_count))
    status = library.cs_launches(num_rows, hosts, lanes, *(address(array) for array in launched), *outputs)
    if status == BAD_ARGUMENT:
        raise UserError("replay: a rank, lane or dependency of what is launched is out of range")
    require_success("replay", status)
    return HostTurns(hosts, turn, after, *(array[: int(turn_count[0])].copy() for array in (host, length, gate)))


def replay(rows: ScheduleRows, turns: HostTurns | None, shares: ResourceShares | None) -> tuple[Int64, Int64] | None:
    """Replay a schedule in the simulator's native engine: return start and end of each row in ns, int64 [n], -1 where it never starts.

    rows: durations, queues and dependencies. turns: of hosts that launch kernels, as `host_turns` returns them; None: launching takes no
    time. shares: what rows take of shared resources, such as links; None: nothing contends. None is returned, with a warning, without the
    native library. Raises UserError for arrays that do not fit one another, MachineError when memory runs out.
    """
    num_rows, turn_count = len(rows.ns), 0 if turns is None else len(turns.host)
    require_array("stream", rows.stream, np.int32, num_rows)
    for name, array, size in (
        ("ns", rows.ns, num_rows),
        ("collective", rows.collective, num_rows),
        ("dep_ptr", rows.dep_ptr, num_rows + 1),
    ):
        require_array(name, array, np.int64, size)
    require_array("dep", rows.dep, np.int64, int(rows.dep_ptr[-1]))
    if turns is not None:
        for name, size in (("turn", num_rows), ("after", num_rows), ("host", turn_count), ("length", turn_count), ("gate", turn_count)):
            require_array(name, getattr(turns, name), np.int64, size)
    if shares is not None:
        require_array("delay", shares.delay, np.int64, num_rows)
        require_array("demand", shares.demand, np.float64, num_rows)
        require_array("ptr", shares.ptr, np.int64, num_rows + 1)
        require_array("resource", shares.resource, np.int32, int(shares.ptr[-1]))
        require_array("share", shares.share, np.float64, int(shares.ptr[-1]))
    if (library := cpu_library_or_warn("schedules are replayed")) is None:
        return None
    dependencies = address(rows.collective), address(rows.dep_ptr), address(rows.dep)
    lanes = rows.streams, address(rows.stream), address(rows.ns), rows.groups, *dependencies
    launches = (0, 0, *[None] * 5) if turns is None else (turn_count, turns.hosts, *(address(array) for array in turns[1:]))
    resources = (0, *[None] * 5) if shares is None else (shares.resources, *(address(array) for array in shares[1:]))
    start, end = np.empty(num_rows, np.int64), np.empty(num_rows, np.int64)
    status = library.cs_replay(num_rows, *lanes, *launches, *resources, address(start), address(end))
    if status == BAD_ARGUMENT:
        raise UserError("replay: a stream, row, collective, turn or resource is out of range, or a length, demand or share is not positive")
    require_success("replay", status)
    return start, end
