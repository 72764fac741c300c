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
    """The batches of training or of validation (`step`): what all of their rows share. first: its first unit. edgewise: layers attend edge
    by edge."""

    workload: Workload
    sampling: Sampling
    work: Counted
    ranks: int
    step: int
    first: int
    edgewise: bool = False

    @property
    def shape(self) -> StreamShape:
        """The sizes of the model."""
        return shape_of(self.workload)

    @property
    def iterations(self) -> int:
        """The number of iterations."""
        return len(self.work) // self.ranks

    @property
    def unit(self) -> Ints:
        """The unit of each batch, int64 [batches]."""
        return self.first + np.repeat(np.arange(self.iterations), self.ranks)

    def site(self, place: int) -> Columns:
        """Return the columns of one row a batch, `place` places after its iteration's begin."""
        rank = np.tile(np.arange(self.ranks), self.iterations)
        iteration = self.unit if self.step == TRAIN else self.first - 1
        return {"rank": rank, "order": PLACES * self.unit + place, "unit": self.unit, "step": self.step, "iteration": iteration}

    def slots(self) -> Ints:
        """Return the slots of all levels of each batch, filled or not; int64 [batches]."""
        slots: Ints = (self.work.targets[:, :-1] * np.array(self.sampling.fanouts, np.int64)).sum(1)
        return slots


@dataclass(frozen=True, slots=True, eq=False)
class Phase(BasePhase[BatchStatistics]):
    """Batches whose rows of features come from the host, or lie in the device's cache."""

    loading: Loading = field(default_factory=Loading)

    @property
    def expands(self) -> bool:
        """Whether rows of features stand elsewhere on the device than they are read: in a cache, or once a batch."""
        return gathers(self.shape) and (self.loading.compressed or self.loading.placement is not None)

    @property
    def keeps(self) -> bool:
        """Whether what the device holds changes from batch to batch."""
        return gathers(self.shape) and self.loading.placement is not None and self.loading.placement.dynamic

    def lookahead_bytes(self) -> int:
        """Return the host bytes a rank of what is known of batches ahead: their ids and next uses, and a slot and a use for every row."""
        if not self.keeps:
            return 0
        data = self.workload.events
        asked = (self.loading.node > 0) * self.work.unique_nodes + (self.loading.edge > 0) * self.work.unique_edges
        rows = (self.loading.node > 0) * data.num_nodes + (self.loading.edge > 0) * data.events
        return 2 * ID * int(asked.reshape(-1, self.ranks).sum(0).max(initial=0)) + (INDEX + ID) * rows

    def features(self) -> Ints:
        """Return the bytes of node and edge features that are gathered and sent, int64 [batches]."""
        size: Ints = self.loading.node * self.work.sent_nodes + self.loading.edge * self.work.sent_edges
        return size

    def read(self) -> Ints:
        """Return the bytes of features as a model reads them: of the batch's nodes, and of edges in slots; int64 [batches]."""
        size: Ints = self.loading.node * self.work.nodes + self.loading.edge * self.slots()
        return size

    def index(self) -> Ints:
        """Return the bytes of the roots' times, of the indices that make trees of rows, and of those that say where rows are; int64
        [batches]."""
        size: Ints = (
            TIME * self.work.roots + INDEX * (self.work.targets.sum(1) + self.work.index) + (2 * INDEX + FP32 + TRUTH) * self.slots()
        )
        return size


def gathers(shape: StreamShape) -> bool:
    """Return whether a batch has rows of features, of nodes or of sampled events."""
    return bool(shape.features or shape.layers * shape.edge)


def state_bytes(shape: StreamShape) -> int:
    """Return the bytes of one node's memory and mailbox, and their times, in the host's tables."""
    return (FP32 * shape.memory + TIME + shape.mails * (FP32 * shape.mail + TIME + TRUTH)) if shape.memory else 0


def pending_bytes(shape: StreamShape) -> int:
    """Return the bytes of one node's row as it is read: memory and its time, mails, and which of them there are and how old."""
    return FP32 * shape.memory + TIME + shape.mails * (FP32 * shape.mail + FP32 + 2 * TRUTH)
