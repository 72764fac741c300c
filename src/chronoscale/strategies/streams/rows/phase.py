"""Phase: the batches of training or of validation, and the bytes that each of them reads, sends and holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from chronoscale.batching.streams.caching.loading import Loading
from chronoscale.batching.streams.ranks.remote_reads import DistributedStatistics
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.batching.streams.statistics import BatchStatistics
from chronoscale.strategies.planning.builder import Columns
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.streams.models import FP32, StreamShape, shape_of
from chronoscale.strategies.workload import Workload

INDEX = 8
ID = 4
TIME = 8
TRUTH = 1
TRAIN, VALIDATE = 0, 1  # `step` of an epoch's rows
# Places of rows in an iteration. What is fetched is the next one's, unless nothing overlaps: behind what computes, as one thread of the
# host launches a GPU's rows in row order, and before what has to wait for that.
READ, COMPUTE, FETCH, WRITE, PLACES = range(5)


Counted = TypeVar("Counted", BatchStatistics, DistributedStatistics)


@dataclass(frozen=True, slots=True, eq=False)
class BasePhase(Generic[Counted]):
    """Batches of events of an epoch's training or validation (`step` 0 or 1), from which planners make rows: what all of these rows share.

    work: counts of each batch, all ranks' of an iteration side by side. first: the number of its first iteration in the epoch (`unit`).
    edgewise: layers attend edge by edge.
    """

    workload: Workload
    sampling: Sampling
    work: Counted
    ranks: int
    step: int
    first: int
    edgewise: bool = False

    @property
    def shape(self) -> StreamShape:
        """The sizes of the workload's model."""
        return shape_of(self.workload)

    @property
    def iterations(self) -> int:
        """The number of iterations, in each of which every rank has one batch."""
        return len(self.work) // self.ranks

    @property
    def unit(self) -> Ints:
        """The number of each batch's iteration in the epoch, int64 [batches]."""
        return self.first + np.repeat(np.arange(self.iterations), self.ranks)

    def site(self, place: int) -> Columns:
        """Return the columns rank, order, unit, step and iteration of one planned row for each batch. place: where in its iteration the row
        stands."""
        rank = np.tile(np.arange(self.ranks), self.iterations)
        iteration = self.unit if self.step == TRAIN else self.first - 1
        return {"rank": rank, "order": PLACES * self.unit + place, "unit": self.unit, "step": self.step, "iteration": iteration}

    def slots(self) -> Ints:
        """Count the sampled slots of each batch, of all hops, filled with a neighbour or not; int64 [batches]."""
        slots: Ints = (self.work.targets[:, :-1] * np.array(self.sampling.fanouts, np.int64)).sum(1)
        return slots


@dataclass(frozen=True, slots=True, eq=False)
class Phase(BasePhase[BatchStatistics]):
    """Batches of events whose features come from the host, or lie in the device's cache, from which planners make rows (TGL, FAST ...)."""

    loading: Loading = field(default_factory=Loading)

    @property
    def expands(self) -> bool:
        """Whether rows of features are copied on the device before they are read: from a cache, or from where they came once a batch."""
        return gathers(self.shape) and (self.loading.compressed or self.loading.placement is not None)

    @property
    def keeps(self) -> bool:
        """Whether what the device caches changes from batch to batch."""
        return gathers(self.shape) and self.loading.placement is not None and self.loading.placement.dynamic

    def lookahead_bytes(self) -> int:
        """Count the host bytes a rank that a changing cache needs to know of batches ahead: their ids and next uses, and a slot and a use
        for every row."""
        if not self.keeps:
            return 0
        data = self.workload.events
        asked = (self.loading.node > 0) * self.work.unique_nodes + (self.loading.edge > 0) * self.work.unique_edges
        rows = (self.loading.node > 0) * data.num_nodes + (self.loading.edge > 0) * data.events
        return 2 * ID * int(asked.reshape(-1, self.ranks).sum(0).max(initial=0)) + (INDEX + ID) * rows

    def features(self) -> Ints:
        """Count the bytes of node and edge features that are gathered on the host and sent for each batch, int64 [batches]."""
        size: Ints = self.loading.node * self.work.sent_nodes + self.loading.edge * self.work.sent_edges
        return size

    def read(self) -> Ints:
        """Count the bytes of features as a model reads them for each batch: of its nodes, and of edges in sampled slots; int64
        [batches]."""
        size: Ints = self.loading.node * self.work.nodes + self.loading.edge * self.slots()
        return size

    def index(self) -> Ints:
        """Count the bytes of each batch's times and indices: of its roots' times, of the trees of sampled rows, and of where rows are;
        int64 [batches]."""
        size: Ints = (
            TIME * self.work.roots + INDEX * (self.work.targets.sum(1) + self.work.index) + (2 * INDEX + FP32 + TRUTH) * self.slots()
        )
        return size

    def names(self) -> Ints:
        """Count the bytes that tell a model of pairs which rows of each batch are of equal nodes, where nodes are repeated; int64
        [batches]."""
        size: Ints = INDEX * self.work.targets.sum(1) * (self.shape.pairwise and not self.sampling.unique)
        return size


def gathers(shape: StreamShape) -> bool:
    """Return whether batches of events have rows of features to bring to the device, of nodes or of sampled events, for planners."""
    return bool(shape.features or shape.layers * shape.edge)


def state_bytes(shape: StreamShape) -> int:
    """Count the bytes of one graph node's memory and mailbox, with their times, in the host's tables; 0 without memory."""
    return (FP32 * shape.memory + TIME + shape.mails * (FP32 * shape.mail + TIME + TRUTH)) if shape.memory else 0


def pending_bytes(shape: StreamShape) -> int:
    """Count the bytes of one graph node's memory row as a batch reads it: memory and its time, mails (messages of events), and which of
    them there are and how old."""
    return FP32 * shape.memory + TIME + shape.mails * (FP32 * shape.mail + FP32 + 2 * TRUTH)
