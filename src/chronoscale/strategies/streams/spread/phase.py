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
    """Batches of ranks that have parts, or copies, of node memory."""

    sharing: Sharing = field(default_factory=Sharing)

    @property
    def exchanges(self) -> bool:
        """Whether ranks have rows that others read."""
        return self.ranks > 1 and not self.sharing.replicated

    @property
    def staleness(self) -> int:
        """The iterations that memory may be behind when it is read."""
        return self.workload.hyper.events.sharing.staleness * self.sharing.stale

    @property
    def ahead(self) -> int:
        """The iterations that a batch is sampled before its own; 0: nothing overlaps."""
        return max(2, 1 + self.staleness) if self.sharing.pipelined else 0

    def reading(self, step: int) -> Columns:
        """Return the columns of rows that read memory.

        Others' rows (FETCH) are read as soon as what the iteration before did to them is settled, own ones (READ) when it is known what has
        become of shared ones, too; with stale memory before all that.
        """
        return self.place(BEGIN, self.staleness) if self.staleness else self.place(step, int(self.sharing.pipelined))

    def place(self, step: int, ahead: int = 0) -> Columns:
        """Return the columns of one row a batch in a step of the iteration `ahead` before its own; in turn, where nothing overlaps."""
        return {**self.site(0), "order": STEPS * (self.unit - ahead) + step if self.sharing.pipelined else self.unit}

    def collective(self, which: int) -> Ints:
        """Return the id of one of the iteration's WORDS collectives for each batch."""
        return WORDS * self.unit + which

    def row(self) -> int:
        """Return the bytes of a node's row that comes from another rank: memory, mailbox, features."""
        return state_bytes(self.shape) + FP32 * self.shape.features

    def edge(self) -> int:
        """Return the bytes of an event's features."""
        return FP32 * self.shape.edge * bool(self.shape.layers)

    def fetched(self) -> Ints:
        """Return the bytes of rows that a rank receives or sends, whichever is more: network cards do both at once; int64 [batches]."""
        work = self.work
        received, sent = ((self.row() * nodes + self.edge() * edges) for nodes, edges in
                         ((work.asked_nodes, work.asked_edges), (work.served_nodes, work.served_edges)))  # fmt: skip
        size: Ints = np.maximum(received, sent)
        return size

    def ids(self) -> Ints:
        """Return the bytes of ids that a rank sends or receives, whichever is more; int64 [batches]."""
        work = self.work
        size: Ints = ID * np.maximum(work.asked_nodes + work.asked_edges, work.served_nodes + work.served_edges)
        return size

    def index(self) -> Ints:
        """Return the bytes of the roots' times and of the indices that make trees of rows; int64 [batches]."""
        weighed = FP32 * (self.sampling.boundary is not None)
        size: Ints = TIME * self.work.roots + INDEX * self.work.targets.sum(1) + (2 * INDEX + FP32 + TRUTH + weighed) * self.slots()
        return size

    def local(self) -> tuple[Ints, Ints]:
        """Return the rows of nodes and of events that a rank reads of its own; int64 [batches] both."""
        return self.work.nodes - self.work.asked_nodes, self.work.edges - self.work.asked_edges


def contribution_bytes(shape: StreamShape) -> int:
    """Return the bytes of one contribution to another rank's row: memory and its time, sum, number and latest time of mails, whether the
    node sent it."""
    return FP32 * (shape.memory + shape.mail) + 2 * TIME + ID + 2 * TRUTH
