"""WindowSites: an epoch of sliding windows, one window an iteration, on all ranks: which snapshots come when, and what each rank has of
them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from chronoscale.batching.snapshots.chunks import BlockCounts
from chronoscale.batching.snapshots.survival import level_of
from chronoscale.errors import UserError
from chronoscale.strategies.flaredtdg.issue_order import Policy
from chronoscale.strategies.flaredtdg.retention import WindowRetention
from chronoscale.strategies.flaredtdg.window import Window
from chronoscale.strategies.planning.builder import Columns as Site
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.snapshots.cell_memory import Region
from chronoscale.strategies.snapshots.cells import Cells
from chronoscale.strategies.snapshots.targets import pair_flops
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.workload import Workload

Mask = NDArray[np.bool_]
Column = TypeVar("Column", Ints, Mask)


@dataclass(frozen=True)
class WindowSites:
    """Counts behind FlareDTDG's plan of an epoch of sliding windows: which snapshots come to the device when, and what each rank has of
    them; a site is a rank in an iteration, columns are [iterations * ranks].

    shrinks: an older snapshot is cut from what is on the device; else its retained part is rebuilt in every step (FlareDTDG §4.3, without
    shrinking).
    """

    name: str
    workload: Workload
    ranks: int
    keeping: WindowRetention
    policy: Policy
    shrinks: bool = True

    @cached_property
    def chunks(self) -> int:
        """The number of vertex chunks (sets of vertices that are kept or dropped together), all ranks together."""
        return self.workload.hyper.recency.chunks

    @cached_property
    def level(self) -> Ints:
        """How far each snapshot of a window has shrunk, int64 [window], the oldest first (0: it is whole; higher: fewer of its chunks);
        snapshots of which nothing is retained are no part of it."""
        decay = self.keeping.decay
        return np.asarray(level_of(decay, self.chunks)[decay.kept_chunks(self.chunks) > 0][::-1])

    @cached_property
    def segments(self) -> list[range]:
        """The runs of consecutive windows that an epoch is cut into, as ranges of their newest snapshots."""
        return self.keeping.segments(self.workload.hyper.seed, 0, self.workload.within(self.keeping.decay))

    @cached_property
    def newest(self) -> Ints:
        """The newest snapshot of each iteration's window, int64 [iterations]."""
        return np.concatenate([np.arange(segment.start, segment.stop) for segment in self.segments])

    @cached_property
    def first(self) -> Mask:
        """Mask of the iterations that begin a segment (a run of consecutive windows), bool [iterations]."""
        return np.concatenate([np.arange(len(segment)) == 0 for segment in self.segments])

    @cached_property
    def last(self) -> Mask:
        """Mask of the iterations that end a segment (a run of consecutive windows), bool [iterations]."""
        return np.append(self.first[1:], True)

    @cached_property
    def _seen_first(self) -> Mask:
        """Mask of the places of windows at which a snapshot is read for the first time in an epoch at its level, bool [iterations, window]:
        windows that read back over the split find what those of the segment before have read.
        """
        snapshot = self.newest[:, None] - np.arange(len(self.level))[::-1]
        pairs = np.stack([snapshot.ravel(), np.broadcast_to(self.level, snapshot.shape).ravel()])
        mask = np.zeros(snapshot.size, bool)
        mask[np.unique(pairs, axis=1, return_index=True)[1]] = True
        return mask.reshape(snapshot.shape)

    def seen_first(self, step: int) -> Mask:
        """Return in which iterations the snapshot at a place of the window is read for the first time in an epoch at its level, bool
        [iterations].
        """
        return self._seen_first[:, step]

    @cached_property
    def _numbered_first(self) -> Mask:
        """Mask of the places of windows at which a snapshot is read for the first time in an epoch, bool [iterations, window]."""
        snapshot = self.newest[:, None] - np.arange(len(self.level))[::-1]
        mask = np.zeros(snapshot.size, bool)
        mask[np.unique(snapshot, return_index=True)[1]] = True
        return mask.reshape(snapshot.shape)

    def numbered_first(self, step: int) -> Mask:
        """Return in which iterations the snapshot at a place of the window is read for the first time in an epoch, bool [iterations]."""
        return self._numbered_first[:, step]

    @cached_property
    def blocks(self) -> BlockCounts:
        """Rows and edges that each rank has of every snapshot, at every level of shrinking. Raises UserError where a model (EvolveGCN-H)
        summarises more nodes than are retained."""
        assert self.workload.chunking is not None
        blocks = self.workload.chunking.count_blocks(self.keeping.epoch(self.workload.hyper.seed, 0), self.keeping.decay, self.ranks)
        model, least = self.workload.model, int(blocks.rows[self.level.max()].sum())
        if model.summarises and least < model.hidden:
            left = f"{self.keeping.decay.alpha:g} leaves {least} nodes of the oldest snapshot"
            raise UserError(f"training.alpha: {left}; model '{model.name}' summarises as many as hidden, {model.hidden}")
        return blocks

    @cached_property
    def cells(self) -> Cells:
        """Counts of the work of the model's layers on a part of a snapshot."""
        return Cells(self.workload.model, recomputes=False, parts=self.ranks > 1, replicated=True)

    @cached_property
    def window(self) -> Window:
        """The operations of one training step, as coroutines, a snapshot each."""
        remaps = frozenset(np.flatnonzero(self.level > 0).tolist() if not self.shrinks else ())
        gathers = self.predicting if self.ranks > 1 and task_of(self.workload.hyper.task).pairs else ()
        return Window(self.workload.model, len(self.level), self.ranks > 1, remaps, frozenset(gathers))

    @property
    def predicting(self) -> range:
        """The steps of a window that have a prediction: the newest snapshot's, or every one where weights evolve, or as published."""
        length = len(self.level)
        return range(0 if self.workload.model.predicts_each or self.keeping.each else length - 1, length)

    def pair_work(self, step: int) -> tuple[Ints, Ints]:
        """Return what decoding a step's pairs of nodes adds to its gradient on every rank, int64 [iterations * ranks] both: nodes whose
        readouts are gathered, of all ranks (0 on one), and floating-point operations, as if all pairs were retained; zeros for a step or a
        task that predicts none."""
        at = self.region(step, int(self.level[step]))
        if step not in self.predicting or not task_of(self.workload.hyper.task).pairs:
            return np.zeros_like(at.rows), np.zeros_like(at.rows)
        goal = self.newest - (len(self.level) - 1 - step) + self.workload.hyper.horizon
        total = np.full_like(at.rows, self.blocks.rows[int(self.level[step])].sum() * (self.ranks > 1))
        return total, pair_flops(self.workload, self.per_rank(goal), at.rows)

    def region(self, step: int, level: int) -> Region:
        """Return the counts of what ranks have of one snapshot of each iteration's window (`step`, 0 the oldest), shrunk to `level`."""
        snapshot = self.newest - (len(self.level) - 1 - step)
        rows = np.tile(self.blocks.rows[level], len(snapshot))
        edges, halo, sent = (column[snapshot, level].ravel() for column in (self.blocks.edges, self.blocks.halo, self.blocks.sent))
        summary = np.minimum(self.blocks.rows[level], self.workload.model.hidden).sum()
        return Region(rows, edges, halo, sent, np.full_like(rows, summary))

    def per_rank(self, iterations: Column) -> Column:
        """Repeat a column of iterations for every rank: [iterations] to [iterations * ranks]."""
        return cast(Column, np.repeat(iterations, self.ranks))

    def comes(self, step: int) -> Mask:
        """Return in which iterations the snapshot at a place of the window (`step`, 0 the oldest) is sent from the host, bool [iterations].

        So are all of a segment's first window, then the newest, and one of which a window retains more than the window before.
        """
        grows = step + 1 == len(self.level) or (self.shrinks and self.level[step] < self.level[step + 1])
        return self.first | bool(grows)

    def level_on_device(self, step: int) -> int:
        """Return how far the snapshot at a place of the window (`step`) has shrunk as it lies on the device: 0, it is whole, where parts
        are rebuilt."""
        return int(self.level[step]) if self.shrinks else 0

    @property
    def rows(self) -> int:
        """The number of rows of the epoch's schedule, known before it is made."""
        come = sum(int(np.count_nonzero(self.comes(step))) for step in range(len(self.level)))
        return self.ranks * (len(self.newest) * (len(self.window.needs()) + 1 + (self.ranks > 1)) + come * (1 + self.shrinks))

    def site(self) -> Site:
        """Return the columns rank, iteration and unit of every (iteration, rank), for the planner's blocks."""
        iteration = np.arange(len(self.newest))
        return {"rank": np.tile(np.arange(self.ranks), len(iteration)), **dict.fromkeys(("iteration", "unit"), self.per_rank(iteration))}
