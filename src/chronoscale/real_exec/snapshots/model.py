"""Models on snapshots: stacks of (graph convolution, recurrence), as their papers and REAL §2.1 describe them.

A block comes in the parts that lanes run apart; N nodes, D input features, H hidden ones. What happens between the parts (aggregation,
attention) is the program's, which may do it incrementally or on a part of the graph.

=============  ==================================================================================================
GcnBlock       z = transform(aggregated [R, D]);  state = step(z, state);  output = state[0]
GatBlock       z = transform(x [R, D]);  left, right = scores(z);  y = finish(attended [R, H]);  state = step(y, state)
EvolvingBlock  weights = evolve(weights, x);  output = transform(aggregated [R, D], weights)
=============  ==================================================================================================
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from chronoscale.cuda_ext.cells import Weights
from chronoscale.cuda_ext.gru import gru
from chronoscale.cuda_ext.lstm import lstm
from chronoscale.cuda_ext.rectified import rectified
from chronoscale.errors import UserError
from chronoscale.real_exec.context import Context
from chronoscale.real_exec.learner import Learner
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import ModelChoice, ModelShape

State = tuple[Tensor, Tensor]


class Recurrence(nn.Module):
    """An LSTM or GRU cell on rows; rows are independent."""

    def __init__(self, width: int, cell: str) -> None:
        super().__init__()
        self.cell: nn.LSTMCell | nn.GRUCell = nn.LSTMCell(width, width) if cell == "lstm" else nn.GRUCell(width, width)

    def forward(self, z: Tensor, state: State | None) -> State:
        """One step: z [R, W] and (h, c) [R, W] each; None is h_0 = 0 (REAL eq. 2). A GRU's c is its h."""
        weights = Weights.of(self.cell)
        if isinstance(self.cell, nn.LSTMCell):
            return lstm(z, state, weights)
        h = gru(z, None if state is None else state[0], weights)
        return h, h


class GcnBlock(nn.Module):
    """Graph convolution, then a recurrence on node representations (WD-GCN, T-GCN)."""

    def __init__(self, shape: ModelShape, layer: int) -> None:
        super().__init__()
        self.dense = nn.Linear(shape.width(layer), shape.hidden)
        self.step = Recurrence(shape.hidden, shape.temporal)

    def transform(self, aggregated: Tensor) -> Tensor:
        """Normalised aggregates [R, D] to node representations [R, H]; rows are independent."""
        return rectified(aggregated, self.dense.weight, self.dense.bias)


class GatBlock(nn.Module):
    """Graph attention with one head, then a recurrence on node representations (GAT-LSTM)."""

    def __init__(self, shape: ModelShape, layer: int) -> None:
        super().__init__()
        self.dense = nn.Linear(shape.width(layer), shape.hidden, bias=False)
        bound = (6 / (shape.hidden + 1)) ** 0.5  # Glorot, as in the GAT paper
        self.left = nn.Parameter(torch.empty(shape.hidden).uniform_(-bound, bound))
        self.right = nn.Parameter(torch.empty(shape.hidden).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(shape.hidden))
        self.step = Recurrence(shape.hidden, shape.temporal)

    def transform(self, x: Tensor) -> Tensor:
        """Features [R, D] to [R, H], before aggregation."""
        return cast(Tensor, self.dense(x))

    def scores(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """A node's part in the score of an edge as its source and as its destination, [R] each: e_ij = leaky_relu(left_i + right_j)."""
        return z @ self.left, z @ self.right

    def finish(self, attended: Tensor) -> Tensor:
        """Attention-weighted sums [R, H] to representations [R, H]."""
        return nn.functional.elu(attended + self.bias)


class EvolvingBlock(nn.Module):
    """Graph convolution whose weights a recurrence evolves from snapshot to snapshot (EvolveGCN).

    -O: W_t = LSTM(W_{t-1}), column by column. -H: W_t = GRU(summary of x_t, W_{t-1}), the summary being the H highest-scored rows.
    """

    def __init__(self, shape: ModelShape, layer: int) -> None:
        super().__init__()
        width = shape.width(layer)
        self.initial = nn.Parameter(torch.empty(shape.hidden, width))  # W_0, transposed: a row is a column of W
        nn.init.xavier_uniform_(self.initial)
        self.step = Recurrence(width, shape.temporal)
        self.scorer = nn.Parameter(torch.randn(width) / width**0.5) if shape.summarises else None

    def candidates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The H highest-scored of rows x [R, D] (all, when there are fewer), in descending order: rows [K, D] and scores [K]."""
        assert self.scorer is not None
        scores = x @ self.scorer / self.scorer.norm()
        top = torch.topk(scores, min(len(self.initial), len(x)))
        return x[top.indices], top.values

    def summary(self, rows: Tensor, scores: Tensor) -> Tensor:
        """Rows [H, D] weighted by tanh of their scores [H]. Raises UserError when there are fewer than H."""
        if len(rows) < len(self.initial):
            raise UserError(f"EvolveGCN-H summarises {len(self.initial)} nodes a snapshot, as many as hidden; the graph has {len(rows)}")
        return rows * torch.tanh(scores)[:, None]

    def evolve(self, weights: State | None, x: Tensor | None = None, summary: Tensor | None = None) -> State:
        """The next snapshot's weights ([H, D], memory) from the last ones (None: before the first). -H reads x, or a ready summary."""
        before = (self.initial, torch.zeros_like(self.initial)) if weights is None else weights
        if self.scorer is None:
            return cast(State, self.step(before[0], before))
        if summary is None:
            assert x is not None
            summary = self.summary(*self.candidates(x))
        return cast(State, self.step(summary, before))

    def transform(self, aggregated: Tensor, weights: State) -> Tensor:
        """Normalised aggregates [R, D] to outputs [R, H] with this snapshot's weights; rows are independent."""
        return rectified(aggregated, weights[0])


Block = GcnBlock | GatBlock | EvolvingBlock


class SnapshotModel(nn.Module):
    """Layers and a linear readout: of the last hidden state, or of every snapshot's output where weights evolve."""

    def __init__(self, shape: ModelShape, seed: int = 0) -> None:
        super().__init__()
        kind: type[Block] = EvolvingBlock if shape.evolves_weights else GatBlock if shape.spatial == "gat" else GcnBlock
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.blocks = nn.ModuleList(kind(shape, layer) for layer in range(shape.layers))
            self.readout = nn.Linear(shape.hidden, shape.outputs)
        self.shape = shape

    def block(self, layer: int) -> Block:
        """Layer by number."""
        return cast(Block, self.blocks[layer])

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Mean squared error of the predictions from outputs [R, H] against targets [R]."""
        return nn.functional.mse_loss(self.readout(output).squeeze(-1), target)


def shape_of(choice: ModelChoice) -> ModelShape:
    """Raises UserError as `model_shape`."""
    return model_shape(choice.name, choice.inputs, choice.hidden, choice.layers)


def learner_of(choice: ModelChoice, context: Context) -> Learner[SnapshotModel]:
    """The untrained model on this rank, its parameters from the job's seed."""
    return Learner(SnapshotModel(shape_of(choice), context.settings.seed), context)
