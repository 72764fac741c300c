"""SpreadPhase: the batches of training or of validation where node memory is spread over ranks, and the bytes that ranks exchange."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from chronoscale.batching.streams.ranks.remote_reads import DistributedStatistics
from chronoscale.strategies.planning.builder import Columns
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.streams.models import FP32, StreamShape
from chronoscale.strategies.streams.rows.phase import ID, INDEX, TIME, TRUTH, BasePhase, state_bytes
from chronoscale.strategies.streams.spread.sharing import Sharing

# `layer` of ALLTOALL rows: ids that are asked for, their rows, contributions to others' rows
IDS = 0
ROWS = 1
BACK = 2
SYNCHRONISED_ROWS = 3  # rows of shared nodes, where ranks are several groups; one group gathers them by ALLGATHER
OWN, COMMON = 0, 1  # `layer` of MEMORY_WRITE rows: what a rank has computed or been sent; what has become of shared nodes
STEPS = 8  # places in an iteration
# Layers are issued as soon as they may be: behind them one thread of a GPU's host waits for what comes.
BEGIN, COMPUTE, SETTLE, FETCH, COMMUNE, READ, PREPARE, UPDATE = range(8)
# collectives of an iteration beside IDS, ROWS and BACK; at most so many
GRADIENTS = 3
SHARED = 4
WORDS = 5


@dataclass(frozen=True, slots=True, eq=False)
class SpreadPhase(BasePhase[DistributedStatistics]):
    """Batches of events of ranks that have parts, or copies, of node memory, from which planners make rows (MemShare, MSPipe, DistTGL).

    sent: the share of the changes of shared nodes that ranks are taken to send each other.
    """

    sharing: Sharing = field(default_factory=Sharing)
    sent: float = 1.0

    @property
    def exchanges(self) -> bool:
        """Whether ranks have rows of node memory that others read: several ranks of a group, each with a part."""
        return self.members > 1

    @property
    def members(self) -> int:
        """How many ranks a group has, which together have all of node memory."""
        return self.sharing.spread(self.workload.hyper).members(self.ranks)

    @property
    def staleness(self) -> int:
        """How many iterations memory may be behind when it is read (MSPipe); 0: it is up to date."""
        return self.workload.hyper.events.sharing.staleness * self.sharing.stale

    @property
    def ahead(self) -> int:
        """How many iterations before its own a batch is sampled; 0: nothing overlaps."""
        return max(2, 1 + self.staleness) if self.sharing.pipelined else 0

    def reading(self, step: int) -> Columns:
        """Return the columns of planned rows that read node memory, own (`step` READ) or other ranks' (FETCH).

        Others' rows are read as soon as what the iteration before did to them is settled, own ones when it is known what has become of
        shared ones, too; with stale memory before all that.
        """
        return self.place(BEGIN, self.staleness) if self.staleness else self.place(step, int(self.sharing.pipelined))

    def place(self, step: int, ahead: int = 0) -> Columns:
        """Return the columns of one planned row for each batch. step: which part of an iteration it belongs to (a constant such as
        COMPUTE); ahead: how many iterations before its own; both count only where lanes overlap, else rows run in turn."""
        return {**self.site(0), "order": STEPS * (self.unit - ahead) + step if self.sharing.pipelined else self.unit}

    def collective(self, which: int) -> Ints:
        """Return the id of one of an iteration's collectives for each batch, int64 [batches]. which: a constant such as GRADIENTS."""
        return WORDS * self.unit + which

    def row(self) -> int:
        """Return the bytes of a graph node's row that is fetched from another rank: memory, mailbox, features."""
        return state_bytes(self.shape) + FP32 * self.shape.features

    def edge(self) -> int:
        """Return the bytes of an event's features; 0 where no layer reads them."""
        return FP32 * self.shape.edge * bool(self.shape.layers)

    def fetched(self) -> Ints:
        """Count the bytes of rows that a rank receives from others or sends to them for each batch, whichever is more (network cards do
        both at once); int64 [batches]."""
        work = self.work
        received, sent = ((self.row() * nodes + self.edge() * edges) for nodes, edges in
                         ((work.asked_nodes, work.asked_edges), (work.served_nodes, work.served_edges)))  # fmt: skip
        size: Ints = np.maximum(received, sent)
        return size

    def ids(self) -> Ints:
        """Count the bytes of ids by which ranks ask each other for rows, sent or received, whichever is more; int64 [batches]."""
        work = self.work
        size: Ints = ID * np.maximum(work.asked_nodes + work.asked_edges, work.served_nodes + work.served_edges)
        return size

    def index(self) -> Ints:
        """Count the bytes of each batch's roots' times and of the indices of its trees of sampled rows; int64 [batches]."""
        weighed = FP32 * (self.sampling.boundary is not None)
        size: Ints = TIME * self.work.roots + INDEX * self.work.targets.sum(1) + (2 * INDEX + FP32 + TRUTH + weighed) * self.slots()
        return size

    def local(self) -> tuple[Ints, Ints]:
        """Count the rows of nodes and of events that a rank reads of its own part for each batch; int64 [batches] both."""
        work = self.work
        return work.nodes - work.asked_nodes - work.cached_nodes, work.edges - work.asked_edges - work.cached_edges


def contribution_bytes(shape: StreamShape) -> int:
    """Count the bytes that a rank sends another for each graph node of the other's part that its batch changed: memory and its time, sum,
    number and latest time of mails (messages of events), whether the node sent it."""
    return FP32 * (shape.memory + shape.mail) + 2 * TIME + ID + 2 * TRUTH
