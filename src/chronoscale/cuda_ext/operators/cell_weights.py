"""Weights of recurrent cells (`gru`, `lstm`), their gradients added up block by block of rows, and checks of operands.

On a CPU cells take block after block of rows: a block's gates are made and used while they lie in the cache, and a first step, whose
state is zero, multiplies nothing with it. Elsewhere torch's cells run.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from chronoscale.cuda_ext.native.backend import FLOATS
from chronoscale.cuda_ext.operators.sparse_arrays import describe
from chronoscale.errors import UserError


class CellWeights(NamedTuple):
    """Weights of one of torch's recurrent cells with G gates (GRU 3, LSTM 4), as the CPU kernels take them.

    weight_ih [G H, D], weight_hh [G H, H], their biases [G H] each.
    """

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor
    bias_hh: Tensor

    @classmethod
    def of(cls, cell: torch.nn.RNNCellBase) -> CellWeights:
        """Return the weights of one of torch's recurrent cells, for the kernels."""
        return cls(cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)


class CellWeightGradients:
    """Gradients of a recurrent cell's weights, which the CPU kernels' backward pass adds up block by block of rows.

    Those of the matrices are summed transposed, [D, G H] and [H, G H]: a product x^T gates takes less time than gates^T x.
    """

    def __init__(self, weights: CellWeights) -> None:
        self._input, self._state = (part.new_zeros(part.shape[::-1]) for part in (weights.weight_ih, weights.weight_hh))
        self._input_bias, self._state_bias = (part.new_zeros(len(part)) for part in (weights.bias_ih, weights.bias_hh))

    def add_input(self, gates: Tensor, x: Tensor) -> None:
        """Add a block of rows' share to the gradients of weight_ih and bias_ih, in the backward pass of a cell's CPU kernels.

        gates [r, G H]: gradients before the activations; x [r, D]: the block's input.
        """
        self._input.addmm_(x.t(), gates)
        self._input_bias += gates.sum(0)

    def add_state(self, gates: Tensor, h: Tensor | None) -> None:
        """Add a block of rows' share to the gradients of weight_hh and bias_hh, in the backward pass of a cell's CPU kernels.

        gates [r, G H]: gradients before the activations; h [r, H]: the block's state; None: zeros.
        """
        if h is not None:
            self._state.addmm_(h.t(), gates)
        self._state_bias += gates.sum(0)

    def collect(self) -> CellWeights:
        """Return the gradients of the weights, once all blocks have been added, contiguous."""
        return CellWeights(self._input.t().contiguous(), self._state.t().contiguous(), self._input_bias, self._state_bias)


def kernel_rows(tensor: Tensor | None, block: slice) -> Tensor | None:
    """Return a block of a tensor's rows as kernels read them: contiguous, without the lazy negation bit. None of None."""
    return None if tensor is None else tensor[block].resolve_neg().contiguous()


def empty_gradient(tensor: Tensor | None, wanted: bool = True) -> Tensor | None:
    """Return contiguous memory for a kernel to write a tensor's gradient to; None without a tensor, or where it is not wanted."""
    return torch.empty_like(tensor, memory_format=torch.contiguous_format) if tensor is not None and wanted else None


def check_cell(name: str, x: Tensor, weights: CellWeights, gates: int, **states: Tensor | None) -> None:
    """Raise UserError unless inputs, weights and states of a recurrent cell fit one another, before its kernels run.

    name: of the cell, for the message. gates: 3 of a GRU, 4 of an LSTM. x [R, D]; states: name -> [R, H] or None.
    """
    if x.dim() != 2 or x.dtype not in FLOATS or x.layout != torch.strided:
        raise UserError(f"{name}: x is {describe(x)}; expected float32 or float64 [R, D]")
    hidden = weights.weight_hh.shape[-1] if weights.weight_hh.dim() else -1
    sizes: list[tuple[str, Tensor | None, tuple[int, ...]]] = [
        ("weight_ih", weights.weight_ih, (gates * hidden, x.shape[1])),
        ("weight_hh", weights.weight_hh, (gates * hidden, hidden)),
        ("bias_ih", weights.bias_ih, (gates * hidden,)),
        ("bias_hh", weights.bias_hh, (gates * hidden,)),
        *((part, state, (len(x), hidden)) for part, state in states.items()),
    ]
    for part, tensor, shape in sizes:
        if tensor is not None and (tuple(tensor.shape) != shape or tensor.dtype != x.dtype or tensor.device != x.device):
            raise UserError(f"{name}: {part} is {describe(tensor)}; expected {x.dtype} {list(shape)} on {x.device}")
