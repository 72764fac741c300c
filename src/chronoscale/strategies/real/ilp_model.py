"""REAL-L's integer programs: the paper's (REAL eq. 9-14), and one without the symmetry of GPUs and iterations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.scheduling.matching import Mates
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.real.benefit import Benefit
from chronoscale.strategies.real.seats import makespan, seat, seats
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.snapshots.groups import CAPACITY

INF = float("inf")


@dataclass(frozen=True, slots=True, eq=False)
class SparseMatrix:
    """Sparse matrix of an integer program's constraints, by its entries: `row` and `column` int64, `value` float64, each place once, by
    column."""

    row: Ints
    column: Ints
    value: Floats
    shape: tuple[int, int]

    @classmethod
    def of(cls, row: Ints, column: Ints, value: Floats, shape: tuple[int, int]) -> SparseMatrix:
        """Return the matrix of entries in any order; those of one place are added up. row, column: int64 [entries]; value: float64
        [entries]."""
        place, which = np.unique(column * shape[0] + row, return_inverse=True)
        return cls(place % shape[0], place // shape[0], np.bincount(which, value, len(place)).astype(np.float64), shape)

    def above(self, other: SparseMatrix) -> SparseMatrix:
        """Return this matrix with the rows of another, of the same width, below its own."""
        row, column = np.concatenate([self.row, other.row + self.shape[0]]), np.concatenate([self.column, other.column])
        return SparseMatrix.of(row, column, np.concatenate([self.value, other.value]), (self.shape[0] + other.shape[0], self.shape[1]))

    def __matmul__(self, x: Floats) -> Floats:
        """Return the product with a vector, float64 [rows]."""
        product: Floats = np.bincount(self.row, self.value * x[self.column], self.shape[0]).astype(np.float64)
        return product


@dataclass(frozen=True, slots=True, eq=False)
class IntegerProgram:
    """REAL-L's problem for a solver: min cost @ x with row_lower <= rows @ x <= row_upper, lower <= x <= upper, x integer where `integer`;
    float64.

    Values are in `unit` ns, so that they are about 1. `start`: a feasible x. `mates`: turns x into the partner of each snapshot group.
    Loads may be rounded down (`compact_program`): then the optimum is a lower bound on the makespan.
    """

    formulation: str
    unit: float
    cost: Floats
    lower: Floats
    upper: Floats
    integer: NDArray[np.bool_]
    rows: SparseMatrix
    row_lower: Floats
    row_upper: Floats
    start: Floats
    mates: Callable[[Floats], Mates]

    def at_least(self, makespan_ns: float) -> IntegerProgram:
        """Return the program with one more constraint, which any solution meets: the objective is not below a certified bound on the
        makespan, ns."""
        below = SparseMatrix(np.zeros(len(self.cost), np.int64), np.arange(len(self.cost)), self.cost, (1, len(self.cost)))
        low, high = np.append(self.row_lower, makespan_ns / self.unit), np.append(self.row_upper, INF)
        return replace(self, rows=self.rows.above(below), row_lower=low, row_upper=high)


class _Constraints:
    """A collector of constraints in blocks: entries (row within the block, column, value), and limits a row."""

    def __init__(self) -> None:
        self.count = 0
        self.row = [np.empty(0, np.int64)]
        self.column = [np.empty(0, np.int64)]
        self.value = [np.empty(0)]
        self.lower, self.upper = [np.empty(0)], [np.empty(0)]

    def add(self, count: int, entries: list[tuple[Ints, Ints, float | Floats]], lower: float, upper: float) -> None:
        """Add `count` constraints with their entries and limits."""
        for row, column, value in entries:
            self.row.append(row + self.count)
            self.column.append(column)
            self.value.append(np.broadcast_to(np.asarray(value, np.float64), row.shape))
        self.lower.append(np.full(count, lower))
        self.upper.append(np.full(count, upper))
        self.count += count

    def matrix(self, columns: int) -> tuple[SparseMatrix, Floats, Floats]:
        """Return the matrix of all constraints, and their lower and upper limits."""
        rows = SparseMatrix.of(np.concatenate(self.row), np.concatenate(self.column), np.concatenate(self.value), (self.count, columns))
        return rows, np.concatenate(self.lower), np.concatenate(self.upper)


def published_program(benefits: Benefit, gpus: int, alpha: float, start: Mates) -> IntegerProgram:
    """Build REAL-L's integer program as the paper has it (REAL eq. 9-14), for a solver.

    benefits: times of snapshot groups and what pairs save. alpha: ns of synchronisation an iteration. start: partners of a known placement.
    x_{k,i,j}: group k in iteration i on GPU j (eq. 11-12); y: both of a pair there (McCormick, eq. 13); T_i over every load (eq. 14). As
    many iterations as groups could need without pairs. y is made for the pairs that save something: others do not enter eq. 14. Where alpha
    > 0 an iteration costs it only when it is used.
    """
    n = len(benefits.times)
    m = -(-n // gpus)
    places = m * gpus
    near, apart = np.nonzero(benefits.reuse > 0)
    far = near + apart + 1
    near, far, saved = near[far < n], far[far < n], benefits.reuse[near, apart][far < n]
    pairs = len(near)
    y0, t0 = n * places, (n + pairs) * places
    u0, total = t0 + m, t0 + 2 * m
    unit = makespan(benefits, start, gpus, alpha) or 1.0
    group, place = (grid.ravel() for grid in np.meshgrid(np.arange(n), np.arange(places), indexing="ij"))
    pair, spot = (grid.ravel() for grid in np.meshgrid(np.arange(pairs), np.arange(places), indexing="ij"))
    x, y = group * places + place, y0 + pair * places + spot
    at_first, at_second = near[pair] * places + spot, far[pair] * places + spot
    each, iteration = np.arange(pairs * places), np.arange(places) // gpus
    rows = _Constraints()
    rows.add(n, [(group, x, 1.0)], 1, 1)
    rows.add(places, [(place, x, 1.0)], -INF, CAPACITY)
    rows.add(len(each), [(each, y, 1.0), (each, at_first, -1.0)], -INF, 0)
    rows.add(len(each), [(each, y, 1.0), (each, at_second, -1.0)], -INF, 0)
    rows.add(len(each), [(each, y, 1.0), (each, at_first, -1.0), (each, at_second, -1.0)], -1, INF)
    load = [(place, x, -benefits.times[group] / unit), (spot, y, saved[pair] / unit)]
    rows.add(places, [(np.arange(places), t0 + iteration, 1.0), *load], 0, INF)
    rows.add(m, [(place // gpus, x, -1.0), (np.arange(m), u0 + np.arange(m), float(CAPACITY * gpus))], 0, INF)
    matrix, low, high = rows.matrix(total)
    cost = np.zeros(total)
    cost[t0:u0], cost[u0:] = 1.0, alpha / unit
    upper = np.ones(total)
    upper[t0:u0] = INF
    integer = np.ones(total, bool)
    integer[t0:u0] = False

    placed = seat(benefits, start, gpus)
    first = np.zeros(total)
    first[np.arange(n) * places + placed.site] = 1
    together = placed.site[near] == placed.site[far]
    first[y0 + np.flatnonzero(together) * places + placed.site[near][together]] = 1
    start_seats = seats(benefits, start)
    np.maximum.at(first, t0 + placed.iteration[start_seats[0]], start_seats[2] / unit)
    first[u0 + placed.iteration] = 1

    def decode(values: Floats) -> Mates:
        """Return the partners that a solution means."""
        site = np.argmax(values[:y0].reshape(n, places), axis=1)
        order = np.argsort(site, kind="stable")
        partners = np.full(n, -1, np.int32)
        same = np.flatnonzero(site[order][1:] == site[order][:-1])
        partners[order[same]], partners[order[same + 1]] = order[same + 1], order[same]
        return partners

    return IntegerProgram("published", unit, cost, np.zeros(total), upper, integer, matrix, low, high, first, decode)


def compact_program(benefits: Benefit, gpus: int, alpha: float, start: Mates, levels: int = 0) -> IntegerProgram:
    """Build REAL-L's integer program (which snapshot groups share a GPU) without the symmetry of GPUs and iterations.

    It does not name these: there is nothing to permute, and solvers end sooner. benefits: ns that each snapshot group takes, and ns that
    each pair saves on one GPU. start: partners of a known placement; alpha: ns of synchronisation an iteration. Variables: z_p: seat p (a
    single group, or any pair) is taken; N_g: seats of load >= level g; u_g: iterations whose longest load reaches level g. Iterations
    filled by falling load are the best there are, so D u_g >= N_g (D GPUs) with u_g integer says all that the paper's x_{k,i,j} says.
    Objective: alpha u_0 + the sum over levels of (level_g - level_{g-1}) u_g, which is eq. 10 when every load is a level (levels 0).
    Otherwise loads are rounded down to `levels` of them: smaller, and a bound.
    """
    n = len(benefits.times)
    near, far = np.triu_indices(n, 1)
    first = np.concatenate([np.arange(n), near])
    second = np.concatenate([np.full(n, -1), far])
    start_first, start_second, _ = seats(benefits, start)
    taken = np.isin(first * (n + 1) + second, start_first * (n + 1) + start_second)
    members = np.stack([first, second], axis=1)
    unit = makespan(benefits, start, gpus, alpha)

    def decode(values: Floats) -> Mates:
        """Return the partners that a solution means."""
        partners = np.full(n, -1, np.int32)
        pairs = np.flatnonzero((values[: len(first)] > 0.5) & (second >= 0))
        partners[first[pairs]], partners[second[pairs]] = second[pairs], first[pairs]
        return partners

    return seat_program(members, benefits.load(first, second), taken, (gpus, alpha, unit), decode, levels)


def seat_program(
    members: Ints,
    load: Floats,
    taken: NDArray[np.bool_],
    sizes: tuple[int, float, float],
    decode: Callable[[Floats], Mates],
    levels: int = 0,
) -> IntegerProgram:
    """Build the program that picks seats (what a GPU trains in an iteration) of snapshot groups, of which `compact_program` has pairs.

    members: groups of each seat that may be picked, int64 [seats, most], -1 for none; load: ns of each, float64 [seats]; taken: those of a
    known placement, bool [seats]. sizes: GPUs, ns of synchronisation an iteration, and that placement's makespan, ns. decode: turns a
    solution into the partner of each group. levels: of loads that are told apart, 0: all.
    """
    gpus, alpha, unit = sizes[0], sizes[1], sizes[2] or 1.0
    n = int(members.max(initial=-1)) + 1
    level = _levels(load, load[taken], levels)
    cell = np.searchsorted(level, load, side="right") - 1
    count, n0 = len(level), len(load)
    u0, total = n0 + count, n0 + 2 * count
    up, rise = np.arange(count), np.arange(count - 1)
    rows = _Constraints()
    seat_columns, place = np.nonzero(members >= 0)
    rows.add(n, [(members[seat_columns, place], seat_columns, 1.0)], 1, 1)
    seat_columns = np.arange(n0)
    rows.add(count, [(cell, seat_columns, 1.0), (up, n0 + up, -1.0), (rise, n0 + rise + 1, 1.0)], 0, 0)
    rows.add(count, [(up, u0 + up, float(gpus)), (up, n0 + up, -1.0)], 0, INF)
    rows.add(count - 1, [(rise, u0 + rise, 1.0), (rise, u0 + rise + 1, -1.0)], 0, INF)
    matrix, low, high = rows.matrix(total)
    cost = np.zeros(total)
    cost[u0:] = np.diff(level, prepend=0.0) / unit
    cost[u0] += alpha / unit
    upper = np.ones(total)
    upper[n0:u0], upper[u0:] = n, -(-n // gpus)
    integer = np.ones(total, bool)
    integer[n0:u0] = False

    begin = np.zeros(total)
    begin[:n0][taken] = 1
    begin[n0:u0] = np.bincount(cell, begin[:n0], count)[::-1].cumsum()[::-1]
    begin[u0:] = np.ceil(begin[n0:u0] / gpus)
    return IntegerProgram("compact", unit, cost, np.zeros(total), upper, integer, matrix, low, high, begin, decode)


def _levels(load: Floats, used: Floats, most: int) -> Floats:
    """Return the levels that loads are rounded down to, ascending: all loads, or `most` of them."""
    every = np.unique(load)
    if not most or len(every) <= most:
        return every
    spaced = np.linspace(every[0], used.max(), most - most // 4)
    return np.unique(np.concatenate([every[:1], spaced, np.quantile(every, np.linspace(0, 1, most // 4), method="lower")]))
