"""A transformer over nodes, in the manner of ST-LLM (Liu et al., 2024) without its pretrained language model: a node is a token."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from chronoscale.real_exec.signals.forecast.forecaster import Forecaster
from chronoscale.strategies.workload import ModelShape


class TransformerBlock(nn.Module):
    """Block of the model `st-transformer`: x + attention(norm(x)), then x + mlp(norm(x)), for tokens [B, N, H]; every token attends to
    all.
    """

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.queries_keys_values, self.mix = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Apply one transformer block: map tokens [B, N, H] to tokens of the same shape."""
        split = self.queries_keys_values(self.before(x)).view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.mix(scaled_dot_product_attention(*split.unbind()).transpose(1, 2).reshape(x.shape))
        return cast(Tensor, x + self.down(gelu(self.up(self.between(x)))))


class TransformerForecaster(Forecaster):
    """Model `st-transformer` of a signal, whose tokens are nodes; the graph is not read.

    A token is its node's window of all values through a linear layer, plus an embedding of the node, plus the last reading of the
    calendar's channels through a linear layer.
    """

    def __init__(self, shape: ModelShape, nodes: int, window: int, horizon: int) -> None:
        super().__init__()
        self.values = shape.inputs - shape.calendar
        self.token = nn.Linear(window * self.values, shape.hidden)
        self.node = nn.Parameter(0.02 * torch.randn(nodes, shape.hidden))
        self.clock = nn.Linear(shape.calendar, shape.hidden)
        self.blocks = nn.ModuleList(TransformerBlock(shape.hidden, shape.heads) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.hidden)
        self.readout = nn.Linear(shape.hidden, horizon)

    def forward(self, x: Tensor) -> Tensor:
        read = x[..., : self.values].permute(0, 2, 3, 1).flatten(2)  # value by value, a window each
        tokens = self.token(read.contiguous()) + self.node + self.clock(x[:, -1, :, self.values :])
        for block in self.blocks:
            tokens = block(tokens)
        return cast(Tensor, self.readout(self.norm(tokens))).transpose(1, 2)
