"""Models on snapshots: stacks of (graph convolution, recurrence), as their papers and REAL §2.1 describe them.

A block comes in the parts that lanes run separately; N nodes, D input features, H hidden ones. What happens between the parts (aggregation,
attention) is the program's, which may do it incrementally or on a part of the graph.

=============  ==================================================================================================
GcnBlock       z = transform(aggregated [R, D]);  state = step(z, state);  output = step.output(state)
GatBlock       z = transform(x [R, D]);  left, right = scores(z);  y = finish(attended [R, H]);  state = step(y, state)
EvolvingBlock  weights = evolve(weights, x);  output = transform(aggregated [R, D], weights)
=============  ==================================================================================================

Where a layer has no recurrence, `step` is None and the representations z or y are its output.
"""

from __future__ import annotations

from itertools import repeat
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from chronoscale.cuda_ext.operators.cell_weights import CellWeights
from chronoscale.cuda_ext.operators.gru import gru
from chronoscale.cuda_ext.operators.linear_relu import linear_relu
from chronoscale.cuda_ext.operators.lstm import lstm
from chronoscale.errors import UserError
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.snapshots.objective import Objective
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import ModelChoice, ModelShape

State = tuple[Tensor, Tensor]


class Recurrence(nn.Module):
    """LSTM or GRU cells of a model on snapshots, `depth` of them in a stack: the hidden state of one is the input of the next.

    Rows (nodes) are independent.
    """

    def __init__(self, width: int, cell: str, depth: int = 1) -> None:
        super().__init__()
        kind = nn.LSTMCell if cell == "lstm" else nn.GRUCell
        self.cell: nn.LSTMCell | nn.GRUCell = kind(width, width)
        self.above = nn.ModuleList(kind(width, width) for _ in range(depth - 1))
        self.width = width

    def forward(self, x: Tensor, state: State | None) -> State:
        """Take one step of the recurrence, to the next snapshot: map its inputs x [R, W] and the state (h, c) to the next (h, c).

        h and c are [R, depth W], the cells' states side by side. None is h_0 = 0 (REAL eq. 2). A GRU's c is its h.
        """
        if not self.above:
            return _step_cell(self.cell, x, state)
        before = repeat(None) if state is None else zip(*(part.split(self.width, 1) for part in state), strict=True)
        after: list[State] = []
        for cell, last in zip((self.cell, *self.above), before, strict=False):
            after.append(_step_cell(cell, after[-1][0] if after else x, last))
        h = torch.cat([pair[0] for pair in after], 1)
        return h, torch.cat([pair[1] for pair in after], 1) if isinstance(self.cell, nn.LSTMCell) else h

    def output(self, state: State) -> Tensor:
        """Return what the layer above reads of a recurrent state: the last cell's h, [R, W]."""
        return state[0][:, -self.width :] if self.above else state[0]


def _step_cell(cell: nn.Module, x: Tensor, state: State | None) -> State:
    if isinstance(cell, nn.LSTMCell):
        return lstm(x, state, CellWeights.of(cell))
    assert isinstance(cell, nn.GRUCell)
    h = gru(x, None if state is None else state[0], CellWeights.of(cell))
    return h, h


def _recurrence(shape: ModelShape, layer: int) -> Recurrence | None:
    """Return the recurrence on a layer's node representations, or None."""
    return Recurrence(shape.hidden, shape.temporal, shape.depth) if shape.recurs(layer) else None


class GcnBlock(nn.Module):
    """Layer of a model on snapshots: graph convolution, then a recurrence on node representations (WD-GCN, T-GCN, MPNN-LSTM).

    MPNN-LSTM has a recurrence only on the last layer's representations, of two cells, and predicts from the second one's hidden state. Its
    paper joins representations of several windows before the readout; they are left out, as in FlareDTDG's code (whose last ReLU stands
    before the readout, and not, as here and in the paper, after the last convolution).
    """

    def __init__(self, shape: ModelShape, layer: int) -> None:
        super().__init__()
        self.dense = nn.Linear(shape.width(layer), shape.hidden)
        self.step = _recurrence(shape, layer)

    def transform(self, aggregated: Tensor) -> Tensor:
        """Map a snapshot's normalised neighbour sums [R, D] to node representations [R, H]; rows are independent."""
        return linear_relu(aggregated, self.dense.weight, self.dense.bias)


