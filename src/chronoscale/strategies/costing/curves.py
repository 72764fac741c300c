"""Curves: which rows of a schedule share a cost curve: those of one operation, input width, place and implementation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule

PLACED = frozenset({Op.GATHER, Op.FETCH, Op.REMAP})  # copies: of the host, of the device, through a data engine
RANGED = ("nodes", "edges", "rows", "bytes", "flops")  # sizes that curves are fitted on, at one width, and stay within
DESCRIBED = (*RANGED, "kernels")  # what curves read: how many operations a row consists of has no range, each takes as long as another


class Curve(NamedTuple):
    """Key of a fitted cost curve: all schedule rows (operations on a rank) with this operation and input width are timed by one curve.

    op: the name of an `Op`. lane: the queue ("HOST", "H2D" ...) of an operation whose cost depends on where it runs (`PLACED`), '' for
    others. variant: the implementation where an operation has several, 0 for the usual one.
    """

    op: str
    width: int
    lane: str = ""
    variant: int = 0

    def __str__(self) -> str:
        where = f" in lane {self.lane}" * bool(self.lane)
        return f"{self.op}{f' (implementation {self.variant})' * bool(self.variant)}{where} at width {self.width}"


def curves(schedule: Schedule, rows: Ints) -> Iterator[tuple[Curve, Ints]]:
    """Group rows of a schedule by the cost curve that times them: yield each curve with the positions within `rows` (row numbers, int64)
    that it covers, int64, ascending. Cost models predict, and profiles sample, curve by curve."""
    if not len(rows):
        return
    op = schedule.op[rows].astype(np.int64)
    lane = np.where(np.isin(op, [int(placed) for placed in PLACED]), schedule.lane[rows].astype(np.int64), -1)
    keys = np.stack([op, schedule.width[rows], lane, schedule.variant[rows]], axis=1)
    distinct, index = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(index.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(index.ravel(), minlength=len(distinct)))
    for (code, width, place, variant), own in zip(distinct.tolist(), np.split(order, ends[:-1]), strict=True):
        yield Curve(Op(code).name, width, Lane(place).name if place >= 0 else "", variant), own
