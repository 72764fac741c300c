"""The operators on edges at the sizes of a FAST batch, beside DGL, torch's scatter, PyTorch Geometric's and pyg-lib, in one run.

    python benchmarks/bench_edges.py [--repeats 15] [--targets 4000 60000] [--threads 1 4] [--widths 100 128 172]

prints medians of interleaved repeats, spread, and ratios; with one thread its processor time, so that a busy machine counts less. `sum`
reads a row of x where an edge begins, `sum of edges` one an edge, `mixed` the first with edges in no order. Degrees are up to 10, as a
sampler leaves them, or skewed, a power law. Obvious softmax: scatter_reduce_, exp, index_add_, divide. `cat` lays both
tables into one before it gathers. Under pytest (--benchmark-enable) each case is timed alone.
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
from rivals import reductions
from torch import Tensor

from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.cuda_ext.native.loader import versions
from chronoscale.cuda_ext.operators.edge_softmax import edge_softmax
from chronoscale.cuda_ext.operators.edges import aggregate_edges
from chronoscale.cuda_ext.operators.tables import gather_rows

try:
    import dgl
except ImportError:
    dgl = None

FANOUT, HEADS = 10, 2
TARGETS, WIDTHS, DEGREES = (4_000, 60_000), (100, 128, 172), ("sampled", "skewed")
WHATS = ("sum", "sum of edges", "mixed", "softmax", "gather")
WHO = ("ours", "dgl", *reductions.SUMS, "scatter_reduce_", "obvious", "two gathers", "cat")
PASSES = ("forward", "both")
Form = tuple[Callable[[Tensor], Tensor], Tensor]  # of a leaf


def degrees(targets: int, skewed: bool) -> Tensor:
    """int64 [targets]: 0 to FANOUT alike, or a power law of about as many edges, the largest some 4 % of them."""
    draw = torch.Generator().manual_seed(targets)
    if not skewed:
        return torch.randint(0, FANOUT + 1, (targets,), generator=draw)
    tail = torch.rand(targets, generator=draw).clamp_(min=1e-6).pow_(-1 / 1.1)
    counts = (tail * (FANOUT / 2 * targets / tail.sum())).long()
    counts[0] += FANOUT * targets // 50
    return counts


def obvious(scores: Tensor, row: Tensor, rows: int) -> Tensor:
    """As one would write it down."""
    lowest = scores.new_full((rows, scores.shape[1]), -torch.inf)
    largest = lowest.scatter_reduce(0, row[:, None].expand_as(scores), scores.detach(), "amax")
    powers = (scores - largest[row]).exp()
    return powers / scores.new_zeros(rows, scores.shape[1]).index_add(0, row, powers)[row]


def forms(targets: int, width: int, degree: str) -> dict[str, dict[str, Form]]:
    """What computes each, by name, and what it computes it from."""
    counts = degrees(targets, degree == "skewed")
    nodes, edges = 3 * targets, int(counts.sum())
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    target, source = torch.repeat_interleave(torch.arange(targets), counts), torch.randint(0, nodes, (edges,))
    order = torch.randperm(edges)
    mixed, begins = target[order].contiguous(), source[order].contiguous()
    x, each, scores = (torch.randn(rows, w).requires_grad_() for rows, w in ((nodes, width), (edges, width), (edges, HEADS)))
    kept = torch.randn(nodes // 2, width)

    def scattered(x: Tensor, row: Tensor) -> Tensor:
        return x.new_zeros(targets, width).scatter_reduce(0, row[:, None].expand(-1, width), x, "sum")

    def twice(x: Tensor) -> Tensor:
        out, here = x.new_empty(edges, width), source < len(kept)
        return out.index_put((here.nonzero()[:, 0],), kept[source[here]]).index_put(
            ((~here).nonzero()[:, 0],), x[source[~here] - len(kept)]
        )

    made: dict[str, dict[str, Form]] = {
        "sum": {
            "ours": (lambda x: aggregate_edges(x, target, targets, source), x),
            "scatter_reduce_": (lambda x: scattered(x[source], target), x),
        },
        "sum of edges": {
            "ours": (lambda each: aggregate_edges(each, target, targets), each),
            "scatter_reduce_": (lambda each: scattered(each, target), each),
        },
        "mixed": {
            "ours": (lambda x: aggregate_edges(x, mixed, targets, begins), x),
            "index_add_": (lambda x: x.new_zeros(targets, width).index_add(0, mixed, x[begins]), x),
            "scatter_reduce_": (lambda x: scattered(x[begins], mixed), x),
        },
        "softmax": {
            "ours": (lambda scores: edge_softmax(scores, indptr), scores),
            "obvious": (lambda scores: obvious(scores, target, targets), scores),
        },
        "gather": {
            "ours": (lambda sent: gather_rows(kept, sent, source), x.detach()[len(kept) :].clone().requires_grad_()),
            "two gathers": (twice, x.detach()[len(kept) :].clone().requires_grad_()),
            "cat": (lambda sent: torch.cat((kept, sent)).index_select(0, source), x.detach()[len(kept) :].clone().requires_grad_()),
        },
    }
    for what, leaf, found in (
        ("sum", x, reductions.sums(indptr, target, source)),
        ("sum of edges", each, reductions.sums(indptr, target, None)),
        ("softmax", scores, reductions.softmax(indptr, target)),
    ):
        made[what] |= {who: (form, leaf) for who, form in found.items()}
    if dgl is not None:
        block = dgl.create_block((source.int(), target.int()), num_src_nodes=nodes, num_dst_nodes=targets).int()
        block.create_formats_()
        made["sum"]["dgl"] = (lambda x: dgl.ops.copy_u_sum(block, x), x)
        made["sum of edges"]["dgl"] = (lambda each: dgl.ops.copy_e_sum(block, each), each)
        made["softmax"]["dgl"] = (lambda scores: dgl.ops.edge_softmax(block, scores), scores)
    return made


@cache
def contestants(targets: int, width: int, degree: str) -> dict[str, Callable[[], object]]:
    """Calls by what is computed, by whom, and pass."""
    keep_memory()
    torch.manual_seed(width)
    calls: dict[str, Callable[[], object]] = {}
    for what, those in forms(targets, width, degree).items():
        expected = those["ours"][0](those["ours"][1].detach())
        gradient = torch.randn_like(expected)
        for who, (form, leaf) in those.items():
            found = form(leaf.detach())
            assert float((found - expected).abs().max() / expected.abs().max()) < 1e-4, f"{what}: {who} and ours disagree"

            def forward(form: Callable[[Tensor], Tensor] = form, leaf: Tensor = leaf) -> Tensor:
                with torch.no_grad():
                    return form(leaf)

            def both(form: Callable[[Tensor], Tensor] = form, leaf: Tensor = leaf, into: Tensor = gradient) -> object:
                return torch.autograd.grad(form(leaf), leaf, into)

            calls[f"{what}, {who}, forward"], calls[f"{what}, {who}, both"] = forward, both
    return calls


@pytest.mark.parametrize("contestant", WHO)
@pytest.mark.parametrize("what", WHATS)
@pytest.mark.parametrize("degree", DEGREES)
def test_edges(benchmark: Callable[..., object], degree: str, what: str, contestant: str) -> None:
    calls = contestants(TARGETS[0], WIDTHS[0], degree)
    if f"{what}, {contestant}, both" not in calls:
        pytest.skip(f"{contestant} does not compute it, or is not installed")
    benchmark(calls[f"{what}, {contestant}, both"])


def row(times: dict[str, list[float]], what: str, done: str) -> list[str]:
    """Ours in ms and its spread, then what the others take of it."""
    low, middle, high = statistics.quantiles(times[f"{what}, ours, {done}"], n=4)
    others = (times.get(f"{what}, {who}, {done}") for who in WHO[1:])
    ratios = ("–" if other is None else f"{statistics.median(other) / middle:.2f}" for other in others)
    return [what, done, f"{middle * 1e3:.3f} (±{(high - low) / 2 / middle:.0%})", *ratios]


def main() -> None:
    parser = argparse.ArgumentParser(description="sums over edges, edge softmax and gathered rows on CPU")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--targets", type=int, nargs="*", default=list(TARGETS))
    parser.add_argument("--widths", type=int, nargs="*", default=list(WIDTHS))
    parser.add_argument("--degrees", choices=DEGREES, nargs="*", default=list(DEGREES))
    parser.add_argument("--threads", type=int, nargs="*", default=[1])
    options = parser.parse_args()
    others = f"{reductions.versions()}, dgl {dgl.__version__ if dgl else 'absent'}"
    print(f"native {versions()['cpu']}, {others}; {options.repeats} repeats; H {HEADS}\n")
    print("| targets | degrees | F | threads | what | pass | ours, ms |", " | ".join(f"{who} / ours" for who in WHO[1:]), "|")
    print("|" + "---|" * (6 + len(WHO)))
    for targets in options.targets:
        for degree in options.degrees:
            for width in options.widths:
                for count in options.threads:
                    torch.set_num_threads(count)
                    set_threads(count)
                    calls = contestants(targets, width, degree)
                    times = measure(calls, options.repeats, time.thread_time if count == 1 else time.perf_counter)
                    for what in WHATS:
                        for done in PASSES:
                            print("|", " | ".join(map(str, (targets, degree, width, count, *row(times, what, done)))), "|", flush=True)
                contestants.cache_clear()


if __name__ == "__main__":
    main()
