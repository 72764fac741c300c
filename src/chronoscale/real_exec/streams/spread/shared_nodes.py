"""Common: how ranks come to know in common what has become of shared nodes (MemShare §3.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from chronoscale.datasets.arrays import Int64
from chronoscale.real_exec.communication.collective import Collective
from chronoscale.real_exec.execution.transfers import to_device
from chronoscale.real_exec.streams.spread.memory_part import MemoryPart
from chronoscale.real_exec.streams.spread.packing import Column, pack, unpack
from chronoscale.real_exec.streams.spread.shared_history import SharedHistory

ID = Column(torch.int64)


class SharedNodes:
    """Of one rank: `heard` of changes of shared nodes that are significant. changed, spoken: how many it had, and how many of them it told
    the others of."""

    def __init__(self, held: MemoryPart, history: SharedHistory, alpha: float, reaches: bool) -> None:
        """alpha: of eq. 19. reaches: whether what is heard gets to node memory; the published code writes it into copies."""
        self.history, self.alpha = history, alpha
        self._held, self._reaches = held, reaches
        self._columns = [ID, *(Column(table.dtype, tuple(table.shape[1:])) for table in held.state.tables().values())]
        self.changed = self.spoken = 0

    def changed_rows(self, nodes: Int64) -> Tensor:
        """Of shared nodes [n] whose memory the rank has written, rows that others have to hear of: uint8 [m, W], m <= n."""
        places, common = self._held.places(nodes), torch.from_numpy(self._held.common[nodes])
        aged = self.history.changed(common, self._held.state.memory.index_select(0, places), self.alpha)
        self.changed, self.spoken = self.changed + len(nodes), self.spoken + int(aged.sum())
        at = places[aged]
        return pack([torch.from_numpy(nodes)[aged], *(table.index_select(0, at) for table in self._held.state.tables().values())])

    def apply(self, rows: Tensor) -> None:
        """What all ranks have to say, uint8 [n, W], in the order of ranks: of each node the row with the newest event counts, for all of
        them alike; a rank whose own has seen as much keeps that."""
        nodes, *columns = unpack(rows, self._columns)
        found = dict(zip(self._held.state.tables(), columns, strict=True))
        newest = _newest(found)
        order = np.lexsort((np.arange(len(nodes)), newest.numpy(), nodes.numpy()))
        last = order[np.append(np.diff(nodes.numpy()[order]) != 0, True)] if len(order) else order
        at = torch.from_numpy(last)
        nodes, newest, found = nodes[at], newest[at], {name: column[at] for name, column in found.items()}
        self.history.observe(torch.from_numpy(self._held.common[nodes.numpy()]), found["memory"], newest)
        if self._reaches:
            places, tables = self._held.places(nodes.numpy()), self._held.state.tables()
            newer = newest > _newest({name: tables[name].index_select(0, places) for name in ("updated", "mailed")})
            for name, table in tables.items():
                table[places[newer]] = found[name][newer]


def _newest(rows: Mapping[str, Tensor]) -> Tensor:
    """Time of the newest event that memory or mailbox have seen, float64 [n]."""
    return torch.maximum(rows["updated"], rows["mailed"][:, -1])


def gather_rows(collective: Collective, rows: Tensor, counts: Sequence[int] | None, device: torch.device) -> Tensor:
    """Rows uint8 [n, W] of every rank, in the host's memory; counts: how many each has, None: ranks tell each other."""
    if counts is None:
        own = to_device(torch.tensor([[len(rows)]]), device)
        counts = collective.all_gather(own, [1] * collective.ranks)[:, 0].tolist()
    if not max(counts):
        return rows[:0]
    return collective.all_gather(to_device(rows, device), counts).cpu()
