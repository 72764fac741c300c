"""GRU gates and encodings of times as models of event streams have them: the kernels beside torch, in one run.

    python benchmarks/bench_gates.py [--repeats 15] [--threads 1]

prints medians of interleaved repeats, spread, and ratios; with one thread its processor time, so that a busy machine counts less. `both` is
forward and backward. Under pytest (--benchmark-enable) each case is timed alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import cache

import pytest
import torch
from bench_aggregate import keep_memory, measure
from torch import Tensor

from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.cuda_ext.native.loader import versions
from chronoscale.cuda_ext.operators.encoding import encode
from chronoscale.cuda_ext.operators.gates import gates
from chronoscale.real_exec.measurement.environment import device_name

NODES, HIDDEN = 800, 100
KERNEL, TORCH = "kernel", "torch"
Calls = dict[str, Callable[[], object]]


def paired(of: Callable[[str], Tensor], leaves: tuple[Tensor, ...]) -> dict[str, Calls]:
    """Calls by pass and contestant of what takes a backend's name."""
    expected, found = of("reference"), of("cpu")
    assert float((found - expected).detach().abs().max()) < 1e-3, "the kernel and torch disagree"
    into, names = torch.randn_like(expected), {KERNEL: "cpu", TORCH: "reference"}

    def forward(name: str) -> object:
        with torch.no_grad():
            return of(name)

    def both(name: str) -> object:
        return torch.autograd.grad(of(name), leaves, into)

    return {
        "forward": {who: lambda name=name: forward(name) for who, name in names.items()},
        "both": {who: lambda name=name: both(name) for who, name in names.items()},
    }


def leaf(*size: int) -> Tensor:
    return torch.randn(*size).requires_grad_()


@cache
def cases() -> dict[tuple[str, str], Calls]:
    """By what is computed and pass."""
    keep_memory()
    torch.manual_seed(0)
    found: dict[tuple[str, str], Calls] = {}

    def add(what: str, of: Callable[[str], Tensor], *leaves: Tensor) -> None:
        found.update({(what, name): calls for name, calls in paired(of, leaves).items()})

    given, kept, memory, there = leaf(NODES, 3 * HIDDEN), leaf(NODES, 3 * HIDDEN), torch.randn(NODES, HIDDEN), torch.rand(NODES) > 0.1
    add(f"gates, {NODES} x {HIDDEN}", lambda name: gates(given, kept, memory, there, backend=name), given, kept)
    elapsed, frequency, phase = 1e5 * torch.rand(NODES), leaf(HIDDEN), leaf(HIDDEN)
    add(f"encodings, {NODES} x {HIDDEN}", lambda name: encode(elapsed, frequency, phase, backend=name), frequency, phase)
    return found


@pytest.mark.parametrize("contestant", [KERNEL, TORCH])
@pytest.mark.parametrize("place", range(4))
def test_gates(benchmark: Callable[..., object], place: int, contestant: str) -> None:
    benchmark([*cases().values()][place][contestant])


def main() -> None:
    parser = argparse.ArgumentParser(description="gates and encodings on CPU")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, nargs="*", default=[1])
    options = parser.parse_args()
    print(f"{device_name(torch.device('cpu'))}, native {versions()['cpu']}, torch {torch.__version__}; {options.repeats} repeats\n")
    print("| what | threads | pass | kernel, ms | torch, ms | torch / kernel |")
    print("|" + "---|" * 6)
    for count in options.threads:
        torch.set_num_threads(count)
        set_threads(count)
        for (what, name), calls in cases().items():
            times = measure(calls, options.repeats, time.thread_time if count == 1 else time.perf_counter)
            middles, shown = {}, {}
            for who, spent in times.items():
                low, middles[who], high = statistics.quantiles(spent, n=4)
                shown[who] = f"{middles[who] * 1e3:.3f} (±{(high - low) / 2 / middles[who]:.0%})"
            ratio = f"{middles[TORCH] / middles[KERNEL]:.1f}"
            print("|", " | ".join([what, str(count), name, shown[KERNEL], shown[TORCH], ratio]), "|", flush=True)


if __name__ == "__main__":
    main()
