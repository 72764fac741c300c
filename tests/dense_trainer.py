"""An oracle: training on dense adjacency matrices in float64, one process, plain autograd; written from the papers' equations."""

from copy import deepcopy

import numpy as np
import torch

RATE = 0.2  # plain gradient descent: Adam would hide a gradient that counts twice


def recur(cell, z, state):
    """LSTM or GRU by its equations; state (h, c), zeros before the first."""
    h, c = state
    x, y = z @ cell.weight_ih.T + cell.bias_ih, h @ cell.weight_hh.T + cell.bias_hh
    if isinstance(cell, torch.nn.LSTMCell):
        i, f, g, o = (x + y).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c
    (xr, xz, xn), (hr, hz, hn) = x.chunk(3, 1), y.chunk(3, 1)
    new, keep = torch.tanh(xn + torch.sigmoid(xr + hr) * hn), torch.sigmoid(xz + hz)
    h = (1 - keep) * new + keep * h
    return h, h


class DenseTrainer:
    """A copy of a SnapshotModel's parameters, trained on a sequence."""

    def __init__(self, sequence, features, model, hyper, pairs=None):
        """`features`: the same [N, F] for all snapshots; of the task `degrees` they are made here. `pairs`: of the task `links`, by
        snapshot: sources and destinations, edges before as many others."""
        self.pairs = pairs
        self.model, self.hyper, self.shape = deepcopy(model).double(), hyper, model.shape
        self.optimizer = torch.optim.SGD(self.model.parameters(), RATE)
        n = sequence.num_nodes
        self.adjacency, self.normal, self.target = [], [], []
        for snapshot in sequence:
            a = torch.eye(n, dtype=torch.float64)  # a[v, u]: u -> v, with self-loops
            a[snapshot.dst.astype(int), snapshot.src.astype(int)] = 1
            self.adjacency.append(a)
            self.normal.append(a / a.sum(1, keepdim=True).sqrt() / a.sum(0, keepdim=True).sqrt())
            self.target.append(torch.log1p(torch.stack([a.sum(1), a.sum(0)], 1) - 1))  # in, out
        self.x = self.target if hyper.task == "degrees" else [features.double()] * len(sequence)
        self.classes = None if sequence.classes is None else torch.from_numpy(sequence.classes.astype(int))

    def outputs(self, snapshots):
        """Of all layers, of every snapshot of a group, from the zero state."""
        shape = self.shape
        below = [self.x[t] for t in snapshots]
        for block in self.model.blocks:
            outputs, state = [], None
            for x, t in zip(below, snapshots, strict=True):
                a, normal = self.adjacency[t], self.normal[t]
                if shape.evolves_weights:
                    fed, state = None, state or (block.initial, torch.zeros_like(block.initial))
                    if block.scorer is not None:
                        score = x @ block.scorer / block.scorer.norm()
                        best = torch.argsort(score, descending=True, stable=True)[: shape.hidden]
                        fed = x[best] * torch.tanh(score[best])[:, None]
                    state = recur(block.step.cell, state[0] if fed is None else fed, state)
                    outputs.append(torch.relu(normal @ x @ state[0].T))
                    continue
                if shape.spatial == "gat":
                    z = x @ block.dense.weight.T
                    score = torch.nn.functional.leaky_relu((z @ block.left)[None, :] + (z @ block.right)[:, None], 0.2)
                    y = torch.nn.functional.elu(torch.softmax(score.masked_fill(a == 0, -torch.inf), 1) @ z + block.bias)
                else:
                    y = torch.relu(normal @ x @ block.dense.weight.T + block.dense.bias)
                if shape.recurs_last and block is not self.model.blocks[-1]:
                    outputs.append(y)
                    continue
                cells = [block.step.cell, *block.step.above]
                state = state or [(torch.zeros_like(y),) * 2] * len(cells)
                for i, cell in enumerate(cells):
                    state = [*state[:i], recur(cell, y, state[i]), *state[i + 1 :]]
                    y = state[i][0]
                outputs.append(y)
            below = outputs
        return below

    def group(self, unit):
        hyper = self.hyper
        snapshots = range(unit * hyper.stride, unit * hyper.stride + hyper.group_size)
        below = self.outputs(snapshots)
        steps = range(hyper.group_size) if self.shape.evolves_weights else [hyper.group_size - 1]
        return sum(self.error(self.model.readout(below[s]), snapshots[s] + hyper.horizon) for s in steps) / len(steps)

    def error(self, predicted, t):
        """Of what is predicted of a snapshot."""
        if self.hyper.task == "classes":
            chances = torch.softmax(predicted, 1)
            return -torch.stack([chances[v, c].log() for v, c in enumerate(self.classes.tolist()) if c >= 0]).mean()
        if self.hyper.task == "links":
            source, destination = self.pairs(t)
            leaving, arriving = predicted[:, : self.shape.hidden], predicted[:, self.shape.hidden :]
            chance = torch.sigmoid(leaving @ arriving.T / self.shape.hidden**0.5)[source, destination]
            edges = len(chance) // 2
            terms = torch.cat([chance[:edges].log(), (1 - chance[edges:]).log()])
            return -terms.mean() if edges else predicted.sum() * 0
        return (predicted - self.target[t][:, : predicted.shape[1]]).square().mean()

    def losses(self, iterations):
        """`iterations`: the groups of each."""
        losses = []
        for units in iterations:
            loss = sum(self.group(unit) for unit in units) / len(units)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return np.array(losses)


def weights(model):
    """Its parameters, one vector."""
    return torch.cat([p.detach().flatten() for p in model.parameters()]).double().numpy()


def apart(trained, expected, untrained):
    """How far trained weights are from the expected ones, over how far these have come; the largest of the model's parameters.

    Losses follow a gradient at a distance: what one is off by shows in the weights at once. Parameters that hardly move count by a
    thousandth of the whole way; weights that were kept in float32 are forgiven a unit in their last place.
    """
    start = weights(untrained)
    sizes = np.cumsum([p.numel() for p in untrained.parameters()])[:-1]
    way, off, size = (
        np.array([np.linalg.norm(part) for part in np.split(vector, sizes)]) for vector in (expected - start, trained - expected, start)
    )
    rounding = np.finfo(np.float32).eps if np.array_equal(trained, trained.astype(np.float32)) else 0.0
    return (np.maximum(off - rounding * size, 0) / np.maximum(way, 1e-3 * np.linalg.norm(way))).max()


def iterations_of(schedule):
    """Groups of every optimiser step of a schedule."""
    snapshots = [set() for _ in range(schedule.iterations)]
    for iteration, unit in zip(schedule.iteration.tolist(), schedule.unit.tolist(), strict=True):
        if unit >= 0:
            snapshots[iteration].add(unit)
    return [sorted(units) for units in snapshots]
