"""A power-law graph that changes by one per cent at a time, with everything that increments find hard."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.datasets.snapshots import edge_keys
from chronoscale.datasets.snapshots.csr import Variant
from chronoscale.datasets.snapshots.sequence import Snapshot

NODES, EDGES, STEPS = 1000, 10_000, 1000


def changing(nodes: int = NODES, edges: int = EDGES, steps: int = STEPS, seed: int = 0) -> Iterator[Snapshot]:
    """steps + 1 snapshots: hubs, empty rows, and among the changes some that undo the one before and some that are empty."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(nodes)

    def draw(count: int) -> np.ndarray:
        src, dst = (ids[(rng.pareto(1.0, count) * 20).astype(np.int64) % nodes] for _ in range(2))
        return np.unique(edge_keys.pack(src[src != dst], dst[src != dst]))

    keys = draw(4 * edges)
    keys = np.sort(rng.choice(keys, min(edges, len(keys)), replace=False))
    before, last = keys, Snapshot.from_keys(nodes, keys)
    yield last
    half = max(1, len(keys) // 200)
    for step in range(steps):
        if step % 50 == 20:
            yield last
            continue
        if step % 50 == 10:
            keys, before = before, keys
        else:
            remaining = np.delete(keys, rng.choice(len(keys), half, replace=False))
            before, keys = keys, edge_keys.merge(remaining, rng.permutation(np.setdiff1d(draw(4 * half), keys))[:half])
        last = Snapshot.from_keys(nodes, keys)
        yield last


def operand(snapshot: Snapshot, variant: Variant = "exact", device: str = "cpu") -> tuple[CSR, Tensor]:
    """The adjacency and its row scale."""
    csr = snapshot.csr(variant)
    indptr, indices, values, scale = (torch.from_numpy(a) for a in (csr.indptr, csr.indices, csr.values, csr.scale))
    return CSR(indptr, indices, values, snapshot.num_nodes).to(device), scale.to(device)


def distance(actual: Tensor, expected: Tensor) -> float:
    """Frobenius norm of the difference over that of `expected`."""
    actual, expected = actual.detach().double().cpu(), expected.detach().double().cpu()
    return float((actual - expected).norm() / expected.norm())
