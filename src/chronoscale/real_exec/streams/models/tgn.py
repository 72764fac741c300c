"""TGN: attention over memories (Rossi et al.: Temporal Graph Networks for Deep Learning on Dynamic Graphs, 2020)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from chronoscale.cuda_ext.operators.gates import gates
from chronoscale.real_exec.streams.memory_rows import MemoryRows
from chronoscale.real_exec.streams.models.tgat import TGAT
from chronoscale.strategies.streams.models import StreamShape


class TGN(TGAT):
    """Model `tgn` of event streams, TGN-attn, the paper's best: TGAT's layers on h = s + features, with node memory s (§3.1, eqs. 1-5).

    Message: identity, m_i = [s_i, s_j, e_ij, phi(t - t_i)], t_i the time of the memory's last update; aggregator: the last message;
    updater: s_i' = GRU(m_i, s_i). A node without mail keeps its memory. The paper adds features that are as wide as the memory; here a
    linear layer makes all fit (as in TGL).

    The raw message holds [s_i, s_j, e_ij] as they were after the batch of its event; phi is added when it is applied, so that the clock
    learns (§3.2). TGL encodes the time that has passed when the node is read in place of the time between its events.
    """

    def __init__(self, shape: StreamShape, dropout: float) -> None:
        super().__init__(shape, dropout)
        self.cell = nn.GRUCell(shape.mail + shape.time, shape.hidden)

    def update(self, pending: MemoryRows) -> Tensor:
        cell = self.cell
        by_mail, by_time = cell.weight_ih.split([self.shape.mail, self.shape.time], 1)
        from_mail = torch.addmm(cell.bias_ih, pending.mail[:, 0], by_mail.t())
        from_mail = torch.addmm(from_mail, self.clock(pending.elapsed[:, 0]), by_time.t())
        from_memory = torch.addmm(cell.bias_hh, pending.memory, cell.weight_hh.t())
        return gates(from_mail, from_memory, pending.memory, pending.there[:, 0])

    def mail(self, own: Tensor, other: Tensor, edge: Tensor | None) -> Tensor:
        """Return the raw messages [s_own, s_other, e] that events leave for their nodes: both memories beside the edge's features."""
        return torch.cat([own, other] if edge is None or not self.shape.edge else [own, other, edge], 1)
