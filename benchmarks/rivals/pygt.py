"""PyTorch Geometric Temporal's modules in the loop of its examples.

Its three files are loaded alone: the package as a whole needs data loaders that nothing here reads. They take the name SparseTensor from
torch_sparse, for an annotation; where that is not installed, the stand-in that torch_geometric itself has for it is lent.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from chronoscale.errors import UserError
from chronoscale.real_exec.snapshots.model import EvolvingBlock, GcnBlock, SnapshotModel
from rivals.windows import Losses, Windows, normal

PACKAGE = "upstream_recurrent"
SURE = 40.0  # a gate's bias: its sigmoid is 1 in float32
LIFT = 8.0  # added before a ReLU that is to do nothing, taken off behind it


def module(name: str) -> ModuleType:
    """Return one of its recurrent modules. Raises UserError where it, or torch_geometric, is not installed."""
    if PACKAGE not in sys.modules:
        spec = find_spec("torch_geometric_temporal")
        if spec is None or not spec.submodule_search_locations:
            raise UserError("PyTorch Geometric Temporal is not installed: pip install torch_geometric torch_geometric_temporal")
        try:
            typing = import_module("torch_geometric.typing")
        except ModuleNotFoundError as missing:
            raise UserError(f"PyTorch Geometric Temporal needs torch_geometric: pip install torch_geometric ({missing})") from missing
        if find_spec("torch_sparse") is None:
            lent: Any = ModuleType("torch_sparse")
            lent.SparseTensor = typing.SparseTensor
            sys.modules["torch_sparse"] = lent
        package = sys.modules[PACKAGE] = ModuleType(PACKAGE)
        package.__path__ = [f"{spec.submodule_search_locations[0]}/nn/recurrent"]
    return import_module(f"{PACKAGE}.{name}")


def recurrent(name: str) -> Any:
    """Return the class TGCN, EvolveGCNO or EvolveGCNH. Raises as `module`."""
    return getattr(module("temporalgcn" if name == "TGCN" else name.lower()), name)


@dataclass(frozen=True, slots=True)
class Taken:
    """How the modules are used.

    once: edges come normalised, by our rows and columns, and the modules leave them as they are; else they normalise them in every
    call, as their examples do, by the in-degree alone. turned: evolving weights are multiplied with transposed, as the paper has them: a
    column of W is what the recurrence takes for a row.
    """

    once: bool = False
    turned: bool = False


class Pygt:
    """A module and a linear readout, with parameters from a model of ours with one layer; EvolveGCN has as many inputs as outputs."""

    def __init__(self, model: SnapshotModel, windows: Windows, rate: float, taken: Taken = Taken()) -> None:
        self._windows, self._name = windows, _module(model)
        nodes, shape = len(windows.x), model.shape
        given = (shape.inputs, shape.hidden) if self._name == "TGCN" else (nodes, shape.inputs) if shape.summarises else (shape.inputs,)
        self.layer: Any = recurrent(self._name)(*given)
        self.readout = nn.Linear(shape.hidden, 1)
        self.readout.load_state_dict(model.readout.state_dict())
        _copy(model, self.layer)
        self._edges: list[tuple[Tensor, Tensor | None]] = [(edges, None) for edges in windows.edges]
        if taken.once:
            self._edges = [normal(edges, nodes, symmetric=False) for edges in windows.edges]
            for part in self.layer.modules():
                if hasattr(part, "normalize"):
                    part.normalize = False
        if taken.turned:
            convolve = self.layer.conv_layer.forward
            self.layer.conv_layer.forward = lambda weight, *others: convolve(weight.T, *others)
        self._optimizer = torch.optim.Adam([*self.layer.parameters(), *self.readout.parameters()], lr=rate)

    def epoch(self) -> Losses:
        """As `Trainer.epoch`."""
        return self._windows.epoch(self._optimizer, self._evolving if self._name != "TGCN" else self._recurrent)

    def _recurrent(self) -> Callable[[int], Tensor]:
        hidden: Tensor | None = None

        def output(t: int) -> Tensor:
            nonlocal hidden
            hidden = self.layer(self._windows.x, *self._edges[t], hidden)
            return self.readout(hidden).squeeze(-1)

        return output

    def _evolving(self) -> Callable[[int], Tensor]:
        self.layer.reinitialize_weight()
        return lambda t: self.readout(torch.relu(self.layer(self._windows.x, *self._edges[t]))).squeeze(-1)


def _module(model: SnapshotModel) -> str:
    shape = model.shape
    return "TGCN" if not shape.evolves_weights else "EvolveGCNH" if shape.summarises else "EvolveGCNO"


def _copy(model: SnapshotModel, layer: Any) -> None:
    """Parameters of ours into theirs, whose mathematics they may not be; an LSTM's first three gates for a GRU's."""
    block = model.block(0)
    assert isinstance(block, GcnBlock | EvolvingBlock)
    cell = block.step.cell
    with torch.no_grad():
        if isinstance(block, EvolvingBlock):
            layer.initial_weight.copy_(block.initial[None])
            for name, own in cell.named_parameters():
                getattr(layer.recurrent_layer, f"{name}_l0").copy_(own[: 3 * cell.hidden_size])
            if block.scorer is not None:
                layer.pooling_layer.select.weight.copy_(block.scorer[None])
            return
        for gate, given, from_memory, *biases in zip("rzh", *(own.chunk(3) for own in cell.parameters()), strict=True):
            convolution, linear = getattr(layer, f"conv_{gate}"), getattr(layer, f"linear_{gate}")
            convolution.lin.weight.copy_(block.dense.weight)
            convolution.bias.copy_(block.dense.bias)
            linear.weight.copy_(torch.cat([given, from_memory], 1))
            linear.bias.copy_(sum(biases))


def aligned(model: SnapshotModel) -> None:
    """Weights of our T-GCN under which theirs, with the parameters that `Pygt` copies before, is the same function: the reset gate is 1,
    so that nothing depends on its place before or behind the product, and the ReLU of the convolution does nothing.

    To be called on ours before `Pygt` copies; `lifted` after.
    """
    block = model.block(0)
    assert isinstance(block, GcnBlock)
    with torch.no_grad():
        block.step.cell.bias_ih[: block.step.cell.hidden_size] = SURE


def lifted(model: SnapshotModel) -> None:
    """As `aligned`."""
    block = model.block(0)
    assert isinstance(block, GcnBlock)
    with torch.no_grad():
        block.dense.bias += LIFT
        block.step.cell.bias_ih -= LIFT * block.step.cell.weight_ih.sum(1)
