"""Timeline: a schedule cut into segments, the runs of rows that nothing outside their stream can delay."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Int32
from chronoscale.simulator.launches import AT_ONCE, Launches
from chronoscale.strategies.cluster import Device
from chronoscale.strategies.schedule import Ints, Lane, Schedule


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Schedule cut into segments for its simulation: runs of tasks (rows) that nothing outside their stream can delay.

    n rows in s segments with w waits; all arrays int64. A segment begins at a row that waits for another stream, joins a collective, is the
    first of its turn of kernel launches (`launches.Launches`), or is its stream's first. The rows after it follow without a gap but for
    their launches, so the start of the segment and that of its turn give the start of each of them: the later of `offset_ns` after the one
    and `launched_ns` after the other. A row that shares resources (`shares.Shares`), so that its end is unknown when it starts, is a
    segment of its own. Segments of one stream are numbered in order. Behind the segments of rows come the turns of hosts, in streams of
    their own: g segments without rows.
    """

    segment: Ints  # [n] of each row
    offset_ns: Ints  # [n] from the segment's start to the row's
    launched_ns: Ints  # [n] from its turn's start to the row's, at least
    first: Ints  # [s] row; -1 of a turn
    length_ns: Ints  # [s]
    turn: Ints  # [s] segment of the host's turn; -1: none
    held_ns: Ints  # [s] from the turn's start to the segment's end, at least
    stream: Ints  # [s] rank * streams of the device + stream
    collective: Ints  # [s] that the first row joins, numbered from 0; -1: none
    members: Ints  # [collectives] rows of each
    wait_ptr: Ints  # [s + 1] into the waits
    awaited: Ints  # [w] a segment of another stream ...
    lag_ns: Ints  # [w] ... how long after its start the awaited row ends ...
    lag_launched_ns: Ints  # [w] ... and how long after its turn's start, at least

    @classmethod
    def of(
        cls, schedule: Schedule, device: Device, ns: Ints, launches: Launches | None = None, takes: NDArray[np.bool_] | None = None
    ) -> Timeline:
        """Cut a schedule into segments for its simulation.

        ns: what rows take, int64 [n]; device: which lanes are one stream; launches: of the device's host, None where nothing is launched;
        takes: rows that share resources, bool [n], all of a collective alike.
        """
        streams, stream = len(device.streams), streams_of(schedule, device)
        row = np.argsort(_narrow(stream), kind="stable")
        waiter = np.repeat(np.arange(len(schedule)), np.diff(schedule.dep_ptr))
        across = stream[waiter] != stream[schedule.dep]
        waiter, dep = waiter[across], schedule.dep[across]

        begins = schedule.collective >= 0
        begins[waiter] = True
        begins[row[:1]] = True
        begins[row[1:][np.diff(stream[row]) != 0]] = True
        if launches is not None:
            begins[row[1:][np.diff(launches.turn[row]) != 0]] = True
        if takes is not None:
            begins |= takes
            begins[row[1:][takes[row[:-1]]]] = True
            if launches is not None:  # what shares starts when it is known to: rows before one that is launched are known without it
                begins |= launches.after_ns > AT_ONCE
        first = row[begins[row]]
        segment = np.empty_like(row)
        segment[row] = np.cumsum(begins[row]) - 1
        done = np.empty_like(row)
        done[row] = np.cumsum(ns[row])  # as if streams ran one after another; only differences within a segment are used
        offset = done - ns
        offset -= offset[first][segment]
        launched = np.full_like(row, AT_ONCE)
        if launches is not None:  # a row waits for the launches of all rows before it in its segment, too
            slack = pd.Series((launches.after_ns - offset)[row]).groupby(segment[row]).cummax().to_numpy()
            launched[row] = slack + offset[row]
        length = np.diff(np.searchsorted(segment[row], np.arange(len(first) + 1)))
        last = row[np.cumsum(length) - 1]

        by_segment = np.argsort(segment[waiter], kind="stable")
        dep = dep[by_segment]
        waits = np.bincount(segment[waiter], minlength=len(first))
        collective_of = schedule.collective[first]
        _, index, members = np.unique(collective_of[collective_of >= 0], return_inverse=True, return_counts=True)
        collective = np.full(len(first), -1, np.int64)
        collective[collective_of >= 0] = index
        rows = cls(
            segment=segment,
            offset_ns=offset,
            launched_ns=launched,
            first=first,
            length_ns=offset[last] + ns[last],
            turn=np.full(len(first), -1, np.int64) if launches is None else len(first) + launches.turn[first],
            held_ns=launched[last] + ns[last],
            stream=stream[first].astype(np.int64),
            collective=collective,
            members=members,
            wait_ptr=np.concatenate([np.zeros(1, np.int64), np.cumsum(waits)]),
            awaited=segment[dep],
            lag_ns=offset[dep] + ns[dep],
            lag_launched_ns=launched[dep] + ns[dep],
        )
        return rows if launches is None else rows._with_turns(launches, schedule.ranks * streams, ns)

    def _with_turns(self, launches: Launches, streams: int, ns: Ints) -> Timeline:
        """Return the timeline with the hosts' turns behind it. streams: how many there are without them."""
        count, gate = len(launches.rank), launches.gate
        none, gated = np.full(count, -1, np.int64), gate >= 0
        row = gate[gated]
        return replace(
            self,
            first=np.concatenate([self.first, none]),
            length_ns=np.concatenate([self.length_ns, launches.length_ns]),
            turn=np.concatenate([self.turn, none]),
            held_ns=np.concatenate([self.held_ns, none]),
            stream=np.concatenate([self.stream, streams + launches.rank]),
            collective=np.concatenate([self.collective, none]),
            wait_ptr=np.concatenate([self.wait_ptr, self.wait_ptr[-1] + np.cumsum(gated)]),
            awaited=np.concatenate([self.awaited, self.segment[row]]),
            lag_ns=np.concatenate([self.lag_ns, self.offset_ns[row] + ns[row]]),
            lag_launched_ns=np.concatenate([self.lag_launched_ns, self.launched_ns[row] + ns[row]]),
        )

    def begin(self, start: Ints) -> Ints:
        """Return when tasks (rows) start in the simulation (ns), int64 [n]. start: when segments do, int64 [s]."""
        turn = self.turn[self.segment]
        begin: Ints = np.maximum(start[self.segment] + self.offset_ns, np.where(turn >= 0, start[turn] + self.launched_ns, 0))
        return begin

    def __len__(self) -> int:
        return len(self.first)

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """Return, for every stream that has segments, the first and one past the last of them, for the SimPy simulation."""
        edges = np.flatnonzero(np.diff(self.stream, prepend=-1, append=-1)).tolist()
        return list(pairwise(edges))


def streams_of(schedule: Schedule, device: Device) -> Int32:
    """Return in which simulated stream (FIFO) each task runs, int32 [n]: rank * streams of the device + the stream of its lane."""
    stream_of = np.array([device.stream_of(lane) for lane in Lane], np.int32)
    return schedule.rank * np.int32(len(device.streams)) + stream_of[schedule.lane]


def _narrow(stream: Int32) -> NDArray[np.integer]:
    """Return the same numbers in the smallest type: NumPy sorts 16-bit keys by radix, ten times faster than 64-bit ones."""
    return stream.astype(np.min_scalar_type(int(stream.max()))) if len(stream) else stream
