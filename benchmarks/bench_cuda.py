"""The increment beside the whole over change shares from 0.1 to 50 %, on the GPU where there is one, else on CPU.

    python benchmarks/bench_cuda.py [--repeats 15] [--graph NAME] [--width 64]

Rivals: torch.sparse.mm (cuSPARSE or MKL) on the whole graph, index_add_ of the change's messages, and on the GPU a Triton twin of
the increment. On CPU: one thread, its processor time, so that a busy machine counts less.
`of copy` is the bytes that the increment must move over the bandwidth of a copy on the same device. What is left out is printed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from bench_aggregate import GRAPHS, csr, edges, keep_memory

from chronoscale.cuda_ext.backend import backends, set_threads
from chronoscale.cuda_ext.graph import Delta
from chronoscale.cuda_ext.loader import versions
from chronoscale.cuda_ext.ops import aggregate, increment_

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

SHARES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5)


def twin() -> Any:
    """increment_ in Triton: one program a touched row, all its columns at once."""

    @triton.jit  # type: ignore[untyped-decorator]
    def kernel(rows, indptr, indices, values, x, sums, touched, width, columns: tl.constexpr):  # type: ignore[no-untyped-def]
        r = tl.program_id(0)
        column = tl.arange(0, columns)
        inside = column < width
        acc = tl.zeros((columns,), tl.float32)
        for e in range(tl.load(indptr + r), tl.load(indptr + r + 1)):
            source = tl.load(indices + e).to(tl.int64)
            acc += tl.load(values + e) * tl.load(x + source * width + column, mask=inside, other=0.0)
        at = sums + tl.load(rows + r).to(tl.int64) * width + column
        acc += tl.load(at, mask=inside, other=0.0)
        tl.store(at, acc, mask=inside)
        tl.store(touched + r * width + column, acc, mask=inside)

    return kernel


def delta(source: np.ndarray, target: np.ndarray, nodes: int, share: float) -> Delta:
    """`share` of the edges change: half of them go, as many appear elsewhere."""
    rng = np.random.default_rng(8)
    half = max(1, int(len(source) * share / 2))
    gone = rng.choice(len(source), half, replace=False)
    ends = np.concatenate([source[gone], rng.integers(0, nodes, half)]), np.concatenate([target[gone], rng.integers(0, nodes, half)])
    order = np.argsort(ends[1], kind="stable")
    rows, counts = np.unique(ends[1], return_counts=True)
    indptr = torch.from_numpy(np.concatenate([[0], np.cumsum(counts)]))
    indices, values = torch.from_numpy(ends[0][order].astype(np.int32)), torch.from_numpy(np.repeat(np.float32([-1, 1]), half)[order])
    return Delta(torch.from_numpy(rows.astype(np.int32)), indptr, indices, values, nodes, nodes)


def measure(calls: dict[str, Callable[[], object]], repeats: int, device: str) -> dict[str, list[float]]:
    """Seconds a call, interleaved; on the GPU by events."""
    times: dict[str, list[float]] = {who: [] for who in calls}
    for turn in range(repeats + 2):
        for who, call in calls.items():
            if device == "cuda":
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                call()
                end.record()
                end.synchronize()
                seconds = start.elapsed_time(end) / 1e3
            else:
                before = time.thread_time()
                call()
                seconds = time.thread_time() - before
            if turn >= 2:
                times[who].append(seconds)
    return times


def contestants(name: str, width: int, share: float, device: str) -> tuple[dict[str, Callable[[], object]], int]:
    """Calls, and the bytes that an increment must move."""
    source, target, nodes = edges(name)
    graph, change = csr(source, target, nodes).to(device), delta(source, target, nodes, share).to(device)
    x = torch.randn(nodes, width, device=device)
    sums, rows = aggregate(graph, x), change.rows.long()
    matrix = torch.sparse_csr_tensor(graph.indptr.int(), graph.indices, torch.ones(graph.nnz, device=device), (nodes, nodes))
    entry_rows = torch.repeat_interleave(rows, change.indptr.diff())
    assert change.values is not None
    weights, copied = change.values[:, None], torch.empty(1 << 26, dtype=torch.uint8, device=device)
    into = torch.empty_like(copied)
    calls: dict[str, Callable[[], object]] = {
        "increment_": lambda: increment_(sums, change, x),
        "aggregate": lambda: aggregate(graph, x),
        "torch.sparse": lambda: torch.sparse.mm(matrix, x),
        "index_add_": lambda: sums.index_add_(0, entry_rows, x[change.indices.long()] * weights)[rows],
        "copy": lambda: into.copy_(copied),
    }
    if device == "cuda" and triton is not None:
        kernel, touched = twin(), torch.empty(len(rows), width, device=device)
        operands = (change.rows, change.indptr, change.indices, change.values, x, sums, touched, width)
        calls["triton"] = lambda: kernel[(len(rows),)](*operands, columns=triton.next_power_of_2(width))
    return calls, change.nbytes + 4 * width * (change.nnz + 3 * len(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description="increment_ over change shares, beside torch.sparse, index_add_ and Triton")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--graph", choices=GRAPHS, nargs="*", default=["dense", "skewed"])
    parser.add_argument("--width", type=int, default=64)
    options = parser.parse_args()
    device = "cuda" if "cuda" in backends() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"{name}, native {versions()[device]}, torch {torch.__version__}, F = {options.width}")
    if device == "cpu":
        keep_memory()
        torch.set_num_threads(1)
        set_threads(1)
        print("skipped: everything CUDA (no device, or no library for it); Triton, which needs a GPU")
    elif triton is None:
        print("skipped: Triton, which is not installed")
    rivals = ("aggregate", "torch.sparse", "index_add_", "triton")
    print("\n| graph | changed | increment_, ms |", " | ".join(f"{who} / ours" for who in rivals), "| of copy |\n|" + "---|" * 8)
    for graph in options.graph:
        for share in SHARES:
            calls, moved = contestants(graph, options.width, share, device)
            times = measure(calls, options.repeats, device)
            low, middle, high = statistics.quantiles(times["increment_"], n=4)
            ratios = " | ".join(f"{statistics.median(times[who]) / middle:.1f}" if who in times else "skipped" for who in rivals)
            bandwidth = 2 * (1 << 26) / statistics.median(times["copy"])
            spread = f"{middle * 1e3:.3f} (±{(high - low) / 2 / middle:.0%})"
            print(f"| {graph} | {share:.1%} | {spread} | {ratios} | {moved / middle / bandwidth:.0%} |", flush=True)


if __name__ == "__main__":
    main()
