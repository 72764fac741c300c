"""Attention to sampled slots: the kernel beside its reference (products by bmm) and beside obvious PyTorch, in one run.

    python benchmarks/bench_slots.py [--repeats 15] [--targets 600 6000] [--threads 1]

prints medians of interleaved repeats, spread, and ratios; with one thread its processor time, so that a busy machine counts less. Obvious
PyTorch gathers rows, puts features and encodings beside them, and has einsum, softmax and autograd do the rest; its angles are float32.
`layer` is TemporalAttention, forward and backward, with the kernel and with the reference: its linear layers are the same. Under pytest
(--benchmark-enable) each case is timed alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import cache, partial
from unittest import mock

import pytest
import torch
from bench_aggregate import keep_memory, measure
from torch import Tensor

from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.cuda_ext.native.loader import versions
from chronoscale.cuda_ext.operators import slots
from chronoscale.cuda_ext.operators.slots import Encoding, Slots, attend
from chronoscale.real_exec.streams.models.attention import TemporalAttention
from chronoscale.real_exec.streams.models.clock import Clock
from chronoscale.real_exec.streams.tree import Hop

FANOUT, WIDTH, TIME, HEADS, LONGEST = 10, 100, 100, 2, 1e5
TARGETS, EDGES = (600, 6000), (0, 172)
PASSES = ("forward", "both", "layer")


def obvious(wanted: Tensor, source: Tensor, given: Slots, encoding: Encoding) -> Tensor:
    """As one would write it down."""
    slot, there, elapsed, edge = given
    assert elapsed is not None
    parts = [source[slot], *([] if edge is None else [edge]), torch.cos(elapsed[..., None] * encoding[0] + encoding[1])]
    rows = torch.cat(parts, 2)
    scores = torch.einsum("thx,tkx->thk", wanted, rows).masked_fill(~there[:, None], -torch.inf)
    return torch.einsum("thk,tkx->thx", scores.softmax(2).nan_to_num(0.0), rows)


@cache
def contestants(targets: int, edges: int) -> dict[str, Callable[[], object]]:
    """Calls by name and pass."""
    keep_memory()
    torch.manual_seed(targets)
    sources = 5 * targets // 2
    there = torch.rand(targets, FANOUT) > 0.1
    hop = Hop(torch.randint(0, sources, (targets, FANOUT)), there, LONGEST * torch.rand(targets, FANOUT))
    hop = hop._replace(edge=torch.randn(targets, FANOUT, edges)) if edges else hop
    source, target = torch.randn(sources, WIDTH).requires_grad_(), torch.randn(targets, WIDTH).requires_grad_()
    wanted = (0.1 * torch.randn(targets, HEADS, WIDTH + edges + TIME)).requires_grad_()
    gradient, clock = torch.randn_like(wanted), Clock(TIME)
    layer = TemporalAttention(WIDTH, edges, TIME, WIDTH, HEADS, 0.0)
    encoding = clock.frequency, clock.phase
    forms: dict[str, Callable[[], Tensor]] = {
        "kernel": lambda: attend(wanted, source, Slots(*hop), encoding, backend="cpu"),
        "bmm": lambda: attend(wanted, source, Slots(*hop), encoding, backend="reference"),
        "obvious": lambda: obvious(wanted, source, Slots(*hop), encoding),
    }
    expected, calls = forms["bmm"](), {}
    for who, form in forms.items():
        assert float((form() - expected).detach().abs().max()) < 1e-2, (
            f"{who} and the reference disagree"
        )  # float32 angles are that far off

        def forward(form: Callable[[], Tensor] = form) -> Tensor:
            with torch.no_grad():
                return form()

        def both(form: Callable[[], Tensor] = form) -> object:
            return torch.autograd.grad(form(), (wanted, source, *encoding), gradient)

        def whole(using: Callable[..., Tensor]) -> object:
            with mock.patch("chronoscale.real_exec.streams.models.attention.attend", using):
                return torch.autograd.grad(layer(target, source, hop, clock).sum(), (target, source, *layer.parameters()))

        calls[f"{who}, forward"], calls[f"{who}, both"] = forward, both
        used = {"kernel": partial(slots.attend, backend="cpu"), "bmm": partial(slots.attend, backend="reference")}
        calls[f"{who}, layer"] = partial(whole, used.get(who, lambda *given: obvious(*given[:4])))
    return calls


@pytest.mark.parametrize("what", PASSES)
@pytest.mark.parametrize("contestant", ["kernel", "bmm", "obvious"])
@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("targets", TARGETS[:1])
def test_slots(benchmark: Callable[..., object], targets: int, edges: int, contestant: str, what: str) -> None:
    benchmark(contestants(targets, edges)[f"{contestant}, {what}"])


def main() -> None:
    parser = argparse.ArgumentParser(description="attention to sampled slots on CPU")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--targets", type=int, nargs="*", default=list(TARGETS))
    parser.add_argument("--edges", type=int, nargs="*", default=list(EDGES))
    parser.add_argument("--threads", type=int, nargs="*", default=[1])
    options = parser.parse_args()
    sizes = f"K {FANOUT}, D {WIDTH}, C {TIME}, h {HEADS}"
    print(f"native {versions()['cpu']}, torch {torch.__version__}; {options.repeats} repeats; {sizes}\n")
    print("| targets | De | threads | pass | kernel, ms | bmm, ms | obvious, ms | bmm / kernel | obvious / kernel |")
    print("|" + "---|" * 9)
    for targets in options.targets:
        for edges in options.edges:
            for count in options.threads:
                torch.set_num_threads(count)
                set_threads(count)
                times = measure(contestants(targets, edges), options.repeats, time.thread_time if count == 1 else time.perf_counter)
                for what in PASSES:
                    cells, middles = [], []
                    for who in ("kernel", "bmm", "obvious"):
                        low, middle, high = statistics.quantiles(times[f"{who}, {what}"], n=4)
                        cells.append(f"{middle * 1e3:.2f} (±{(high - low) / 2 / middle:.0%})")
                        middles.append(middle)
                    cells += [f"{other / middles[0]:.1f}" for other in middles[1:]]
                    print("|", " | ".join(str(cell) for cell in (targets, edges, count, what, *cells)), "|", flush=True)


if __name__ == "__main__":
    main()
