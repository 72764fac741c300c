"""Attention of one head, in full beside DGL's message passing and as an increment beside the full form, in one run.

    python benchmarks/bench_attention.py [--repeats 9] [--graph NAME] [--threads 1]

prints medians of interleaved repeats, spread, and ratios; with one thread its processor time, so that a busy machine counts less.
DGL runs what its GATConv runs between its linear layers: u_add_v, leaky ReLU, edge_softmax,
u_mul_e_sum. Graphs have self-loops; both sides hold their transposes. Under pytest (--benchmark-enable) each case is timed alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import cache

import pytest
import torch
from bench_aggregate import dgl, keep_memory, measure
from bench_rebuild import snapshots
from torch import Tensor

from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.cuda_ext.native.loader import versions
from chronoscale.cuda_ext.operators.attention import attention, attention_increment
from chronoscale.cuda_ext.operators.graph import CSR, EdgeMap
from chronoscale.datasets.snapshots.difference import edge_map
from chronoscale.datasets.snapshots.sequence import Snapshot

GRAPHS = ("dense", "skewed")
WIDTHS = (16, 64)
CHANGES = (0.01, 0.05, 0.2)


def csr(snapshot: Snapshot) -> CSR:
    made = snapshot.csr()
    return CSR(torch.from_numpy(made.indptr), torch.from_numpy(made.indices), None, snapshot.num_nodes)


def dgl_attention(graph: object, z: Tensor, left: Tensor, right: Tensor) -> Tensor:
    with graph.local_scope():  # type: ignore[attr-defined]
        scores = torch.nn.functional.leaky_relu(dgl.ops.u_add_v(graph, left[:, None], right[:, None]), 0.2)
        return dgl.ops.u_mul_e_sum(graph, z, dgl.nn.functional.edge_softmax(graph, scores))


@cache
def contestants(name: str, width: int) -> dict[str, Callable[[], object]]:
    """Forward calls by name, and under 'NAME, backward' forward and backward together."""
    keep_memory()
    before, _ = snapshots(name, CHANGES[0])
    graph = csr(before)
    z, left, right = torch.randn(before.num_nodes, width), torch.randn(before.num_nodes), torch.randn(before.num_nodes)
    leaves = [t.clone().requires_grad_() for t in (z, left, right)]
    gradient = torch.randn(before.num_nodes, width)
    state, calls = attention(graph, z, left, right), {}

    def both(who: str, call: Callable[..., Tensor]) -> None:
        def forward() -> Tensor:
            with torch.no_grad():
                return call(z, left, right)

        def backward() -> object:
            out = call(*leaves)
            return torch.autograd.grad(out, leaves, gradient[: len(out)])

        calls[who], calls[f"{who}, backward"] = forward, backward

    both("full", lambda *values: attention(graph, *values).output())
    for share in CHANGES:
        after = snapshots(name, share)[1]
        made, following = edge_map(before, after), csr(after)
        change = EdgeMap(*(torch.from_numpy(a) for a in (made.rows, made.indptr, made.indices, made.sign)), before.num_nodes)
        both(f"{share:.0%}", lambda *v, f=following, c=change: attention_increment(state, f, c, *v)[1])  # type: ignore[misc]
    if dgl is not None:
        dst = torch.repeat_interleave(torch.arange(graph.num_rows), graph.indptr.diff())
        other = dgl.graph((graph.indices, dst.int()), num_nodes=graph.num_rows)
        other.create_formats_()
        error = (dgl_attention(other, z, left, right) - state.output()).abs().max()
        assert float(error) < 1e-4, "DGL and chronoscale disagree"
        both("dgl", lambda *values: dgl_attention(other, *values))
    return calls


@pytest.mark.parametrize("backward", ["", ", backward"])
@pytest.mark.parametrize("contestant", ["full", "dgl", *(f"{share:.0%}" for share in CHANGES)])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", GRAPHS)
def test_attention(benchmark: Callable[..., object], name: str, width: int, contestant: str, backward: str) -> None:
    calls = contestants(name, width)
    if contestant + backward not in calls:
        pytest.skip(f"{contestant} is not installed")
    benchmark(calls[contestant + backward])


def main() -> None:
    parser = argparse.ArgumentParser(description="attention on CPU, beside DGL, and its increment")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--graph", choices=GRAPHS, nargs="*", default=list(GRAPHS))
    parser.add_argument("--threads", type=int, nargs="*", default=[1])
    options = parser.parse_args()
    print(f"native {versions()['cpu']}, torch {torch.__version__}, dgl {dgl.__version__ if dgl else 'absent'}; {options.repeats} repeats\n")
    print("| graph | F | threads | pass | full, ms | DGL / full |", " | ".join(f"full / {share:.0%} changed" for share in CHANGES), "|")
    print("|" + "---|" * (6 + len(CHANGES)))
    for name in options.graph:
        for width in WIDTHS:
            for count in options.threads:
                torch.set_num_threads(count)
                set_threads(count)
                times = measure(contestants(name, width), options.repeats, time.thread_time if count == 1 else time.perf_counter)
                for kind, suffix in (("forward", ""), ("both", ", backward")):
                    low, middle, high = statistics.quantiles(times["full" + suffix], n=4)
                    spread = f"{middle * 1e3:.2f} (±{(high - low) / 2 / middle:.0%})"
                    rival = times.get("dgl" + suffix)
                    cells = [name, width, count, kind, spread, f"{statistics.median(rival) / middle:.2f}" if rival else "–"]
                    cells += [f"{middle / statistics.median(times[f'{share:.0%}{suffix}']):.1f}" for share in CHANGES]
                    print("|", " | ".join(str(cell) for cell in cells), "|", flush=True)


if __name__ == "__main__":
    main()
