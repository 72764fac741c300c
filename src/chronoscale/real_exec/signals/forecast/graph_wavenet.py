"""Graph WaveNet (Wu et al., IJCAI 2019): gated, dilated convolutions in time; diffusion, and a matrix that is learnt, between sensors."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from chronoscale.real_exec.signals.forecast.forecaster import Forecaster
from chronoscale.real_exec.signals.forecast.walks import Walks
from chronoscale.strategies.signals.kinds.graph_wavenet import EMBEDDING, END, SKIP, dilation, receptive_field
from chronoscale.strategies.workload import ModelShape


class GraphConvolution(nn.Module):
    """Graph convolution of Graph WaveNet (eq. 6): the sum over k of P_f^k x W_k1 + P_b^k x W_k2 + A^k x W_k3, with P_f and P_b the walks
    along and against the edges, and A the matrix that is learnt; then dropout, the residual, and a normalisation.

    Rows are [N, B, T, H], node by node. Each channel of a window is normalised by its mean and deviation over sensors and steps: batch
    normalisation of one window, so that neither the other windows of a batch nor the number of ranks changes a prediction.
    """

    def __init__(self, hidden: int, walks: Walks, share: float) -> None:
        super().__init__()
        self.walks, self.share = walks, share
        terms = walks.terms + walks.hops
        bound = (terms * hidden) ** -0.5
        self.weight = nn.Parameter(torch.empty(terms, hidden, hidden).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(hidden).uniform_(-bound, bound))
        self.scale, self.shift = nn.Parameter(torch.ones(hidden)), nn.Parameter(torch.zeros(hidden))

    def forward(self, x: Tensor, residual: Tensor, learnt: Tensor) -> Tensor:
        """Map rows x [N, B, T, H] to rows of the same shape. residual: [N, B, T, H], is added. learnt: the matrix A, [N, N]."""
        rows = x.flatten(0, 2)
        powers = [learnt @ rows.view(len(x), -1)]
        for _ in range(1, self.walks.hops):
            powers.append(learnt @ powers[-1])
        own = torch.cat([power.view(rows.shape) for power in powers], 1)
        base = torch.addmm(self.bias, own, self.weight[self.walks.terms :].flatten(0, 1))
        mixed = self.walks.convolve(rows, self.weight[: self.walks.terms], base).view(x.shape)
        after = functional.dropout(mixed, self.share, self.training) + residual
        variance, mean = torch.var_mean(after, (0, 2), correction=0, keepdim=True)
        return torch.addcmul(self.shift, after - mean, (variance + 1e-5).rsqrt() * self.scale)


class WaveNetForecaster(Forecaster):
    """Model `graph-wavenet` of a signal: layers of gated convolutions of two steps, 1 and 2 steps apart in turn, each followed by a graph
    convolution; what every layer has of the window's last step goes, side by side, through a perceptron to the horizon.

    A window is padded with zeros to as many steps as the layers read. The matrix that is learnt is softmax(relu(E_1 E_2)), a row a sensor.
    `as-published` multiplies by the transposes of all matrices, as the code does; the paper's equation does not. What its code computes and
    never reads is left out: the graph convolution after the last layer, and all but the last step of what layers hand to the perceptron.
    """

    def __init__(self, shape: ModelShape, walks: Walks, window: int, horizon: int) -> None:
        super().__init__()
        hidden, nodes, layers = shape.hidden, walks.nodes, range(shape.layers)
        self.dropout, self.published = shape.dropout, walks.transposed
        self.pad = receptive_field(shape.layers) - window
        self.start = nn.Linear(shape.inputs, hidden)
        self.gated = nn.ModuleList(nn.Linear(2 * hidden, 2 * hidden) for _ in layers)
        self.graph = nn.ModuleList(GraphConvolution(hidden, walks, shape.dropout) for _ in layers[1:])
        self.sources, self.targets = nn.Parameter(torch.randn(nodes, EMBEDDING)), nn.Parameter(torch.randn(EMBEDDING, nodes))
        self.skip = nn.Linear(shape.layers * hidden, SKIP * hidden)
        nn.init.uniform_(self.skip.weight, -(hidden**-0.5), hidden**-0.5)
        self.end, self.readout = nn.Linear(SKIP * hidden, END * hidden), nn.Linear(END * hidden, horizon)

    def forward(self, x: Tensor) -> Tensor:
        batch, window, nodes, channels = x.shape
        padded = x.new_zeros(nodes, batch, self.pad + window, channels)
        padded[:, :, self.pad :] = x.permute(2, 0, 1, 3)
        rows = self.start(padded)
        learnt, last = (self.sources @ self.targets).relu().softmax(1), []
        if self.published:
            learnt = learnt.T
        for layer, gated in enumerate(self.gated):
            step = dilation(layer)
            filtered, gate = gated(torch.cat((rows[:, :, :-step], rows[:, :, step:]), 3)).chunk(2, 3)
            hidden = filtered.tanh() * gate.sigmoid()
            last.append(hidden[:, :, -1])
            if layer < len(self.graph):
                rows = self.graph[layer](hidden, rows[:, :, step:], learnt)
        hidden = self.end(self.skip(torch.cat(last, 2)).relu()).relu()
        return cast(Tensor, self.readout(hidden)).permute(1, 2, 0)
