"""The CPU kernels beside DGL, torch.sparse and other reductions on the same graphs, in one run.

    python benchmarks/bench_aggregate.py [--repeats 15] [--graph NAME] [--threads 1 2]

prints a table: median of interleaved repeats, spread, and the ratio to ours. torch: the fastest of torch.sparse, index_add_ and
segment_reduce. Under pytest (--benchmark-enable) each case is timed alone.
"""

from __future__ import annotations

import argparse
import ctypes
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from rivals import reductions

from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.cuda_ext.native.loader import versions
from chronoscale.cuda_ext.operators.aggregation import aggregate, increment_
from chronoscale.cuda_ext.operators.graph import CSR, Delta, row_ids

try:
    import dgl
except ImportError:
    dgl = None

GRAPHS = {"sparse": (25_000, 5_000, False), "dense": (25_000, 500_000, False), "skewed": (100_000, 1_000_000, True)}
WIDTHS = (16, 64, 128)
CHANGED = 0.05
OTHERS = ("torch.sparse", *reductions.SUMS)
TORCH = ("torch.sparse", "index_add_", "segment_reduce")


@cache
def edges(name: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Sources and targets. 'sparse' has self loops besides; 'skewed' draws both ends from a power law."""
    nodes, count, skewed = GRAPHS[name]
    rng = np.random.default_rng(7)
    if skewed:
        ids = rng.permutation(nodes)
        source, target = (ids[(rng.pareto(0.8, count) * 20).astype(np.int64) % nodes] for _ in range(2))
    else:
        source, target = rng.integers(0, nodes, (2, count))
    if name == "sparse":
        source, target = (np.concatenate([end, np.arange(nodes)]) for end in (source, target))
    return source, target, nodes


def csr(source: np.ndarray, target: np.ndarray, nodes: int) -> CSR:
    order = np.lexsort((source, target))
    indptr = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(target, minlength=nodes), out=indptr[1:])
    return CSR(torch.from_numpy(indptr), torch.from_numpy(source[order].astype(np.int32)), None, nodes)


def delta(source: np.ndarray, target: np.ndarray, nodes: int) -> Delta:
    """5 % of the edges change: half of them go, as many appear elsewhere."""
    rng = np.random.default_rng(8)
    half = int(len(source) * CHANGED / 2)
    gone = rng.choice(len(source), half, replace=False)
    ends = np.concatenate([source[gone], rng.integers(0, nodes, half)]), np.concatenate([target[gone], rng.integers(0, nodes, half)])
    signs = np.repeat(np.float32([-1, 1]), half)
    order = np.argsort(ends[1], kind="stable")
    rows, counts = np.unique(ends[1], return_counts=True)
    indptr = torch.from_numpy(np.concatenate([[0], np.cumsum(counts)]))
    indices, values = torch.from_numpy(ends[0][order].astype(np.int32)), torch.from_numpy(signs[order])
    return Delta(torch.from_numpy(rows.astype(np.int32)), indptr, indices, values, nodes, nodes)


@cache
def keep_memory() -> None:
    """Let malloc keep freed blocks: otherwise some outputs, by their size and history, are mapped anew at every call, and a figure
    is one of page faults. For every contestant alike."""
    trim, mmap = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
    for option in (trim, mmap):
        ctypes.CDLL(None).mallopt(option, 1 << 30)


@cache
def contestants(name: str, width: int) -> dict[str, Callable[[], object]]:
    keep_memory()
    source, target, nodes = edges(name)
    graph, change = csr(source, target, nodes), delta(source, target, nodes)
    x = torch.randn(nodes, width)
    half = x.bfloat16()  # storage alone: its sums are float32, as x's
    sums = aggregate(graph, x)
    calls: dict[str, Callable[[], object]] = {
        "aggregate": lambda: aggregate(graph, x),
        "increment_": lambda: increment_(sums, change, x),
        "bfloat16": lambda: aggregate(graph, half),
        "bfloat16, increment_": lambda: increment_(sums, change, half),
    }
    if dgl is not None:
        other = dgl.graph((torch.from_numpy(source), torch.from_numpy(target)), num_nodes=nodes).int()
        other.create_formats_()
        error = (dgl.ops.copy_u_sum(other, x) - sums).abs()
        assert bool((error <= 1e-4 * aggregate(graph, x.abs()) + 1e-6).all()), "DGL and chronoscale disagree"
        calls["dgl"] = lambda: dgl.ops.copy_u_sum(other, x)
    # int32 ids: the kernel behind torch.sparse (MKL) is faster with them, and takes both arrays in one type
    matrix = torch.sparse_csr_tensor(graph.indptr.int(), graph.indices, torch.ones(graph.nnz), (nodes, nodes))
    calls["torch.sparse"] = lambda: torch.sparse.mm(matrix, x)
    rows, columns = row_ids(graph.indptr, graph.nnz), graph.indices.long()
    for who, call in reductions.sums(graph.indptr, rows, columns).items():
        calls[who] = lambda call=call: call(x)
    return calls


@cache
def rounding(name: str, width: int) -> float:
    """Of sums of features stored in bfloat16, relative to those in float32: Frobenius norms."""
    graph, x = csr(*edges(name)), torch.randn(GRAPHS[name][0], width)
    whole = aggregate(graph, x)
    return float((aggregate(graph, x.bfloat16()) - whole).norm() / whole.norm())


@pytest.fixture(params=(1, 2))
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    set_threads(request.param)
    yield request.param
    torch.set_num_threads(before)
    set_threads(before)


@pytest.mark.parametrize("contestant", ["aggregate", "increment_", "bfloat16", "bfloat16, increment_", "dgl", *OTHERS])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", GRAPHS)
def test_aggregate(benchmark: Callable[..., object], name: str, width: int, threads: int, contestant: str) -> None:
    calls = contestants(name, width)
    if contestant not in calls:
        pytest.skip(f"{contestant} is not installed")
    benchmark(calls[contestant])


def measure(calls: dict[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter) -> dict[str, list[float]]:
    """Seconds a call, `repeats` each. Interleaved, so that a slow spell of the machine falls on all of them."""
    loops = {}
    for who, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        loops[who] = max(1, int(0.01 / (time.perf_counter() - start)))
    times: dict[str, list[float]] = {who: [] for who in calls}
    for _ in range(repeats):
        for who, call in calls.items():
            time.sleep(0.01)  # OpenMP's threads spin for milliseconds after the contestant before
            call()
            start = clock()
            for _ in range(loops[who]):
                call()
            times[who].append((clock() - start) / loops[who])
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description="aggregate and increment_ on CPU, beside DGL and torch.sparse")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--graph", choices=GRAPHS, nargs="*", default=list(GRAPHS))
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    options = parser.parse_args()
    info = Path("/proc/cpuinfo")
    cpu = (
        next((line.split(": ")[1] for line in info.read_text().splitlines() if "model name" in line), "")
        if info.exists()
        else platform.machine()
    )
    others = f"{reductions.versions()}, dgl {dgl.__version__ if dgl else 'absent'}"
    print(f"{cpu}, native {versions()['cpu']}, {others}; median of {options.repeats} (half of the interquartile range)\n")
    columns = [
        "aggregate, ms",
        "DGL, ms",
        "torch, ms",
        "DGL / ours",
        "torch / ours",
        "PyG / ours",
        "pyg-lib / ours",
        "increment_, ms",
        "aggregate / increment_",
    ]
    columns += ["bfloat16, ms", "aggregate / bfloat16", "increment_ / bfloat16", "error of bfloat16"]
    print("| graph | F | threads |", " | ".join(columns), "|")
    print("|" + "---|" * (3 + len(columns)))
    for name in options.graph:
        for width in WIDTHS:
            for count in options.threads:
                torch.set_num_threads(count)
                set_threads(count)
                times = measure(contestants(name, width), options.repeats)
                middle = {who: statistics.median(seconds) * 1e3 for who, seconds in times.items()}
                cells = {}
                for who, seconds in times.items():
                    low, _, high = statistics.quantiles(seconds, n=4)
                    cells[who] = f"{middle[who]:.3f} (±{(high - low) * 500 / middle[who] * 100:.0f} %)"
                best = min(TORCH, key=lambda who: middle[who])
                ratios = [f"{middle[who] / middle['aggregate']:.2f}" if who in middle else "–" for who in ("dgl", best, "PyG", "pyg-lib")]
                row = [name, width, count, cells["aggregate"], cells.get("dgl", "–"), f"{cells[best]} {best}", *ratios]
                row += [cells["increment_"], f"{middle['aggregate'] / middle['increment_']:.1f}", cells["bfloat16"]]
                row += [
                    f"{middle[who] / middle[half]:.2f}" for who, half in (("aggregate", "bfloat16"), ("increment_", "bfloat16, increment_"))
                ]
                print("|", *_join([*row, f"{rounding(name, width):.1e}"]), flush=True)


def _join(cells: list[object]) -> Iterator[str]:
    return (f"{cell} |" for cell in cells)


if __name__ == "__main__":
    main()