class GatBlock(nn.Module):
    """Layer of a model on snapshots: graph attention with one head, then a recurrence on node representations (GAT-LSTM)."""

    def __init__(self, shape: ModelShape, layer: int) -> None:
        super().__init__()
        self.dense = nn.Linear(shape.width(layer), shape.hidden, bias=False)
        bound = (6 / (shape.hidden + 1)) ** 0.5  # Glorot, as in the GAT paper
        self.left = nn.Parameter(torch.empty(shape.hidden).uniform_(-bound, bound))
        self.right = nn.Parameter(torch.empty(shape.hidden).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(shape.hidden))
        self.step = _recurrence(shape, layer)

    def transform(self, x: Tensor) -> Tensor:
        """Map a snapshot's node features [R, D] to [R, H], before attention aggregates them."""
        return cast(Tensor, self.dense(x))

    def scores(self, transformed: Tensor) -> tuple[Tensor, Tensor]:
        """Return each node's parts of attention scores, [R] each: as the source of an edge, and as its destination.

        transformed: [R, H], as of `transform`. An edge's score is e_ij = leaky_relu(left_i + right_j).
        """
        return transformed @ self.left, transformed @ self.right

    def finish(self, attended: Tensor) -> Tensor:
        """Map attention-weighted neighbour sums [R, H] to node representations [R, H]."""
        return nn.functional.elu(attended + self.bias)


class EvolvingBlock(nn.Module):
    """Layer of a model on snapshots: graph convolution whose weights a recurrence evolves from snapshot to snapshot (EvolveGCN).

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
        """Return the H highest-scored nodes of a snapshot for EvolveGCN-H's summary (all, when there are fewer), in descending order.

        x: rows [R, D]. Returns rows [K, D] and scores [K].
        """
        assert self.scorer is not None
        scores = x @ self.scorer / self.scorer.norm()
        top = torch.topk(scores, min(len(self.initial), len(x)))
        return x[top.indices], top.values

    def summary(self, rows: Tensor, scores: Tensor) -> Tensor:
        """Return EvolveGCN-H's summary of a snapshot, [H, D]: its highest-scored rows [H, D], weighted by tanh of their scores [H].

        Raises UserError when there are fewer than H.
        """
        if len(rows) < len(self.initial):
            raise UserError(f"EvolveGCN-H summarises {len(self.initial)} nodes a snapshot, as many as hidden; the graph has {len(rows)}")
        return rows * torch.tanh(scores)[:, None]

    def evolve(self, weights: State | None, x: Tensor | None = None, summary: Tensor | None = None) -> State:
        """Return the convolution weights for the next snapshot, as ([H, D], memory), evolved from the last ones (None: before the first).

        EvolveGCN-H reads the snapshot's rows x [R, D], or a ready summary [H, D].
        """
        before = (self.initial, torch.zeros_like(self.initial)) if weights is None else weights
        if self.scorer is None:
            return cast(State, self.step(before[0], before))
        if summary is None:
            assert x is not None
            summary = self.summary(*self.candidates(x))
        return cast(State, self.step(summary, before))

    def transform(self, aggregated: Tensor, weights: State) -> Tensor:
        """Map a snapshot's normalised neighbour sums [R, D] to outputs [R, H] with the weights evolved for it; rows are independent."""
        return linear_relu(aggregated, weights[0])


Block = GcnBlock | GatBlock | EvolvingBlock


class NodeRows(Protocol):
    """Which of the rows that were computed is each node's."""

    def spread(self, values: Tensor) -> Tensor:
        """Return the values of all nodes, [N, W], of rows [R, W]."""
        ...


class SnapshotModel(nn.Module):
    """Model on snapshots: layers, and a linear readout of the last layer's last output, or of its output for every snapshot where weights
    evolve.
    """

    def __init__(self, shape: ModelShape, seed: int = 0) -> None:
        super().__init__()
        kind: type[Block] = EvolvingBlock if shape.evolves_weights else GatBlock if shape.spatial == "gat" else GcnBlock
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.blocks = nn.ModuleList(kind(shape, layer) for layer in range(shape.layers))
            self.readout = nn.Linear(shape.hidden, shape.outputs)
        self.shape = shape

    def block(self, layer: int) -> Block:
        """Return a layer of the model by number, from 0."""
        return cast(Block, self.blocks[layer])

    def predict(self, output: Tensor, rows: NodeRows | None = None) -> Tensor:
        """Return what is read out of every node's output, [N, outputs].

        output: rows [R, H], of which `rows` says each node's; None: a row a node, in their order.
        """
        predicted: Tensor = self.readout(output)
        return predicted if rows is None else rows.spread(predicted)

    def loss(self, output: Tensor, target: Tensor, objective: Objective, rows: NodeRows | None = None) -> Tensor:
        """Return the training loss of predictions read out of all nodes' outputs, a scalar. output, rows: as of `predict`."""
        return objective.loss(self.predict(output, rows), target)


def shape_of(choice: ModelChoice, outputs: int = 1) -> ModelShape:
    """Return the sizes of the chosen model on snapshots.

    outputs: numbers predicted for a node. Raises UserError for an unknown name or impossible sizes.
    """
    return model_shape(choice.name, choice.inputs, choice.hidden, choice.layers, outputs)


def learner_of(choice: ModelChoice, context: Context, outputs: int = 1) -> Learner[SnapshotModel]:
    """Return the untrained model on snapshots on this rank, with its optimiser; parameters come from the job's seed.

    outputs: numbers predicted for a node.
    """
    return Learner(SnapshotModel(shape_of(choice, outputs), context.settings.seed), context)
