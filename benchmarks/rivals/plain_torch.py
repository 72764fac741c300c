"""The obvious trainer in torch alone: sparse matrices, cells, Adam. Its mathematics and its first weights are ours."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from chronoscale.real_exec.snapshots.model import EvolvingBlock, GcnBlock, SnapshotModel
from rivals.windows import Losses, Windows, normal


class PlainTorch:
    """Of a model with one layer of convolution: a copy of its parameters, in torch's own modules. ahead: neighbours' features are added up
    once, before training."""

    def __init__(self, model: SnapshotModel, windows: Windows, rate: float, ahead: bool = False) -> None:
        block = model.block(0)
        assert isinstance(block, GcnBlock | EvolvingBlock)
        self._cell, self._readout = copy.deepcopy(block.step.cell), copy.deepcopy(model.readout)
        self._dense = copy.deepcopy(block.dense) if isinstance(block, GcnBlock) else None
        evolved = [] if isinstance(block, GcnBlock) else [block.initial, *([] if block.scorer is None else [block.scorer])]
        self._evolved = [torch.nn.Parameter(each.detach().clone()) for each in evolved]
        parts = [part for part in (self._cell, self._readout, self._dense) if part is not None]
        self._optimizer = torch.optim.Adam([p for part in parts for p in part.parameters()] + self._evolved, lr=rate)
        self._windows, self._matrices = windows, [_matrix(edges, len(windows.x)) for edges in windows.edges]
        self._sums = [torch.sparse.mm(matrix, windows.x) for matrix in self._matrices] if ahead else None

    def epoch(self) -> Losses:
        """As `Trainer.epoch`."""
        return self._windows.epoch(self._optimizer, self._begin)

    def _begin(self) -> Callable[[int], Tensor]:
        x, state = self._windows.x, None
        lstm = isinstance(self._cell, torch.nn.LSTMCell)

        def output(t: int) -> Tensor:
            nonlocal state
            sums = torch.sparse.mm(self._matrices[t], x) if self._sums is None else self._sums[t]
            if self._dense is not None:
                state = self._cell(torch.relu(self._dense(sums)), state)
                return self._readout(state[0] if lstm else state).squeeze(-1)
            weights = state if state is not None else self._evolved[0]
            state = self._cell(self._read(weights[0] if isinstance(weights, tuple) else weights), _both(weights) if lstm else weights)
            return self._readout(torch.relu(sums @ (state[0] if lstm else state).T)).squeeze(-1)

        return output

    def _read(self, weights: Tensor) -> Tensor:
        """What the cell of evolving weights reads: themselves, or the highest-scored rows."""
        if len(self._evolved) == 1:
            return weights
        scores = self._windows.x @ self._evolved[1] / self._evolved[1].norm()
        top = torch.topk(scores, len(weights))
        return self._windows.x[top.indices] * torch.tanh(top.values)[:, None]


def _both(weights: Tensor | tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return weights if isinstance(weights, tuple) else (weights, torch.zeros_like(weights))


def _matrix(edges: Tensor, nodes: int) -> Tensor:
    loops, weights = normal(edges, nodes, symmetric=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # once a process: sparse tensors are in beta
        return torch.sparse_coo_tensor(loops.flip(0), weights, (nodes, nodes)).coalesce().to_sparse_csr()
