"""What PyTorch Geometric Temporal's modules say they compute, in float64: what benchmarks/rivals/pygt.py is held against."""

from __future__ import annotations

from collections.abc import Callable

import torch
from rivals.pygt import Pygt
from rivals.windows import Losses, Windows, normal
from torch import Tensor


class Equations:
    """What the modules say they compute, in float64, from a rival's parameters as they are when this is made."""

    def __init__(self, rival: Pygt, windows: Windows, rate: float) -> None:
        named = {**dict(rival.layer.named_parameters()), "out.weight": rival.readout.weight, "out.bias": rival.readout.bias}
        self._p = {name: p.detach().double().clone().requires_grad_() for name, p in named.items()}
        self._optimizer = torch.optim.Adam(self._p.values(), lr=rate)
        self._windows, self._x, nodes = windows, windows.x.double(), len(windows.x)
        self._normal = [_sparse(*normal(edges, nodes, symmetric=True, dtype=torch.float64), nodes) for edges in windows.edges]

    def epoch(self) -> Losses:
        """As `Trainer.epoch`."""
        return self._windows.epoch(self._optimizer, self._recurrent if "linear_z.weight" in self._p else self._evolving)

    def _recurrent(self) -> Callable[[int], Tensor]:
        p, x = self._p, self._x
        h = x.new_zeros(len(x), len(p["conv_z.bias"]))

        def gate(name: str, sums: Tensor, kept: Tensor) -> Tensor:
            convolved = sums @ p[f"conv_{name}.lin.weight"].T + p[f"conv_{name}.bias"]
            return torch.cat([convolved, kept], 1) @ p[f"linear_{name}.weight"].T + p[f"linear_{name}.bias"]

        def output(t: int) -> Tensor:
            nonlocal h
            sums = torch.sparse.mm(self._normal[t], x)
            update, reset = (torch.sigmoid(gate(name, sums, h)) for name in "zr")
            h = update * h + (1 - update) * torch.tanh(gate("h", sums, h * reset))
            return h @ p["out.weight"][0] + p["out.bias"]

        return output

    def _evolving(self) -> Callable[[int], Tensor]:
        p, x, w = self._p, self._x, self._p["initial_weight"][0]

        def output(t: int) -> Tensor:
            nonlocal w
            read = w
            if "pooling_layer.select.weight" in p:
                score = x @ p["pooling_layer.select.weight"][0] / p["pooling_layer.select.weight"].norm()
                best = torch.argsort(score, descending=True)[: len(w)]
                read = x[best] * torch.tanh(score[best])[:, None]
            given, kept = (
                (rows @ p[f"recurrent_layer.weight_{side}_l0"].T + p[f"recurrent_layer.bias_{side}_l0"]).chunk(3, 1)
                for side, rows in (("ih", read), ("hh", w))
            )
            reset, update = (torch.sigmoid(given[i] + kept[i]) for i in (0, 1))
            w = (1 - update) * torch.tanh(given[2] + reset * kept[2]) + update * w
            return torch.relu(torch.sparse.mm(self._normal[t], x) @ w) @ p["out.weight"][0] + p["out.bias"]

        return output


def _sparse(loops: Tensor, weights: Tensor, nodes: int) -> Tensor:
    return torch.sparse_coo_tensor(loops.flip(0), weights, (nodes, nodes)).coalesce()
