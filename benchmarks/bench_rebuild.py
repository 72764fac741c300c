"""An adjacency from its predecessor and the change (REAL, section 4.3), beside making it afresh with torch and DGL, in one run.

    python benchmarks/bench_rebuild.py [--repeats 15] [--threads 1]

prints medians of interleaved repeats, spread, and ratios to ours; with one thread its processor time,
so that a busy machine counts less. `by sorting` is the reference kernel;
the others start from the later edges, already on the device, unweighted.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from bench_aggregate import dgl, edges, keep_memory, measure

from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.cuda_ext.native.loader import versions
from chronoscale.cuda_ext.operators.aggregation import rebuild
from chronoscale.cuda_ext.operators.graph import CSR, EdgeMap
from chronoscale.datasets.snapshots.difference import edge_map
from chronoscale.datasets.snapshots.sequence import Snapshot

CHANGES = (0.001, 0.01, 0.05, 0.2)


def snapshots(name: str, share: float) -> tuple[Snapshot, Snapshot]:
    """A graph, and the same with `share` of its edges changed: half of them go, as many appear elsewhere."""
    source, target, nodes = edges(name)
    rng = np.random.default_rng(8)
    before = Snapshot.from_edges(nodes, source, target)
    half = int(before.num_edges * share / 2)
    kept = np.delete(np.arange(before.num_edges), rng.choice(before.num_edges, half, replace=False))
    ends = (np.concatenate([end[kept], rng.integers(0, nodes, half)]) for end in (before.src, before.dst))
    return before, Snapshot.from_edges(nodes, *ends)


def contestants(name: str, share: float) -> dict[str, Callable[[], object]]:
    keep_memory()
    before, after = snapshots(name, share)
    csr, made = before.csr(), edge_map(before, after)
    graph = CSR(*(torch.from_numpy(a) for a in (csr.indptr, csr.indices, csr.values)), before.num_nodes)
    change = EdgeMap(*(torch.from_numpy(a) for a in (made.rows, made.indptr, made.indices, made.sign)), before.num_nodes)
    loops = np.arange(before.num_nodes, dtype=np.int32)
    src, dst = (torch.from_numpy(np.concatenate([end, loops])) for end in (after.src, after.dst))
    ids, ones = torch.stack([dst, src]).long(), torch.ones(len(src))
    calls: dict[str, Callable[[], object]] = {
        "rebuild": lambda: rebuild(graph, change),
        "by sorting": lambda: rebuild(graph, change, backend="reference"),
        "torch.sparse": lambda: torch.sparse_coo_tensor(ids, ones, (before.num_nodes,) * 2, check_invariants=False).to_sparse_csr(),
    }
    if dgl is not None:
        calls["dgl"] = lambda: dgl.graph((src, dst), num_nodes=before.num_nodes).formats("csc").create_formats_()
    return calls


def main() -> None:
    parser = argparse.ArgumentParser(description="rebuild on CPU, beside making the graph afresh")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, nargs="*", default=[1])
    options = parser.parse_args()
    print(f"native {versions()['cpu']}, torch {torch.__version__}, dgl {dgl.__version__ if dgl else 'absent'}; {options.repeats} repeats\n")
    print(
        "| graph | changed | threads | rebuild, ms | by sorting / ours | torch.sparse / ours | DGL / ours |\n|---|---|---|---|---|---|---|"
    )
    for name in ("dense", "skewed"):
        for share in CHANGES:
            for count in options.threads:
                torch.set_num_threads(count)
                set_threads(count)
                times = measure(contestants(name, share), options.repeats, time.thread_time if count == 1 else time.perf_counter)
                low, middle, high = statistics.quantiles(times["rebuild"], n=4)
                ratios = [statistics.median(times[who]) / middle if who in times else None for who in ("by sorting", "torch.sparse", "dgl")]
                cells = " | ".join("–" if r is None else f"{r:.1f}" for r in ratios)
                print(f"| {name} | {share:.1%} | {count} | {middle * 1e3:.3f} (±{(high - low) / 2 / middle:.0%}) | {cells} |", flush=True)


if __name__ == "__main__":
    main()
