"""The obvious DCRNN in PyTorch alone: dense transition matrices, one product a hop, terms side by side, one product with the weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from chronoscale.datasets.signals.signal import Signal


class DenseCell(nn.Module):
    """A recurrent cell whose products are diffusion convolutions (Li et al., ICLR 2018, eq. 3), of inputs [N, B, F]."""

    def __init__(self, steps: list[Tensor], width: int, hidden: int, hops: int) -> None:
        super().__init__()
        self.steps, self.hidden, self.hops, terms = steps, hidden, hops, 1 + hops * len(steps)
        self.gates, self.candidate = (nn.Linear(terms * (width + hidden), out) for out in (2 * hidden, hidden))

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        update, reset = self.gates(self._spread(torch.cat([x, state], -1))).sigmoid().chunk(2, -1)
        candidate = self.candidate(self._spread(torch.cat([x, reset * state], -1))).tanh()
        return update * state + (1 - update) * candidate

    def _spread(self, x: Tensor) -> Tensor:
        terms = [x]
        for step in self.steps:
            power = x
            for _ in range(self.hops):
                power = (step @ power.flatten(1)).view(x.shape)
                terms.append(power)
        return torch.cat(terms, -1)


class DenseForecaster(nn.Module):
    """`dcrnn` with one layer (encoder and decoder), or `pgt-dcrnn` (the encoder alone, every state read out)."""

    def __init__(self, signal: Signal, hidden: int, hops: int, horizon: int, decodes: bool) -> None:
        super().__init__()
        weight = torch.zeros(signal.num_nodes, signal.num_nodes)
        source, destination = torch.tensor(signal.edge_index).long()
        weight.index_put_((source, destination), torch.tensor(signal.edge_weight), accumulate=True)
        steps = [each / each.sum(1, keepdim=True).clamp(min=1e-12) for each in (weight, weight.T)]
        self.hidden, self.horizon = hidden, horizon
        self.encoder = DenseCell(steps, 1, hidden, hops)
        self.decoder = DenseCell(steps, 1, hidden, hops) if decodes else None
        self.readout = nn.Linear(hidden, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Predict [B, horizon, N] from windows [B, window, N, 1]."""
        rows = x.permute(1, 2, 0, 3).contiguous()
        state, outputs = x.new_zeros(*rows.shape[1:3], self.hidden), []
        for step in rows:
            state = self.encoder(step, state)
            outputs.append(self.readout(state))
        if self.decoder is not None:
            given, outputs = torch.zeros_like(rows[0]), []
            for _ in range(self.horizon):
                state = self.decoder(given, state)
                outputs.append(given := self.readout(state))
        return torch.stack(outputs[-self.horizon :])[..., 0].permute(2, 0, 1)
