"""SpreadPhase: the batches of one part of an epoch whose memory is spread over ranks: when their rows come, and the bytes that ranks
exchange."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from chronoscale.batching.streams.ranks.remote_reads import DistributedStatistics
from chronoscale.strategies.planning.builder import Columns
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.streams.models import StreamShape
from chronoscale.strategies.streams.phase import ID, INDEX, TIME, TRUTH, Batches, state_bytes
from chronoscale.strategies.streams.shapes import FP32
from chronoscale.strategies.streams.sharing import Sharing

IDS, ROWS, BACK = 0, 1, 2  # `layer` of ALLTOALL rows: ids that are asked for, their rows, contributions to others' rows
OWN, COMMON = 0, 1  # `layer` of MEMORY_WRITE rows: what a rank has computed or been sent; what has become of shared nodes
STEPS = 8  # places in an iteration
# Layers are issued as soon as they may be: behind them one thread of a GPU's host waits for what comes.
BEGIN, COMPUTE, SETTLE, FETCH, COMMUNE, READ, PREPARE, UPDATE = range(8)
GRADIENTS, SHARED, WORDS = 3, 4, 5  # collectives of an iteration beside IDS, ROWS and BACK; at most so many


@dataclass(frozen=True, slots=True, eq=False)
class SpreadPhase(Batches[DistributedStatistics]):
    """Batches of ranks that have parts of memory."""

    sharing: Sharing = field(default_factory=Sharing)

    @property
    def exchanges(self) -> bool:
        """Whether ranks have rows that others read."""
        return self.ranks > 1 and not self.sharing.replicated

    @property
    def staleness(self) -> int:
        """Iterations that memory may be behind when it is read."""
        return self.workload.hyper.events.sharing.staleness * self.sharing.stale

    @property
    def ahead(self) -> int:
        """Iterations that a batch is sampled before its own; 0: nothing overlaps."""
        return max(2, 1 + self.staleness) if self.sharing.pipelined else 0

    def reading(self, step: int) -> Columns:
        """Where rows of memory are read: others' (FETCH) as soon as what the iteration before did to them is settled, own ones (READ) when
        it is known what has become of shared ones, too; with stale memory before all that."""
        return self.place(BEGIN, self.staleness) if self.staleness else self.place(step, int(self.sharing.pipelined))

    def place(self, step: int, ahead: int = 0) -> Columns:
        """A row a batch, in a step of the iteration `ahead` before its own; in turn, where nothing overlaps."""
        return {**self.site(0), "order": STEPS * (self.unit - ahead) + step if self.sharing.pipelined else self.unit}

    def collective(self, which: int) -> Ints:
        """Of each batch, one of its iteration's WORDS."""
        return WORDS * self.unit + which

    def row(self) -> int:
        """Bytes of a node's row that comes from another rank: memory, mailbox, features."""
        return state_bytes(self.shape) + FP32 * self.shape.features

    def edge(self) -> int:
        """Bytes of an event's features."""
        return FP32 * self.shape.edge * bool(self.shape.layers)

    def fetched(self) -> Ints:
        """Bytes that a rank receives or sends, whichever is more: cards do both at once."""
        work = self.work
        asked, served = ((self.row() * nodes + self.edge() * edges) for nodes, edges in
                         ((work.asked_nodes, work.asked_edges), (work.served_nodes, work.served_edges)))  # fmt: skip
        found: Ints = np.maximum(asked, served)
        return found

    def ids(self) -> Ints:
        """Bytes of what is asked for, likewise."""
        work = self.work
        found: Ints = ID * np.maximum(work.asked_nodes + work.asked_edges, work.served_nodes + work.served_edges)
        return found

    def index(self) -> Ints:
        """Bytes of the roots' times and of the indices that make trees of rows."""
        weighed = FP32 * (self.sampling.boundary is not None)
        found: Ints = TIME * self.work.roots + INDEX * self.work.targets.sum(1) + (2 * INDEX + FP32 + TRUTH + weighed) * self.slots()
        return found

    def local(self) -> tuple[Ints, Ints]:
        """Rows of nodes and of events that a rank reads of its own."""
        return self.work.nodes - self.work.asked_nodes, self.work.edges - self.work.asked_edges


def contribution_bytes(shape: StreamShape) -> int:
    """Of one: memory and its time, the sum of mails, how many they are, the latest one's time, whether the node sent it."""
    return FP32 * (shape.memory + shape.mail) + 2 * TIME + ID + 2 * TRUTH
