"""NodeState: memory and mailbox of nodes, in host memory; where all ranks have all nodes, a copy a rank, equal on all."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from chronoscale.real_exec.streams.memory_rows import MemoryRows
from chronoscale.strategies.streams.models import StreamShape

NEVER = float("-inf")


class NodeState:
    """Tables of node memory and mailboxes of N nodes, in one rank's host memory.

    memory float32 [N, H]; updated float64 [N]: time of the newest message in it, the stream's first time before any; mail float32 [N, S,
    W]: the mailbox, the newest message last; mailed float64 [N, S]: their times, -inf for an empty slot; sent bool [N, S]: the node was the
    source of the message's event.
    """

    def __init__(self, num_nodes: int, shape: StreamShape, begun: float) -> None:
        self._begun = begun
        self.memory = torch.zeros(num_nodes, shape.memory)
        self.updated = torch.full((num_nodes,), begun, dtype=torch.float64)
        self.mail = torch.zeros(num_nodes, shape.mails, shape.mail)
        self.mailed = torch.full((num_nodes, shape.mails), NEVER, dtype=torch.float64)
        self.sent = torch.zeros(num_nodes, shape.mails, dtype=torch.bool)

    def reset(self) -> None:
        """Empty node memory and mailboxes, as before the first event."""
        for table, value in ((self.memory, 0), (self.updated, self._begun), (self.mail, 0), (self.mailed, NEVER), (self.sent, False)):
            table.fill_(value)

    def imagine(self, seed: int) -> None:
        """Fill node memory and mailboxes at random, as if every node had a message, for probes, whose batches do not follow one another.

        Messages are from when the stream began. Models may compute less for nodes without messages.
        """
        drawn = torch.Generator().manual_seed(seed)
        for table in (self.memory, self.mail):
            table.uniform_(-1, 1, generator=drawn)
        self.mailed.fill_(self._begun)
        self.sent.fill_(True)

    def tables(self) -> dict[str, Tensor]:
        """Return node memory and mailboxes as tables by name, for a checkpoint."""
        return {"memory": self.memory, "updated": self.updated, "mail": self.mail, "mailed": self.mailed, "sent": self.sent}

    def restore(self, tables: Mapping[str, Tensor]) -> None:
        """Restore node memory and mailboxes from what `tables` returned.

        Raises KeyError or RuntimeError for tables of another model or stream.
        """
        for name, table in self.tables().items():
            if tables[name].shape != table.shape:
                raise RuntimeError(f"{name} is {list(tables[name].shape)}, expected {list(table.shape)}")
            table.copy_(tables[name])

    def read(self, nodes: Tensor) -> tuple[MemoryRows, Tensor]:
        """Return memory and mailboxes of nodes int64 [U], and the time of each one's memory with its messages applied, float64 [U]."""
        # Several times as fast as indexing.
        return memory_rows_of({name: table.index_select(0, nodes) for name, table in self.tables().items()})

    def write(self, nodes: Tensor, memory: Tensor) -> None:
        """Write the memory float32 [U, H] of nodes [U], each once, after all of their messages were applied; its time is the newest
        message's.
        """
        newest = self.mailed[nodes, -1]
        self.memory[nodes] = memory
        self.updated[nodes] = torch.where(newest > NEVER, newest, self.updated[nodes])

    def put(self, nodes: Tensor, memory: Tensor, updated: Tensor) -> None:
        """Write the memory float32 [U, H] of nodes [U], each once, and its time float64 [U]."""
        self.memory[nodes], self.updated[nodes] = memory, updated

    def post(self, nodes: Tensor, mail: Tensor, time: Tensor, sent: Tensor) -> None:
        """Add a message float32 [U, W] to the mailbox of each of nodes [U], each once, at time float64 [U]; the oldest is dropped.

        sent: bool [U], the node was the source of the message's event.
        """
        for table, newest in ((self.mail, mail), (self.mailed, time), (self.sent, sent)):
            if table.shape[1] > 1:
                table[nodes, :-1] = table[nodes, 1:]
            table[nodes, -1] = newest


def memory_rows_of(rows: Mapping[str, Tensor]) -> tuple[MemoryRows, Tensor]:
    """Return node memory and mailboxes as models read them, from rows of their tables [U, …] by name; and the time of each memory, float64
    [U].

    That is with messages applied, as `NodeState.read`.
    """
    mailed, before = rows["mailed"], rows["updated"]
    there = mailed > NEVER
    elapsed = torch.where(there, mailed - before[:, None], 0.0).float()
    pending = MemoryRows(rows["memory"], rows["mail"], there, elapsed, rows["sent"])
    return pending, torch.where(there[:, -1], mailed[:, -1], before)
