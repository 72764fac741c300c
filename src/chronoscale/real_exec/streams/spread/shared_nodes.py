"""SharedNodes: how ranks synchronise the memory of nodes that all of them have (MemShare §3.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from chronoscale.datasets.arrays import Int64
from chronoscale.real_exec.streams.spread.memory_group import MemoryGroup
from chronoscale.real_exec.streams.spread.memory_part import MemoryPart
from chronoscale.real_exec.streams.spread.packing import Column, pack, unpack
from chronoscale.real_exec.streams.spread.shared_history import SharedHistory

ID = Column(torch.int64)


class SharedNodes:
    """Synchronisation of the memory of nodes that all ranks share, on one rank (MemShare §3.4).

    changes, sent_changes: how many changes it made, and how many of these it sent to the others.
    """

    def __init__(self, part: MemoryPart, history: SharedHistory, alpha: float, reaches: bool) -> None:
        """alpha: threshold of eq. 19. reaches: whether synchronised rows are written to node memory; the published code writes them to
        copies."""
        self.history, self.alpha = history, alpha
        self._part, self._reaches = part, reaches
        self._columns = [ID, *(Column(table.dtype, tuple(table.shape[1:])) for table in part.state.tables().values())]
        self.changes = self.sent_changes = 0

    def changed_rows(self, nodes: Int64) -> Tensor:
        """Return, packed, what this rank sends to others of the shared nodes [n] that it has written: those whose memory changed enough.

        uint8 [m, W], m <= n.
        """
        places, common = self._part.places(nodes), torch.from_numpy(self._part.common[nodes])
        aged = self.history.has_changed(common, self._part.state.memory.index_select(0, places), self.alpha)
        self.changes, self.sent_changes = self.changes + len(nodes), self.sent_changes + int(aged.sum())
        at = places[aged]
        return pack([torch.from_numpy(nodes)[aged], *(table.index_select(0, at) for table in self._part.state.tables().values())])

    def apply(self, rows: Tensor) -> None:
        """Write the memory of shared nodes that all ranks have sent, packed uint8 [n, W], in the order of ranks.

        Of each node the row with the newest event is taken, on all ranks alike; a rank whose own row has seen as much keeps that.
        """
        nodes, *columns = unpack(rows, self._columns)
        tables_of_rows = dict(zip(self._part.state.tables(), columns, strict=True))
        newest = _newest(tables_of_rows)
        order = np.lexsort((np.arange(len(nodes)), newest.numpy(), nodes.numpy()))
        last = order[np.append(np.diff(nodes.numpy()[order]) != 0, True)] if len(order) else order
        at = torch.from_numpy(last)
        nodes = nodes[at]
        newest = newest[at]
        tables_of_rows = {name: column[at] for name, column in tables_of_rows.items()}
        self.history.observe(torch.from_numpy(self._part.common[nodes.numpy()]), tables_of_rows["memory"], newest)
        if self._reaches:
            places, tables = self._part.places(nodes.numpy()), self._part.state.tables()
            newer = newest > _newest({name: tables[name].index_select(0, places) for name in ("updated", "mailed")})
            for name, table in tables.items():
                table[places[newer]] = tables_of_rows[name][newer]


def _newest(rows: Mapping[str, Tensor]) -> Tensor:
    """Return the time of the newest event that memory or mailbox have seen, float64 [n]."""
    return torch.maximum(rows["updated"], rows["mailed"][:, -1])


def gather_rows(group: MemoryGroup, rows: Tensor, counts: Sequence[int] | None) -> Tensor:
    """Gather packed rows uint8 [n, W] of a group's ranks on all of them, in host memory, for memory of shared nodes. Every rank calls it.

    counts: how many rows each of them has; None: they exchange that first.
    """
    if counts is None:
        counts = group.all_gather(torch.tensor([[len(rows)]]), [1] * group.members)[:, 0].tolist()
    return group.all_gather(rows, counts).cpu()
