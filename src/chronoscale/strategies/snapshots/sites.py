"""Sites: which snapshot groups a planner of whole groups adds rows of, and what it knows of the rows that it has added."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from chronoscale.strategies.planning.builder import NONE
from chronoscale.strategies.schedule import Ints

SLOTS = 6  # order keys an iteration: two groups forward, their backward passes where those come later, synchronisation
HANDLES = ("first", "reads", "last")  # of `GroupRows`: numbers of rows; the others count


@dataclass(frozen=True, slots=True, eq=False)
class GroupSites:
    """Snapshot groups whose rows a planner (PSG, BLAD, REAL) adds at once, and where they go; int64 [n] each.

    unit: the group's number. shift > 0: the group starts that many snapshots after the first group of its rank and iteration and shares the
    others with it. span: snapshots of this group and of those that it shares any with. gate: handles that its first transfer waits for
    (-1: none).
    """

    unit: Ints
    rank: Ints
    order: Ints
    iteration: Ints
    shift: Ints
    span: Ints
    gate: Ints

    def leads(self, group_size: int) -> NDArray[np.bool_]:
        """Return which groups are the first of two that share snapshots, bool [n]."""
        leads: NDArray[np.bool_] = (self.shift == 0) & (self.span > group_size)
        return leads

    def at(self, which: Ints) -> GroupSites:
        """Return some of these sites, by their place."""
        return GroupSites(*(getattr(self, field.name)[which] for field in fields(self)))


@dataclass(frozen=True, slots=True, eq=False)
class GroupRows:
    """Planned rows of snapshot groups (PSG, BLAD, REAL): handles and counts on which later rows depend, int64 [n] each.

    first, last: handles of its first transfer and last forward row; reads: the first row that reads parameters where no aggregation comes
    before it. held: device bytes of its own snapshots; rows, edges: transformed rows and attended edges of these; kernels, moved: of their
    gradient. active: bytes of what is the group's alone; fresh: edges of its own snapshots.
    """

    first: Ints
    reads: Ints
    last: Ints
    held: Ints
    rows: Ints
    edges: Ints
    kernels: Ints
    moved: Ints
    active: Ints
    fresh: Ints

    def at(self, unit: Ints) -> GroupRows:
        """Return the rows of some of these groups, by their place; -1: all counts 0, without rows."""
        return GroupRows(*(np.append(getattr(self, field.name), NONE if field.name in HANDLES else 0)[unit] for field in fields(self)))


@dataclass(slots=True)
class FirstLayerRows:
    """Rows of the first layer of a snapshot: handles of its transfer and aggregation, bytes that stay allocated, and the counts of
    `GroupRows`.
    """

    arrived: Ints
    reads: Ints
    ready: Ints
    held: Ints
    rows: Ints
    edges: Ints
    kernels: Ints
    moved: Ints
