"""Builder: schedules made of blocks of rows, so that millions of tasks are planned by a few array operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chronoscale.strategies.costing.kernels import SINGLE, Kernels
from chronoscale.strategies.schedule import COLUMNS, Ints, Lane, Op, Schedule

NONE = -1
Columns = Mapping[str, ArrayLike]


class Sink(Protocol):
    """Interface to which planners add rows: a Builder, which makes the schedule, or a Timer in its place, which estimates how long it
    takes."""

    def add(self, op: Op, lane: Lane, *columns: Columns, where: NDArray[np.bool_] | None = None, after: Sequence[Ints] = ()) -> Ints:
        """Add one row at each site (a place where a planner's iteration happens: a snapshot group, or a rank and iteration); return one
        handle a site, int64 [sites], which goes into `after` of rows that wait for it."""
        ...


class Blocks(Sink, Protocol):
    """Interface to which planners add rows that can be linked later: a Builder, or a Recast in its place."""

    kernels: Kernels

    def link(self, task: Ints, dep: Ints) -> None:
        """Let rows wait for other rows, site by site. task, dep: handles that `add` returned, int64 [sites]; where either is -1 nothing
        happens."""
        ...


class Builder:
    """Collector of a planner's rows, added in blocks so that millions are built by a few array operations; `finish` makes the schedule.

    A block is one row for each of n *sites* (a site: a snapshot group, or a rank and iteration). `add` returns one row handle a site, -1
    where `where` is false; handles go into `after` of later blocks. Rows are finally sorted by `order` (stable, so that blocks of equal
    order keep the sequence in which they were added). A planner therefore reads like one iteration of its strategy.
    """

    def __init__(
        self, name: str, ranks: int, resident: int = 0, kind: str = "groups", host: int = 0, feeding: str = "", kernels: Kernels = SINGLE
    ) -> None:
        """Begin a schedule with these fields of `Schedule`; `kernels` counts the kernels and bytes of every block that does not say
        them."""
        self.kernels = kernels
        self.name = name
        self.ranks = ranks
        self.resident = resident
        self.kind = kind
        self.host = host
        self.feeding = feeding
        self._blocks: list[dict[str, NDArray[np.generic]]] = []
        self._order: list[Ints] = []
        self._edges: list[tuple[Ints, Ints]] = []
        self._count = 0

    def add(self, op: Op, lane: Lane, *columns: Columns, where: NDArray[np.bool_] | None = None, after: Sequence[Ints] = ()) -> Ints:
        """Append a block to the planned schedule: one operation in one lane, a row on each site.

        columns: of the schedule (work, unit, layer ...; later ones win), numbers or arrays [sites]; `rank` and `order` (by which rows are
        finally sorted) are among them. where: bool [sites], which sites have the row; after: handles [sites] of rows that it waits for.
        Returns handles int64 [sites], -1 without a row. Raises TypeError for a column that no schedule has.
        """
        values: dict[str, ArrayLike] = {"collective": NONE, "unit": NONE, "step": NONE, "layer": NONE}
        for part in columns:
            values.update(part)
        order = np.asarray(values.pop("order"), np.int64)
        if unknown := set(values) - set(COLUMNS):
            raise TypeError(f"no such schedule column: {', '.join(sorted(unknown))}")
        values |= {"op": int(op), "lane": int(lane)}
        if "kernels" not in values:
            values["kernels"] = self.kernels.rows(op, lane, values)
        if "bytes" not in values:
            values["bytes"] = self.kernels.moved(op, lane, values)
        sites = np.broadcast(np.asarray(values["rank"]), order).size
        chosen = np.arange(sites) if where is None else np.flatnonzero(where)
        handles = np.full(sites, NONE, np.int64)
        handles[chosen] = self._count + np.arange(len(chosen))

        def column(name: str) -> NDArray[np.generic]:
            """Return a column of the block's rows."""
            return np.broadcast_to(np.asarray(values.get(name, 0), dtype=COLUMNS[name]), sites)[chosen]

        self._blocks.append({name: column(name) for name in COLUMNS})
        self._order.append(np.broadcast_to(order, sites)[chosen])
        for source in after:
            self.link(handles, source)
        self._count += len(chosen)
        return handles

    def link(self, task: Ints, dep: Ints) -> None:
        """Let rows wait for rows that were added later, such as an earlier iteration's end; site by site. task, dep: handles int64 [sites];
        where either is -1 nothing happens."""
        present = (task >= 0) & (dep >= 0)
        self._edges.append((task[present], dep[present]))

    def finish(self) -> Schedule:
        """Return the schedule of all blocks, sorted. Raises ValueError when a row waits for a later one."""
        if not self._blocks:
            empty: dict[str, Any] = {name: np.empty(0, dtype) for name, dtype in COLUMNS.items()}
            return self._freeze(empty, np.zeros(1, np.int64), np.empty(0, np.int64))
        rows, place = self._sort_rows()
        columns: dict[str, Any] = {name: np.concatenate([block[name] for block in self._blocks])[rows] for name in COLUMNS}
        task = place[np.concatenate([e[0] for e in self._edges])] if self._edges else np.empty(0, np.int64)
        dep = place[np.concatenate([e[1] for e in self._edges])] if self._edges else np.empty(0, np.int64)
        by_task = np.argsort(task, kind="stable")
        ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(task, minlength=self._count))])
        return self._freeze(columns, ptr, dep[by_task])

    def places(self) -> list[tuple[Ints, Ints]]:
        """Return where the rows of each block stand in the finished schedule: handles and row numbers, int64 [rows of the block] both, for
        `Recast`."""
        _, place = self._sort_rows()
        ends = np.cumsum([len(order) for order in self._order])
        return [(np.arange(end - len(order), end), place[end - len(order) : end]) for order, end in zip(self._order, ends, strict=True)]

    def _sort_rows(self) -> tuple[Ints, Ints]:
        """Return the rows sorted by `order`, and the place of each row in that order."""
        rows = np.argsort(np.concatenate(self._order), kind="stable")
        place = np.empty(self._count, np.int64)
        place[rows] = np.arange(self._count)
        return rows, place

    def _freeze(self, columns: dict[str, Any], ptr: Ints, dep: Ints) -> Schedule:
        """Return a schedule of these columns and dependencies."""
        columns |= {"dep_ptr": ptr, "dep": dep, "kind": self.kind, "host": self.host, "feeding": self.feeding}
        return Schedule(self.name, self.ranks, self.resident, **columns)
