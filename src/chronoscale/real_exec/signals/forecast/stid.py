"""STID (Shao et al., CIKM 2022): a node's window, the node and the time, an embedding each, through a perceptron with residuals."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from chronoscale.batching.signals.standardisation import Scaler
from chronoscale.real_exec.signals.forecast.forecaster import Forecaster
from chronoscale.strategies.workload import ModelShape

NEARLY = 1e-3  # of a row of a table: what standardising has rounded down to less than it was is that row's still


class ResidualPerceptron(nn.Module):
    """Layer of the model `stid`: x + W_2 dropout(relu(W_1 x + b_1)) + b_2 (STID eq. 4; dropout as in its code)."""

    def __init__(self, width: int, share: float) -> None:
        super().__init__()
        self.inner, self.outer, self.share = nn.Linear(width, width), nn.Linear(width, width), share

    def forward(self, x: Tensor) -> Tensor:
        """Apply one layer of STID's perceptron: map rows [..., D] to rows of the same shape."""
        return cast(Tensor, x + self.outer(functional.dropout(self.inner(x).relu(), self.share, self.training)))


class IdentityForecaster(Forecaster):
    """Model `stid` of a signal, which tells sensors and times apart by trained embeddings; the graph is not read.

    A node's window of all channels through a linear layer, the node's embedding, and of each channel of the calendar, at the window's last
    step, a row of a table: with s the share of the day (or of the week) in [0, 1), row floor(s `times`). They stand beside each other, go
    through layers of a perceptron with residuals, and a linear layer makes the horizon of them. Tables begin with Glorot's uniform values.
    """

    mean: Tensor
    deviation: Tensor
    first: Tensor

    def __init__(self, shape: ModelShape, nodes: int, window: int, horizon: int) -> None:
        super().__init__()
        calendar, width = shape.calendar, (2 + shape.calendar) * shape.hidden
        self.times, self.dropout = shape.times, shape.dropout
        self.series = nn.Linear(window * shape.inputs, shape.hidden)
        self.node = nn.Parameter(torch.empty(nodes, shape.hidden))
        self.time = nn.Parameter(torch.empty(calendar, shape.times, shape.hidden))
        for table in (self.node, *self.time.detach()):
            nn.init.xavier_uniform_(table)
        self.layers = nn.ModuleList(ResidualPerceptron(width, shape.dropout) for _ in range(shape.layers))
        self.readout = nn.Linear(width, horizon)
        self.register_buffer("mean", torch.zeros(calendar))
        self.register_buffer("deviation", torch.ones(calendar))
        self.register_buffer("first", torch.arange(calendar) * shape.times, False)

    def standardise(self, scale: Scaler) -> None:
        calendar = len(self.mean)
        self.mean.copy_(torch.from_numpy(scale.mean[-calendar:]))
        self.deviation.copy_(torch.from_numpy(scale.deviation[-calendar:]))

    def forward(self, x: Tensor) -> Tensor:
        batch, _, nodes, _ = x.shape
        shares = torch.addcmul(self.mean, x[:, -1, :, -len(self.mean) :].detach(), self.deviation)  # [B, N, calendar]
        rows = (shares * self.times + NEARLY).clamp(0, self.times - 1).long() + self.first
        parts = (
            self.series(x.transpose(1, 2).flatten(2)),
            self.node.expand(batch, nodes, -1),
            functional.embedding(rows, self.time.flatten(0, 1)).flatten(2),
        )
        hidden = torch.cat(parts, 2)
        for layer in self.layers:
            hidden = layer(hidden)
        return cast(Tensor, self.readout(hidden)).transpose(1, 2)
