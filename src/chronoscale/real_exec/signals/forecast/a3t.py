"""A3T-GCN (Bai, Zhu, Song, Zhao et al., 2021): T-GCN over the window, attention over its states, a linear layer to the horizon."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from chronoscale.datasets.arrays import Float32, Int32
from chronoscale.real_exec.signals.forecast.forecaster import Forecaster
from chronoscale.real_exec.signals.forecast.normalised_graph import NormalisedGraph
from chronoscale.strategies.workload import ModelShape


def _uniform(*sizes: int) -> nn.Parameter:
    """Return a parameter with Glorot's uniform initial values, of the last two dimensions."""
    bound = (6 / (sizes[-1] + sizes[-2])) ** 0.5
    return nn.Parameter(torch.empty(*sizes).uniform_(-bound, bound))


class AttentionForecaster(Forecaster):
    """Model `a3t-gcn` of a signal as its paper has it: T-GCN over the window, attention over its states, a linear layer to the horizon.

    f = sigmoid(A relu(A x W_0) W_1);  z, r = sigmoid([f, h] M + b);  c = tanh([f, r h] M_c + b_c);  h' = z h + (1 - z) c.

    A step's score is computed from its states [N, H] by two linear layers, one over the hidden values and one over the sensors, as in the
    authors' code: one score for all sensors of a window. The layers' biases would add the same to every step's score, and are left out. The
    prediction reads sum over steps of softmax(scores)_t h_t.
    """

    def __init__(self, shape: ModelShape, edges: Int32, weight: Float32 | None, nodes: int, horizon: int) -> None:
        super().__init__()
        hidden = shape.hidden
        self.graph = NormalisedGraph(edges, weight, nodes)
        self.inner = _uniform(shape.inputs, hidden)
        self.outer = _uniform(hidden, hidden)
        self.of_input = _uniform(hidden, 3 * hidden)  # update, reset, candidate
        self.of_state = _uniform(hidden, 2 * hidden)
        self.of_candidate = _uniform(hidden, hidden)
        self.bias = nn.Parameter(torch.zeros(3 * hidden))
        self.of_values = _uniform(hidden, 1)
        self.of_sensors = _uniform(1, nodes)
        self.readout = nn.Linear(hidden, horizon)

    def forward(self, x: Tensor) -> Tensor:
        batch, _, nodes, _ = x.shape
        hidden = self.bias.shape[0] // 3
        state, states, scores = None, [], []
        for step in self.graph(x.permute(2, 1, 0, 3)).transpose(0, 1).flatten(1, 2).contiguous():
            inner = (step @ self.inner).relu_().view(nodes, batch, hidden)
            seen = (self.graph(inner).flatten(0, 1) @ self.outer).sigmoid_()
            state = self._advance(torch.addmm(self.bias, seen, self.of_input), state)
            states.append(state.view(nodes, batch, hidden))
            scores.append(self.of_sensors @ (state @ self.of_values).view(nodes, batch))
        context = states[0].new_zeros(nodes, batch, hidden)
        for share, each in zip(torch.cat(scores).softmax(0), states, strict=True):
            context = torch.addcmul(context, share[:, None], each)
        return cast(Tensor, self.readout(context)).permute(1, 2, 0)

    def _advance(self, base: Tensor, state: Tensor | None) -> Tensor:
        """Take one time step of the recurrence: return the next state, [N B, H]. base: the input's part of the gates, [N B, 3 H]; state:
        [N B, H], None: zero."""
        hidden = self.of_candidate.shape[0]
        for_gates, for_candidate = base.split([2 * hidden, hidden], 1)
        if state is None:
            update, candidate = for_gates[:, :hidden].sigmoid(), for_candidate.tanh()
            return cast(Tensor, candidate - update * candidate)
        update, reset = torch.addmm(for_gates, state, self.of_state).sigmoid_().chunk(2, 1)
        candidate = torch.addmm(for_candidate, reset * state, self.of_candidate).tanh_()
        return torch.lerp(candidate, state, update)


class PeriodForecaster(Forecaster):
    """Model `a3t-gcn` of a signal as PyTorch Geometric Temporal has it, and PGT-I trains it (variant `as-published`).

    z, r = sigmoid([gcn(x), h] M + b);  c = tanh([gcn(x), r h] M_c + b_c);  h' = z h + (1 - z) c, a graph convolution a gate, h always 0.

    The prediction reads relu(sum over steps of softmax(a)_t h_t), a: one trained score a step, whatever the window. The two linear maps of
    an input have nothing between them; they are multiplied before they are applied.
    """

    def __init__(self, shape: ModelShape, edges: Int32, weight: Float32 | None, nodes: int, window: int, horizon: int) -> None:
        super().__init__()
        hidden = shape.hidden
        self.graph = NormalisedGraph(edges, weight, nodes)
        self.convolution = _uniform(3, shape.inputs, hidden)  # update, reset, candidate
        self.convolution_bias = nn.Parameter(torch.zeros(3, 1, hidden))
        self.mix = _uniform(3, hidden, hidden)
        self.of_state = _uniform(hidden, 2 * hidden)  # upstream trains both, of a state that is zero
        self.of_candidate = _uniform(hidden, hidden)
        self.bias = nn.Parameter(torch.zeros(3, 1, hidden))
        self.scores = nn.Parameter(torch.rand(window))
        self.readout = nn.Linear(hidden, horizon)

    def forward(self, x: Tensor) -> Tensor:
        batch, _, nodes, _ = x.shape
        hidden = self.bias.shape[-1]
        steps = self.graph(x.permute(2, 1, 0, 3)).transpose(0, 1).flatten(1, 2).contiguous()
        weight = (self.convolution @ self.mix).transpose(0, 1).flatten(1)  # [C, 3 H]
        bias = (self.convolution_bias @ self.mix + self.bias).flatten()
        total = steps.new_zeros(nodes * batch, hidden)
        for step, share in zip(steps, self.scores.softmax(0), strict=True):
            base = torch.addmm(bias, step, weight)
            update, candidate = base[:, :hidden].sigmoid(), base[:, 2 * hidden :].tanh()
            total = total + share * (candidate - update * candidate)
        return cast(Tensor, self.readout(total.relu())).view(nodes, batch, -1).permute(1, 2, 0)
