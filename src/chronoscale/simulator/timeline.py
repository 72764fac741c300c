"""Timeline: a schedule cut into segments, the runs of rows that nothing outside their stream can delay."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from chronoscale.strategies.cluster import Device
from chronoscale.strategies.schedule import Ints, Lane, Schedule


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """n rows in s segments with w waits; all arrays int64.

    A segment begins at a row that waits for another stream, joins a collective, or is its stream's first. The rows after it follow
    without a gap, so the start of the segment gives the start of each of them. Segments of one stream are numbered in order.
    """

    segment: Ints  # [n] of each row
    offset_ns: Ints  # [n] from the segment's start to the row's
    first: Ints  # [s] row
    length_ns: Ints  # [s]
    stream: Ints  # [s] rank * streams of the device + stream
    collective: Ints  # [s] that the first row joins, numbered from 0; -1: none
    members: Ints  # [collectives] rows of each
    wait_ptr: Ints  # [s + 1] into the waits
    awaited: Ints  # [w] a segment of another stream ...
    lag_ns: Ints  # [w] ... and how long after its start the awaited row ends

    @classmethod
    def of(cls, schedule: Schedule, device: Device, ns: Ints) -> Timeline:
        """Rows of `schedule`, each `ns` long (int64 [n]), in the streams of `device`."""
        stream_of = np.array([device.stream_of(lane) for lane in Lane])
        stream = schedule.rank * np.int64(len(device.streams)) + stream_of[schedule.lane]
        row = np.argsort(_narrow(stream), kind="stable")
        waiter = np.repeat(np.arange(len(schedule)), np.diff(schedule.dep_ptr))
        across = stream[waiter] != stream[schedule.dep]
        waiter, dep = waiter[across], schedule.dep[across]

        begins = schedule.collective >= 0
        begins[waiter] = True
        begins[row[:1]] = True
        begins[row[1:][np.diff(stream[row]) != 0]] = True
        first = row[begins[row]]
        segment = np.empty_like(row)
        segment[row] = np.cumsum(begins[row]) - 1
        done = np.empty_like(row)
        done[row] = np.cumsum(ns[row])  # as if streams ran one after another; only differences within a segment are used
        offset = done - ns
        offset -= offset[first][segment]
        length = np.diff(np.searchsorted(segment[row], np.arange(len(first) + 1)))
        last = row[np.cumsum(length) - 1]

        by_segment = np.argsort(segment[waiter], kind="stable")
        dep = dep[by_segment]
        waits = np.bincount(segment[waiter], minlength=len(first))
        joined = schedule.collective[first]
        _, index, members = np.unique(joined[joined >= 0], return_inverse=True, return_counts=True)
        collective = np.full(len(first), -1, np.int64)
        collective[joined >= 0] = index
        return cls(
            segment=segment,
            offset_ns=offset,
            first=first,
            length_ns=offset[last] + ns[last],
            stream=stream[first],
            collective=collective,
            members=members,
            wait_ptr=np.concatenate([np.zeros(1, np.int64), np.cumsum(waits)]),
            awaited=segment[dep],
            lag_ns=offset[dep] + ns[dep],
        )

    def __len__(self) -> int:
        return len(self.first)

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """First and one past the last segment of every stream that has any."""
        edges = np.flatnonzero(np.diff(self.stream, prepend=-1, append=-1)).tolist()
        return list(pairwise(edges))


def _narrow(stream: Ints) -> NDArray[np.integer]:
    """The same numbers in the smallest type: NumPy sorts 16-bit keys by radix, ten times faster than 64-bit ones."""
    return stream.astype(np.min_scalar_type(int(stream.max()))) if len(stream) else stream
