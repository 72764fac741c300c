"""A3T-GCN (Zhu et al., 2020): T-GCN over the window, attention over its states, a linear layer to the horizon."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from chronoscale.datasets.arrays import Float32, Int32
from chronoscale.real_exec.signals.forecast.forecaster import Forecaster
from chronoscale.real_exec.signals.forecast.walks import as_tensor, inverse, require_edges
from chronoscale.strategies.signals.forecasters import DENSE_NODES
from chronoscale.strategies.workload import ModelShape


def normalised_adjacency(edges: Int32, weight: Float32 | None, nodes: int) -> Any:
    """Return the matrix D^-1/2 (W + I)^T D^-1/2 of A3T-GCN's graph convolution, scipy CSR float64 [N, N], D the degrees of incoming edges.

    edges: [2, E], sources and destinations; weight [E], None: 1. A node that has a self-loop gets no other. Raises UserError for edges that
    leave the graph.
    """
    import scipy.sparse  # noqa: PLC0415 (heavy, and models on signals alone take it)

    require_edges(edges, nodes)
    unlooped = np.setdiff1d(np.arange(nodes), edges[0][edges[0] == edges[1]])
    source, destination = np.concatenate((edges.astype(np.int64), np.stack((unlooped, unlooped))), 1)
    value = np.concatenate((np.ones(edges.shape[1]) if weight is None else weight.astype(np.float64), np.ones(len(unlooped))))
    scale = np.sqrt(inverse(np.bincount(destination, value, nodes)))
    return scipy.sparse.csr_matrix((value * scale[source] * scale[destination], (destination, source)), (nodes, nodes))


def _uniform(*sizes: int) -> nn.Parameter:
    """Return a parameter with Glorot's uniform initial values, of the last two dimensions."""
    bound = (6 / (sizes[-1] + sizes[-2])) ** 0.5
    return nn.Parameter(torch.empty(*sizes).uniform_(-bound, bound))


class AttentionForecaster(Forecaster):
    """Model `a3t-gcn` of a signal: T-GCN over the window, attention over its states, a linear layer to the horizon (Zhu et al. 2020).

    z, r = sigmoid([gcn(x), h] M + b);  c = tanh([gcn(x), r h] M_c + b_c);  h' = z h + (1 - z) c, a graph convolution a gate.

    The prediction reads relu(sum over steps of softmax(a)_t h_t). Attention is one trained score a step, as in PyTorch Geometric Temporal;
    the paper computes it from the states, and has two graph convolutions, one after the other, where these have one. `published`: every
    step starts from the zero state, as there; `exact` carries it on, as the paper has it. The two linear maps of an
    input have nothing between them; they are multiplied before they are applied.
    """

    def __init__(
        self, shape: ModelShape, edges: Int32, weight: Float32 | None, nodes: int, window: int, horizon: int, published: bool
    ) -> None:
        super().__init__()
        hidden, self.published = shape.hidden, published
        matrix = normalised_adjacency(edges, weight, nodes)
        self.register_buffer("matrix", torch.from_numpy(matrix.toarray()).float() if nodes <= DENSE_NODES else as_tensor(matrix), False)
        self.convolution = _uniform(3, shape.inputs, hidden)  # update, reset, candidate
        self.convolution_bias = nn.Parameter(torch.zeros(3, 1, hidden))
        self.mix = _uniform(3, hidden, hidden)
        self.of_state = _uniform(hidden, 2 * hidden)
        self.of_candidate = _uniform(hidden, hidden)
        self.bias = nn.Parameter(torch.zeros(3, 1, hidden))
        self.scores = nn.Parameter(torch.rand(window))
        self.readout = nn.Linear(hidden, horizon)

    def forward(self, x: Tensor) -> Tensor:
        batch, window, nodes, channels = x.shape
        rows = x.permute(2, 1, 0, 3).reshape(nodes, -1)
        spread = (cast(Tensor, self.matrix) @ rows).view(nodes, window, batch, channels).transpose(0, 1).flatten(1, 2).contiguous()
        weight = (self.convolution @ self.mix).transpose(0, 1).flatten(1)  # [C, 3 H]
        bias = (self.convolution_bias @ self.mix + self.bias).flatten()
        shares, hidden = self.scores.softmax(0), self.bias.shape[-1]
        state, total = None, spread.new_zeros(nodes * batch, hidden)
        for step, share in zip(spread, shares, strict=True):
            base = torch.addmm(bias, step, weight)
            for_gates, for_candidate = base[:, : 2 * hidden], base[:, 2 * hidden :]
            if state is None or self.published:
                update, candidate = for_gates[:, :hidden].sigmoid(), for_candidate.tanh()
                state = candidate - update * candidate
            else:
                update, reset = torch.addmm(for_gates, state, self.of_state).sigmoid_().chunk(2, 1)
                candidate = torch.addmm(for_candidate, reset * state, self.of_candidate).tanh_()
                state = torch.lerp(candidate, state, update)
            total = total + share * state
        return cast(Tensor, self.readout(total.relu())).view(nodes, batch, -1).permute(1, 2, 0)
