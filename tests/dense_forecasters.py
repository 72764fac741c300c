"""Forecasters of signals in dense form, window by window, from the papers' equations: oracles that share parameters with ours alone."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from chronoscale.real_exec.signals.forecast.model import Forecaster, forecaster
from chronoscale.strategies.signals.forecasters import forecaster_shape
from chronoscale.strategies.workload import ModelChoice

NODES, CHANNELS, WINDOW, HORIZON = 7, 2, 5, 3  # node 6 is isolated, node 5 has no edge out
EDGES = np.array([[0, 0, 1, 2, 3, 3, 4, 4], [1, 2, 2, 3, 3, 4, 0, 5]], np.int32)
WEIGHT = np.array([0.5, 1, 2, 0.1, 1, 0.7, 3, 1], np.float32)
DEEP = {"dcrnn": 2, "st-transformer": 2, "stid": 2, "graph-wavenet": 4}


def build(name: str, variant: str = "exact", seed: int = 1) -> Forecaster:
    shape = forecaster_shape(ModelChoice(name, 8, DEEP.get(name, 1), heads=2), NODES, CHANNELS, WINDOW, HORIZON, variant, 1)
    return forecaster(shape, EDGES, WEIGHT, NODES, WINDOW, HORIZON, seed).double()


def windows(batch: int = 3, channels: int = CHANNELS) -> Tensor:
    return torch.from_numpy(np.random.default_rng(5).normal(size=(batch, WINDOW, NODES, channels)))


def powers(published: bool) -> list[Tensor]:
    """Identity and diffusions, dense, by loops over edges; identity twice where published."""
    w, along, against, plain = (torch.zeros(NODES, NODES).double() for _ in range(4))
    for (i, j), value in zip(EDGES.T.tolist(), WEIGHT.tolist(), strict=True):
        w[i, j] = value
    eye = torch.eye(NODES).double()
    if not published:
        for i in range(NODES):
            along[i] = w[i] / w[i].sum() if w[i].sum() else 0
            against[i] = w[:, i] / w[:, i].sum() if w[:, i].sum() else 0
        return [eye, along, along @ along, against, against @ against]
    backwards = sorted((j, i) for i, j in EDGES.T.tolist())
    for (i, j), (a, b) in zip(EDGES.T.tolist(), backwards, strict=True):
        plain[j, i] = 1 / w[i].sum()
        against[b, a] = 1 / w[:, i].sum() if w[:, i].sum() else 0
    return [eye, eye, plain, 2 * plain @ plain - eye, against, 2 * against @ against - eye]


def diffusion_cell(cell: torch.nn.Module, x: Tensor, h: Tensor, terms: list[Tensor]) -> Tensor:
    """Li et al., eq. 3, one window: x [N, D], h [N, H]."""

    def conv(signal: Tensor, weight: Tensor) -> Tensor:
        return sum((term @ signal @ own for term, own in zip(terms, weight, strict=True)), torch.zeros(1).double())

    width = h.shape[1]
    given_x = conv(x, cell.of_input) + cell.bias
    gates = torch.sigmoid(given_x[:, : 2 * width] + conv(h, cell.of_state))
    z, r = gates[:, :width], gates[:, width:]
    return z * h + (1 - z) * torch.tanh(given_x[:, 2 * width :] + conv(r * h, cell.of_candidate))


def diffusion_reference(model: Forecaster, window: Tensor, published: bool) -> Tensor:
    terms = powers(published)

    def step(stack: torch.nn.Module, x: Tensor, states: list[Tensor]) -> list[Tensor]:
        built = []
        for cell, h in zip(stack.cells, states, strict=True):
            x = diffusion_cell(cell, x, h, terms)
            built.append(x)
        return built

    states = [torch.zeros(NODES, 8).double() for _ in model.encoder.cells]
    outputs = []
    for x in window:
        states = step(model.encoder, x, states)
        outputs.append(model.readout(states[-1])[:, 0])
    if model.decoder is None:
        return torch.stack(outputs[-HORIZON:])
    outputs, symbol = [], torch.zeros(NODES, 1).double()
    for _ in range(HORIZON):
        states = step(model.decoder, symbol, states)
        symbol = model.readout(states[-1])
        outputs.append(symbol[:, 0])
    return torch.stack(outputs)


def a3t_reference(model: Forecaster, window: Tensor, published: bool) -> Tensor:
    """[gcn(x), h] side by side, a gate at a time. As published every step starts from zeros, and the shares of steps are those of trained
    scores; in the paper the graph convolution has two layers and no bias, and scores are computed from the states."""
    matrix = torch.eye(NODES).double()
    for (i, j), value in zip(EDGES.T.tolist(), WEIGHT.tolist(), strict=True):
        matrix[j, i] = value
    degree = matrix.sum(1)
    matrix = matrix / degree.sqrt()[:, None] / degree.sqrt()[None]
    own = [model.of_state[:, :8], model.of_state[:, 8:], model.of_candidate]
    h = zero = torch.zeros(NODES, 8).double()

    def gate(at: int, x: Tensor, state: Tensor) -> Tensor:
        if published:
            convolved = matrix @ x @ model.convolution[at] + model.convolution_bias[at]
            return torch.cat((convolved, state), 1) @ torch.cat((model.mix[at], own[at])) + model.bias[at]
        columns = slice(8 * at, 8 * at + 8)
        convolved = 1 / (1 + torch.exp(-matrix @ torch.clamp(matrix @ x @ model.inner, min=0) @ model.outer))
        return torch.cat((convolved, state), 1) @ torch.cat((model.of_input[:, columns], own[at])) + model.bias[columns]

    states = []
    for x in window:
        h = zero if published else h
        z, r = torch.sigmoid(gate(0, x, h)), torch.sigmoid(gate(1, x, h))
        h = z * h + (1 - z) * torch.tanh(gate(2, x, r * h))
        states.append(h)
    if published:
        scores = model.scores.exp()
    else:
        scores = torch.stack([(model.of_sensors[0] * (state @ model.of_values[:, 0] + 0.3)).sum() for state in states]).exp()  # any bias
    context = sum((share * state for share, state in zip(scores / scores.sum(), states, strict=True)), zero)
    return ((torch.clamp(context, min=0) if published else context) @ model.readout.weight.T + model.readout.bias).T


def transformer_reference(model: Forecaster, window: Tensor, published: bool) -> Tensor:
    def norm(x: Tensor, layer: torch.nn.Module) -> Tensor:
        centred = x - x.mean(1, keepdim=True)
        return centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt() * layer.weight + layer.bias

    def linear(x: Tensor, layer: torch.nn.Module) -> Tensor:
        return x @ layer.weight.T + layer.bias

    x = linear(window[:, :, 0].T, model.token) + model.node + linear(window[-1, :, 1:2], model.clock)
    for block in model.blocks:
        queries, keys, values = linear(norm(x, block.before), block.queries_keys_values).split(8, 1)
        heads = []
        for head in (slice(0, 4), slice(4, 8)):
            scores = (queries[:, head] @ keys[:, head].T / 2).exp()
            heads.append(scores / scores.sum(1, keepdim=True) @ values[:, head])
        x = x + linear(torch.cat(heads, 1), block.mix)
        up = linear(norm(x, block.between), block.up)
        x = x + linear(up * 0.5 * (1 + torch.erf(up / 2**0.5)), block.down)
    return linear(norm(x, model.norm), model.readout).T


def stid_reference(model: Forecaster, window: Tensor, published: bool) -> Tensor:
    """A node at a time. Windows are not standardised, so that the clock is read as it is; 288 rows."""

    def linear(x: Tensor, layer: torch.nn.Module) -> Tensor:
        return layer.weight @ x + layer.bias

    columns = []
    for node in range(NODES):
        series = linear(torch.cat([window[step, node] for step in range(WINDOW)]), model.series)
        row = min(max(int(np.floor(float(window[-1, node, 1]) * 288 + 1e-3)), 0), 287)
        x = torch.cat((series, model.node[node], model.time[0, row]))
        for layer in model.layers:
            x = x + linear(torch.clamp(linear(x, layer.inner), min=0), layer.outer)
        columns.append(linear(x, model.readout))
    return torch.stack(columns, 1)


def wavenet_reference(model: Forecaster, window: Tensor, published: bool) -> Tensor:
    """Step by step and sensor by sensor: Wu et al., eqs. 5 to 8, with dilations 1, 2, 1, 2; steps before the window are zeros.

    As published, matrices are transposed. Instead of a batch, sensors and steps of a window are normalised.
    """

    def linear(x: Tensor, layer: torch.nn.Module) -> Tensor:
        return layer.weight @ x + layer.bias

    learnt = torch.clamp(model.sources @ model.targets, min=0).exp()
    learnt = learnt / learnt.sum(1, keepdim=True)
    _, *matrices = [*powers(False), learnt, learnt @ learnt]
    if published:
        matrices = [matrix.T for matrix in matrices]
    steps = {
        t: [linear(window[t, n] if t >= 0 else torch.zeros(CHANNELS).double(), model.start) for n in range(NODES)] for t in range(-2, 5)
    }
    lasts = []
    for layer, dilation in enumerate((1, 2, 1, 2)):
        gated = {}
        for t in [t for t in steps if t - dilation in steps]:
            both = [linear(torch.cat((steps[t - dilation][n], steps[t][n])), model.gated[layer]) for n in range(NODES)]
            gated[t] = torch.stack([torch.tanh(each[:8]) * torch.sigmoid(each[8:]) for each in both])
        lasts.append(gated[4])
        if layer == 3:
            break
        conv, after = model.graph[layer], {}
        for t, x in gated.items():
            mixed = x @ conv.weight[0] + sum(matrix @ x @ own for matrix, own in zip(matrices, conv.weight[1:], strict=True))
            after[t] = mixed + conv.bias + torch.stack(steps[t])
        every = torch.stack([*after.values()])
        mean = every.mean((0, 1))
        spread = ((every - mean) ** 2).mean((0, 1))
        steps = {t: [*((x - mean) / (spread + 1e-5).sqrt() * conv.scale + conv.shift)] for t, x in after.items()}
    columns = []
    for n in range(NODES):
        hidden = torch.clamp(linear(torch.cat([last[n] for last in lasts]), model.skip), min=0)
        columns.append(linear(torch.clamp(linear(hidden, model.end), min=0), model.readout))
    return torch.stack(columns, 1)


REFERENCES = {
    "dcrnn": diffusion_reference,
    "pgt-dcrnn": diffusion_reference,
    "a3t-gcn": a3t_reference,
    "st-transformer": transformer_reference,
    "stid": stid_reference,
    "graph-wavenet": wavenet_reference,
}
