"""Working memory: what a gradient pass through a layer has for itself, beside what the rows before it have left."""

from __future__ import annotations

import numpy as np

from chronoscale.cuda_ext.operators.row_blocks import BLOCK_NUMBERS
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.workload import ModelShape


def working(model: ModelShape, rows: Ints | int, layer: int) -> Ints:
    """Numbers (float32) for `rows` nodes, int64: gradients of a cell's output and of the recurrence's input, predictions and their
    errors, and blocks of rows between two steps (`cuda_ext.operators.row_blocks`)."""
    recurs = model.recurs(layer) and not model.evolves_weights
    whole = model.hidden * (1 + model.states * recurs) + 4 * model.outputs
    block = np.minimum(rows * model.hidden * (model.gates if recurs else 1), BLOCK_NUMBERS)
    return np.asarray(rows * whole + (3 if recurs else 1) * block, np.int64)
