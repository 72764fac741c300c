"""Sites: an epoch of sliding windows, one window an iteration, on all ranks: what comes when, what is kept of it, what each rank has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from chronoscale.batching.snapshots.chunks import BlockCounts
from chronoscale.batching.snapshots.survival import level_of
from chronoscale.errors import UserError
from chronoscale.strategies.flaredtdg.keeping import Keeping
from chronoscale.strategies.flaredtdg.turns import Policy
from chronoscale.strategies.flaredtdg.window import Window
from chronoscale.strategies.planning.builder import Columns as Site
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.snapshots.cells import Cells, Region
from chronoscale.strategies.workload import Workload

Mask = NDArray[np.bool_]
Column = TypeVar("Column", Ints, Mask)


@dataclass(frozen=True)
class Sites:
    """An epoch on `ranks` ranks; a site is an iteration on a rank, columns are int64 [iterations * ranks].

    shrinks: an older snapshot is cut from what is on the device; else what is kept of it is built anew in every step (FlareDTDG §4.3,
    without shrinking)."""

    name: str
    workload: Workload
    ranks: int
    keeping: Keeping
    policy: Policy
    shrinks: bool = True

    @cached_property
    def chunks(self) -> int:
        return self.workload.hyper.recency.chunks

    @cached_property
    def level(self) -> Ints:
        """What each step of a window keeps, the oldest first; snapshots of which nothing is kept are no part of it."""
        decay = self.keeping.decay
        return np.asarray(level_of(decay, self.chunks)[decay.kept_chunks(self.chunks) > 0][::-1])

    @cached_property
    def segments(self) -> list[range]:
        decay = self.keeping.decay
        return self.keeping.epoch(self.workload.hyper.seed, 0).steps(self.workload.within(decay), decay.window)

    @cached_property
    def newest(self) -> Ints:
        """Newest snapshot of each iteration, int64 [iterations]."""
        return np.concatenate([np.arange(one.start, one.stop) for one in self.segments])

    @cached_property
    def first(self) -> Mask:
        """Iterations that a segment begins with."""
        return np.concatenate([np.arange(len(one)) == 0 for one in self.segments])

    @cached_property
    def last(self) -> Mask:
        """Iterations that a segment ends with."""
        return np.append(self.first[1:], True)

    @cached_property
    def blocks(self) -> BlockCounts:
        assert self.workload.chunking is not None
        found = self.workload.chunking.count_blocks(self.keeping.epoch(self.workload.hyper.seed, 0), self.keeping.decay, self.ranks)
        model, least = self.workload.model, int(found.rows[self.level.max()].sum())
        if model.summarises and least < model.hidden:
            left = f"{self.keeping.decay.alpha:g} leaves {least} nodes of the oldest snapshot"
            raise UserError(f"training.alpha: {left}; model '{model.name}' summarises as many as hidden, {model.hidden}")
        return found

    @cached_property
    def cells(self) -> Cells:
        return Cells(self.workload.model, recomputes=False, parts=self.ranks > 1, replicated=True)

    @cached_property
    def window(self) -> Window:
        remaps = frozenset(np.flatnonzero(self.level > 0).tolist() if not self.shrinks else ())
        return Window(self.workload.model, len(self.level), self.ranks > 1, remaps)

    def region(self, step: int, level: int) -> Region:
        """What ranks have of the snapshots of a step at a level."""
        snapshot = self.newest - (len(self.level) - 1 - step)
        rows = np.tile(self.blocks.rows[level], len(snapshot))
        edges, halo, sent = (column[snapshot, level].ravel() for column in (self.blocks.edges, self.blocks.halo, self.blocks.sent))
        summary = np.minimum(self.blocks.rows[level], self.workload.model.hidden).sum()
        return Region(rows, edges, halo, sent, np.full_like(rows, summary))

    def per_rank(self, iterations: Column) -> Column:
        """A value an iteration for every rank."""
        return cast(Column, np.repeat(iterations, self.ranks))

    def comes(self, step: int) -> Mask:
        """Iterations in which a step's snapshot comes from the host: all of a segment's first window, then the newest, and one of which
        more is kept than a step before."""
        grows = step + 1 == len(self.level) or (self.shrinks and self.level[step] < self.level[step + 1])
        return self.first | bool(grows)

    def held(self, step: int) -> int:
        """The level at which a step's snapshot is on the device once it is there."""
        return int(self.level[step]) if self.shrinks else 0

    @property
    def rows(self) -> int:
        """Of the epoch's schedule."""
        come = sum(int(np.count_nonzero(self.comes(step))) for step in range(len(self.level)))
        return self.ranks * (len(self.newest) * (len(self.window.needs()) + 1 + (self.ranks > 1)) + come * (1 + self.shrinks))

    def site(self) -> Site:
        iteration = np.arange(len(self.newest))
        return {"rank": np.tile(np.arange(self.ranks), len(iteration)), **dict.fromkeys(("iteration", "unit"), self.per_rank(iteration))}
