"""Training of our DCRNNs beside PyTorch Geometric Temporal's cells, in one run: data, batches, loss, optimiser and threads are the same.

    python benchmarks/bench_dcrnn.py [--cases pgt-dcrnn dcrnn] [--hidden 2 64] [--batches 0] [--repeats 5] [--threads 1]

pgt-dcrnn: one recurrent layer over the window and a linear readout, against the package's BatchedDCRNN with one. dcrnn: encoder-decoder,
against one of the package's DCRNN cells, which take a window at a time. An epoch of los_loop's training windows, or its first `--batches`;
repeats are interleaved, a ratio is taken repeat by repeat, a spread is half the range between the quartiles. The package needs
torch_geometric beside it; its file of DCRNN is loaded alone.
"""

from __future__ import annotations

import argparse
import importlib.util
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from torch import Tensor, nn

from chronoscale.batching.signals.standard import scaler, standardised
from chronoscale.batching.signals.windows import Deal, Windows
from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.cuda_ext.native.loader import versions
from chronoscale.datasets.catalogue import load
from chronoscale.datasets.signals.signal import Signal
from chronoscale.real_exec.signals.forecast.masked_errors import masked_sum
from chronoscale.real_exec.signals.forecast.model import forecaster
from chronoscale.strategies.signals.forecasters import forecaster_shape
from chronoscale.strategies.workload import ModelChoice

WINDOW = HORIZON = 12
BATCH, HOPS = 64, 2


def upstream() -> ModuleType:
    package = importlib.util.find_spec("torch_geometric_temporal")
    if package is None or not package.submodule_search_locations:
        sys.exit("bench_dcrnn: torch_geometric_temporal is not installed (with torch_geometric), there is nothing to compare with")
    file = Path(package.submodule_search_locations[0]) / "nn" / "recurrent" / "dcrnn.py"
    spec = importlib.util.spec_from_file_location("upstream_dcrnn", file)
    assert spec is not None and spec.loader is not None
    module = sys.modules["upstream_dcrnn"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Batched(nn.Module):
    """The package's batched recurrent layer and a readout of every step."""

    def __init__(self, package: ModuleType, signal: Signal, hidden: int) -> None:
        super().__init__()
        self.edges, self.weight = _edges(signal)
        self.layer, self.readout = package.BatchedDCRNN(1, hidden, HOPS + 1), nn.Linear(hidden, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.readout(self.layer(x, self.edges, self.weight))[..., 0]


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
        state, given, found = None, torch.zeros_like(window[0]), []
        for step in window:
            state = self.encoder(step, self.edges, self.weight, state)
        for _ in range(HORIZON):
            state = self.decoder(given, self.edges, self.weight, state)
            given = self.readout(state)
            found.append(given[:, 0])
        return torch.stack(found)


def _edges(signal: Signal) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(signal.edge_index).long(), torch.from_numpy(signal.edge_weight)


def ours(name: str, signal: Signal, hidden: int) -> nn.Module:
    shape = forecaster_shape(ModelChoice(name, hidden, hops=HOPS), signal.num_nodes, 1, WINDOW, HORIZON)
    return forecaster(shape, signal.edge_index, signal.edge_weight, signal.num_nodes, WINDOW, HORIZON, seed=0)


def trainer(model: nn.Module, series: Tensor, windows: Windows, batches: int) -> Callable[[], None]:
    """One epoch, or its first batches."""
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    steps = torch.arange(WINDOW + HORIZON)

    def epoch() -> None:
        for starts in Deal(windows.train, batch=BATCH, limit=batches).starts(0, 0):
            part = series[torch.from_numpy(starts)[:, None] + steps]
            total, count = masked_sum(model(part[:, :WINDOW]), part[:, WINDOW:, :, 0])
            optimiser.zero_grad()
            (total / count).backward()
            optimiser.step()

    return epoch


def measure(calls: list[Callable[[], None]], repeats: int) -> Iterator[list[float]]:
    """Seconds of each contestant, repeat by repeat, in turn."""
    for _ in range(repeats):
        seconds = []
        for call in calls:
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
        yield seconds


def spread(values: list[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.2f}"
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{statistics.median(values):.2f} (±{(high - low) / 2:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=("pgt-dcrnn", "dcrnn"), default=["pgt-dcrnn", "dcrnn"])
    parser.add_argument("--hidden", type=int, nargs="+", default=[2, 64])
    parser.add_argument("--batches", type=int, default=0, help="of 64 windows; 0: the whole epoch")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    set_threads(options.threads)
    package, signal = upstream(), load("los_loop")
    assert isinstance(signal, Signal)
    windows = Windows(len(signal), WINDOW, HORIZON)
    series = torch.from_numpy(standardised(signal, scaler(signal, windows)).astype(np.float32))
    count = Deal(windows.train, batch=BATCH, limit=options.batches).iterations
    print(f"| model | hidden | batches of {BATCH} | ours, s | upstream, s | upstream / ours |\n|---|---:|---:|---:|---:|---:|")
    for case in options.cases:
        for hidden in options.hidden:
            other = Batched(package, signal, hidden) if case == "pgt-dcrnn" else Looped(package, signal, hidden)
            calls = [trainer(model, series, windows, options.batches) for model in (ours(case, signal, hidden), other)]
            for model in (ours(case, signal, hidden), other):
                trainer(model, series, windows, 1)()  # both are warm
            rows = list(measure(calls, options.repeats))
            mine, theirs = (list(column) for column in zip(*rows, strict=True))
            ratios = [there / here for here, there in rows]
            print(f"| {case} | {hidden} | {count} | {spread(mine)} | {spread(theirs)} | {spread(ratios)} |", flush=True)
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    device = next((line.split(": ")[1] for line in lines if "model name" in line), platform.machine())
    others = ", ".join(f"{name} {version(name)}" for name in ("torch_geometric", "torch_geometric_temporal"))
    kernels = f"{options.threads} thread(s), native kernels {versions()['cpu']}, torch {torch.__version__}"
    print(f"\n{device}, {kernels}, {others}; median of {options.repeats}")


if __name__ == "__main__":
    main()
