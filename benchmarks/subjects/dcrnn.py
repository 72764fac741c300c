"""DCRNNs train in less time than the obvious dense PyTorch, and than PyTorch Geometric Temporal's cells, on the same data, loss, optimiser
and threads.

pgt-dcrnn: one recurrent layer over the window and a linear readout; rival: the package's BatchedDCRNN with one. dcrnn: encoder-decoder;
rival: one of the package's DCRNN cells, which take a window at a time. dense: the same model with dense matrices in PyTorch alone. A pass
is an epoch of los_loop's training windows, or its first batches, of 64. The package needs torch_geometric beside it; its file of DCRNN is
loaded alone. Without it there is no such rival, nor where only `dense` is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import ModuleType

import numpy as np
import torch
from core.case import Case, Passes, Setting, Subject, seconds
from core.turns import in_turns, seconds_of
from rivals import pygt
from rivals.dense_dcrnn import DenseForecaster
from setups.data import mapped, stored
from torch import Tensor, nn

from chronoscale.batching.signals.standardisation import fit_scaler, standardise
from chronoscale.batching.signals.windows import WindowAssignment, Windows
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError
from chronoscale.real_exec.signals.forecast.masked_errors import masked_sum
from chronoscale.real_exec.signals.forecast.model import forecaster
from chronoscale.strategies.signals.forecasters import forecaster_shape
from chronoscale.strategies.workload import ModelChoice

WINDOW = HORIZON = 12
HOPS = 2


def upstream() -> ModuleType | None:
    """Return the package's module of DCRNN, None where it is not installed."""
    try:
        return pygt.module("dcrnn")
    except UserError:
        return None


class Batched(nn.Module):
    """The package's batched recurrent layer and a readout of every step."""

    def __init__(self, package: ModuleType, signal: Signal, hidden: int) -> None:
        super().__init__()
        self.edges, self.weight = _edges(signal)
        self.layer, self.readout = package.BatchedDCRNN(1, hidden, HOPS + 1), nn.Linear(hidden, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.readout(self.layer(x, self.edges, self.weight))[..., 0]  # type: ignore[no-any-return]


class Looped(nn.Module):
    """An encoder-decoder of the package's cells, window by window."""

    def __init__(self, package: ModuleType, signal: Signal, hidden: int) -> None:
        super().__init__()
        self.edges, self.weight = _edges(signal)
        self.encoder, self.decoder = package.DCRNN(1, hidden, HOPS + 1), package.DCRNN(1, hidden, HOPS + 1)
        self.readout = nn.Linear(hidden, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.one(window) for window in x])

    def one(self, window: Tensor) -> Tensor:
        """Return the forecast of one window."""
        state, given, outputs = None, torch.zeros_like(window[0]), []
        for step in window:
            state = self.encoder(step, self.edges, self.weight, state)
        for _ in range(HORIZON):
            state = self.decoder(given, self.edges, self.weight, state)
            given = self.readout(state)
            outputs.append(given[:, 0])
        return torch.stack(outputs)


def _edges(signal: Signal) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(signal.edge_index).long(), torch.from_numpy(signal.edge_weight)


def measure(name: str, model: str, hidden: int, batch: int, batches: int, packaged: bool, setting: Setting) -> Passes:
    """Train all by turns, after a batch of each to warm up."""
    signal, package = mapped(stored(name, setting.scratch)), upstream() if packaged else None
    windows = Windows(len(signal), WINDOW, HORIZON)
    series = torch.from_numpy(standardise(signal, fit_scaler(signal, windows)).astype(np.float32))
    shape = forecaster_shape(ModelChoice(model, hidden, hops=HOPS), signal.num_nodes, 1, WINDOW, HORIZON)
    models: dict[str, nn.Module] = {
        "ours": forecaster(shape, signal.edge_index, signal.edge_weight, signal.num_nodes, WINDOW, HORIZON, seed=0),
        "dense": DenseForecaster(signal, hidden, HOPS, HORIZON, model == "dcrnn"),
    }
    if package is not None:
        models["upstream"] = (Batched if model == "pgt-dcrnn" else Looped)(package, signal, hidden)
    optimisers = {who: torch.optim.Adam(one.parameters(), 1e-3) for who, one in models.items()}
    steps = torch.arange(WINDOW + HORIZON)

    def epoch(who: str, limit: int) -> None:
        for starts in WindowAssignment(windows.train, batch=batch, limit=limit).starts(0, 0):
            part = series[torch.from_numpy(starts)[:, None] + steps]
            predicted = models[who](part[:, :WINDOW])
            assert predicted.shape == part[:, WINDOW:, :, 0].shape, f"{who} forecasts {tuple(predicted.shape)}"
            total, count = masked_sum(predicted, part[:, WINDOW:, :, 0])
            optimisers[who].zero_grad()
            (total / count).backward()
            optimisers[who].step()

    for who in models:
        epoch(who, 1)
    return seconds(in_turns({who: partial(seconds_of, partial(epoch, who, batches)) for who in models}, setting.repeats))


def cases(quick: bool) -> Iterator[Case]:
    """Yield models by width and batches of an epoch, as docs/signal_benchmarks.md has them."""
    name, batch = ("traffic-6-80", 8) if quick else ("los_loop", 64)
    sizes = (("pgt-dcrnn", 2, 1),) if quick else (("pgt-dcrnn", 2, 0), ("pgt-dcrnn", 64, 1), ("dcrnn", 2, 1), ("dcrnn", 64, 1))
    for rivals in ("all", "dense"):
        for model, hidden, batches in sizes if rivals == "all" else (() if quick else (("dcrnn", 16, 1), ("dcrnn", 64, 1))):
            parameters = {"rivals": rivals, "signal": name, "model": model, "hidden": hidden, "batches": batches or "all"}
            yield Case(parameters, partial(measure, name, model, hidden, batch, batches, rivals == "all"))


SUBJECT = Subject(cases, 5, ("torch_geometric", "torch_geometric_temporal"))
