"""What recurrent cells on many rows share (`gru`, `lstm`), in torch's form.

On a CPU they take block after block of rows: a block's gates are made and used while they lie in the cache, and a first step, whose
state is zero, multiplies nothing with it. Elsewhere torch's cells run.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from chronoscale.cuda_ext.native.backend import FLOATS
from chronoscale.cuda_ext.operators.graph import describe
from chronoscale.errors import UserError


class CellWeights(NamedTuple):
    """As torch's cells have them, for G gates (GRU 3, LSTM 4): given [G H, D] and kept [G H, H], their biases [G H] each."""

    given: Tensor
    kept: Tensor
    given_bias: Tensor
    kept_bias: Tensor

    @classmethod
    def of(cls, cell: torch.nn.RNNCellBase) -> CellWeights:
        """Of one of torch's cells."""
        return cls(cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)


class CellWeightGradients:
    """Added up block by block."""

    def __init__(self, weights: CellWeights) -> None:
        self.all = CellWeights(*(torch.zeros_like(part, memory_format=torch.contiguous_format) for part in weights))

    def add_given(self, gates: Tensor, x: Tensor) -> None:
        """Of a block's gates before their activations [r, G H] and what came in [r, D]."""
        self.all.given.addmm_(gates.t(), x)
        self.all.given_bias.add_(gates.sum(0))

    def add_kept(self, gates: Tensor, h: Tensor | None) -> None:
        """Likewise, and the state [r, H]; None: zeros."""
        if h is not None:
            self.all.kept.addmm_(gates.t(), h)
        self.all.kept_bias.add_(gates.sum(0))


def empty_gradient(like: Tensor | None, wanted: bool = True) -> Tensor | None:
    """Contiguous, for its gradient; None where there is none to write."""
    return torch.empty_like(like, memory_format=torch.contiguous_format) if like is not None and wanted else None


def check_cell(name: str, x: Tensor, weights: CellWeights, gates: int, **states: Tensor | None) -> None:
    """Raises UserError for what does not fit."""
    if x.dim() != 2 or x.dtype not in FLOATS or x.layout != torch.strided:
        raise UserError(f"{name}: x is {describe(x)}; expected float32 or float64 [R, D]")
    hidden = weights.kept.shape[-1] if weights.kept.dim() else -1
    sizes: list[tuple[str, Tensor | None, tuple[int, ...]]] = [
        ("given", weights.given, (gates * hidden, x.shape[1])),
        ("kept", weights.kept, (gates * hidden, hidden)),
        ("given_bias", weights.given_bias, (gates * hidden,)),
        ("kept_bias", weights.kept_bias, (gates * hidden,)),
        *((part, state, (len(x), hidden)) for part, state in states.items()),
    ]
    for part, tensor, shape in sizes:
        if tensor is not None and (tuple(tensor.shape) != shape or tensor.dtype != x.dtype or tensor.device != x.device):
            raise UserError(f"{name}: {part} is {describe(tensor)}; expected {x.dtype} {list(shape)} on {x.device}")
