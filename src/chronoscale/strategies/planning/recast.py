"""Recast: schedules that differ from one that was built only in what their rows work on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chronoscale.strategies.planning.builder import Builder, Columns
from chronoscale.strategies.schedule import COLUMNS, WORK, Ints, Lane, Op, Schedule

CHANGING = ("unit", *WORK)


class _Block(NamedTuple):
    """The places of a block's rows: even `runs` of `run` rows, `step` apart, from `start` on; `at` where they are not even."""

    op: int
    lane: int
    handles: Ints
    start: int
    step: int
    runs: int
    run: int
    at: Ints | None

    @classmethod
    def of(cls, schedule: Schedule, handles: Ints, at: Ints) -> _Block:
        """Return the places of the rows `at`, which `handles` name."""
        run = int(np.argmax(np.diff(at, append=-1) != 1)) + 1
        step = int(at[run] - at[0]) if run < len(at) else run
        even = at[0] + (step * np.arange(-(-len(at) // run))[:, None] + np.arange(run)).ravel()
        place = None if np.array_equal(even, at) else at
        return cls(int(schedule.op[at[0]]), int(schedule.lane[at[0]]), handles, int(at[0]), step, len(at) // run, run, place)

    def put(self, column: NDArray[Any], values: ArrayLike) -> None:
        """Write values of the block's sites, or one for all, into a column."""
        array = np.asarray(values)
        if self.at is not None:
            column[self.at] = array
            return
        itemsize = column.itemsize
        view = np.ndarray((self.runs, self.run), column.dtype, column.data, self.start * itemsize, (self.step * itemsize, itemsize))
        view[...] = array if array.size == 1 else array.reshape(self.runs, self.run)


class Recast:
    """Builder of schedules that differ from an existing one only in how much work their rows do, and on which batch or window (`unit`):
    faster than building each anew, for long epochs that are planned piece by piece.

    A planner adds the same blocks again, for as many sites in the same order, with the same dependencies; columns other than `CHANGING`,
    and dependencies, are those of the existing schedule, the same arrays. So is a column of `CHANGING` in which no block differs.
    """

    def __init__(self, builder: Builder, schedule: Schedule) -> None:
        """Begin from `schedule`, which `builder` finished."""
        self.kernels, self._schedule = builder.kernels, schedule
        self._blocks = [_Block.of(schedule, handles, at) for handles, at in builder.places()]
        self._added: list[dict[str, NDArray[Any]]] = []
        self._even: dict[str, Ints] = {}  # of columns in which every block has one value: those of the schedule made last

    def add(self, op: Op, lane: Lane, *columns: Columns, where: NDArray[np.bool_] | None = None, after: Sequence[Ints] = ()) -> Ints:
        """Add the next block with a row on every site, taking its work and unit from `columns`. Returns handles, int64 [sites]. Raises
        ValueError for another block than the existing schedule was built of."""
        values: dict[str, ArrayLike] = {"unit": -1}
        for part in columns:
            values.update(part)
        number = len(self._added)
        block = self._blocks[number] if number < len(self._blocks) else None
        sites = np.broadcast(np.asarray(values["rank"]), np.asarray(values["order"])).size
        if block is None or where is not None or (op, lane, sites) != (block.op, block.lane, len(block.handles)):
            raise ValueError(f"schedule '{self._schedule.name}': block {number}, {op.name} of {sites} sites, was not built")
        if "kernels" not in values:
            values["kernels"] = self.kernels.rows(op, lane, values)
        if "bytes" not in values:
            values["bytes"] = self.kernels.moved(op, lane, values)
        arrays = {name: np.asarray(values.get(name, 0)) for name in CHANGING}
        self._added.append({name: array[:1] if array.strides == (0,) else array for name, array in arrays.items()})
        return block.handles

    def link(self, task: Ints, dep: Ints) -> None:
        """Do nothing: the rows wait for what they waited for in the existing schedule."""

    def finish(self) -> Schedule:
        """Return the schedule with the new work, and begin the next one. Raises ValueError for blocks that are missing."""
        if len(self._added) != len(self._blocks):
            raise ValueError(f"schedule '{self._schedule.name}': {len(self._added)} of {len(self._blocks)} blocks")
        self._schedule = self._schedule.with_work(**{name: self._column(name) for name in CHANGING})
        self._added = []
        return self._schedule

    def _column(self, name: str) -> NDArray[Any]:
        """Return a column of the next schedule; the last one's where no block differs."""
        arrays = [array[name] for array in self._added]
        if all(array.size == 1 for array in arrays):
            before, self._even[name] = self._even.get(name), np.array([array.item() for array in arrays], np.int64)
            if before is not None and np.array_equal(before, self._even[name]):
                column: NDArray[Any] = getattr(self._schedule, name)
                return column
        else:
            self._even.pop(name, None)
        column = np.empty(len(self._schedule), COLUMNS[name])
        for block, array in zip(self._blocks, arrays, strict=True):
            block.put(column, array)
        return column
