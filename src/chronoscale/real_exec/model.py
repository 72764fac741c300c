"""Models on snapshots: stacks of (graph convolution, recurrent cell), as their papers and REAL §2.1 describe them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from chronoscale.errors import unknown
from chronoscale.strategies.workload import ModelShape

CELLS = {"wd-gcn": "lstm", "t-gcn": "gru"}  # Manessi et al. 2020; Zhao et al. 2019
State = tuple[Tensor, Tensor]


def model_shape(name: str, inputs: int, hidden: int = 64, layers: int = 1, outputs: int = 1) -> ModelShape:
    """Sizes of a model by name. Raises UserError for an unknown one (with the nearest) or widths below 1."""
    if name not in CELLS:
        raise unknown("model", name, CELLS)
    cell = CELLS[name]
    gates = {"lstm": 4, "gru": 3}[cell]
    recurrent = gates * (2 * hidden * hidden + 2 * hidden)
    parameters = (
        sum((inputs if layer == 0 else hidden) * hidden + hidden + recurrent for layer in range(layers)) + hidden * outputs + outputs
    )
    return ModelShape(name, "gcn", cell, layers, inputs, hidden, outputs, parameters)


class SnapshotLayer(nn.Module):
    """One spatio-temporal block, in the two halves that lanes run apart: `transform` and `step`."""

    def __init__(self, inputs: int, hidden: int, cell: str) -> None:
        super().__init__()
        self.hidden = hidden
        self.dense = nn.Linear(inputs, hidden)
        self.cell: nn.LSTMCell | nn.GRUCell = nn.LSTMCell(hidden, hidden) if cell == "lstm" else nn.GRUCell(hidden, hidden)

    def transform(self, aggregated: Tensor) -> Tensor:
        """Normalised aggregates [R, inputs] to node representations [R, hidden]; rows are independent."""
        return torch.relu(self.dense(aggregated))

    def step(self, z: Tensor, state: State | None) -> State:
        """One step of the recurrence: z [N, hidden] and (h, c) [N, hidden] each; None is h_0 = 0 (REAL eq. 2)."""
        if isinstance(self.cell, nn.LSTMCell):
            h, c = self.cell(z, state)
            return h, c
        h = self.cell(z, None if state is None else state[0])
        return h, h


class SnapshotModel(nn.Module):
    """Layers and a linear readout of the last hidden state; WD-GCN with an LSTM, T-GCN with a GRU."""

    def __init__(self, shape: ModelShape, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.blocks = nn.ModuleList(SnapshotLayer(shape.width(layer), shape.hidden, shape.temporal) for layer in range(shape.layers))
            self.readout = nn.Linear(shape.hidden, shape.outputs)
        self.shape = shape

    def block(self, layer: int) -> SnapshotLayer:
        """Layer by number."""
        block = self.blocks[layer]
        assert isinstance(block, SnapshotLayer)
        return block
