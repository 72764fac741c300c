"""An oracle: the same training with dense matrices and plain autograd; shares nothing with programs but parameters."""

import numpy as np
import torch

from chronoscale.real_exec.model import SnapshotModel


def adjacency(snapshot):
    """A + I, entry [v, u] for the edge u -> v."""
    dense = torch.eye(snapshot.num_nodes)
    dense[snapshot.dst.astype(np.int64), snapshot.src.astype(np.int64)] = 1
    return dense


def normalised(dense):
    return dense / dense.sum(1).sqrt()[:, None] / dense.sum(0).sqrt()[None, :]


def outputs(model, graphs, features):
    """The top layer's output for every snapshot of a group."""
    below = [features] * len(graphs)
    kind = model.shape
    for layer in range(kind.layers):
        block, state, above = model.block(layer), None, []
        for dense, x in zip(graphs, below, strict=True):
            if kind.evolves_weights:
                before = (block.initial, torch.zeros_like(block.initial)) if state is None else state
                fed = before[0]
                if kind.summarises:
                    scores = x @ block.scorer / block.scorer.norm()
                    best = scores.sort(descending=True).indices[: kind.hidden]
                    fed = x[best] * torch.tanh(scores[best])[:, None]
                cell = block.step.cell
                state = cell(fed, before) if kind.temporal == "lstm" else (cell(fed, before[0]),) * 2
                above.append(torch.relu(normalised(dense) @ x @ state[0].T))
                continue
            if kind.spatial == "gat":
                z = x @ block.dense.weight.T
                scores = torch.nn.functional.leaky_relu((z @ block.left)[None, :] + (z @ block.right)[:, None], 0.2)
                weights = torch.softmax(scores.masked_fill(dense == 0, -torch.inf), 1)
                y = torch.nn.functional.elu(weights @ z + block.bias)
            else:
                y = torch.relu(block.dense(normalised(dense) @ x))
            cell = block.step.cell
            if kind.temporal == "lstm":
                state = cell(y, state)
                above.append(state[0])
            else:
                state = cell(y, state)
                above.append(state)
        below = above
    return below


def train(sequence, features, work, iterations, seed=5, learning_rate=0.01):
    """Losses of optimiser steps, each the mean over `iterations[i]`, a list of groups."""
    model, hyper = SnapshotModel(work.model, seed), work.hyper
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    losses = []
    for units in iterations:
        errors = []
        for unit in units:
            start = unit * hyper.stride
            tops = outputs(model, [adjacency(sequence[start + s]) for s in range(hyper.group_size)], features)
            steps = range(hyper.group_size) if work.model.evolves_weights else [hyper.group_size - 1]
            found = []
            for step in steps:
                target = torch.from_numpy(np.log1p(sequence[start + step + hyper.horizon].in_degree()).astype(np.float32))
                found.append(((tops[step] @ model.readout.weight.T + model.readout.bias)[:, 0] - target).square().mean())
            errors.append(torch.stack(found).mean())
        loss = torch.stack(errors).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return np.array(losses)


def iterations_of(schedule):
    """Groups of every optimiser step of a schedule."""
    found = [set() for _ in range(schedule.iterations)]
    for iteration, unit in zip(schedule.iteration.tolist(), schedule.unit.tolist(), strict=True):
        if unit >= 0:
            found[iteration].add(unit)
    return [sorted(units) for units in found]
