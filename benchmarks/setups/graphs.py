"""Graphs of the operators' subjects, their changes, and DGL where it is installed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np
import torch
from core.turns import Call
from torch import Tensor

from chronoscale.cuda_ext.operators.graph import CSR, Delta
from chronoscale.datasets.snapshots.sequence import Snapshot

try:
    import dgl
except ImportError:
    dgl = None

GRAPHS = {  # nodes, edges, whether both ends are drawn from a power law
    "sparse": (25_000, 5_000, False),
    "dense": (25_000, 500_000, False),
    "skewed": (100_000, 1_000_000, True),
    "tiny": (50, 300, False),
}


@cache
def edges(name: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Return sources, targets and the number of nodes; 'sparse' has self-loops besides."""
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
    """Return the unweighted adjacency, sources ascending in each row."""
    order = np.lexsort((source, target))
    indptr = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(target, minlength=nodes), out=indptr[1:])
    return CSR(torch.from_numpy(indptr), torch.from_numpy(source[order].astype(np.int32)), None, nodes)


def delta(source: np.ndarray, target: np.ndarray, nodes: int, share: float) -> Delta:
    """Return a change of `share` of the edges: half of them go, as many appear elsewhere."""
    rng = np.random.default_rng(8)
    half = int(len(source) * share / 2)
    gone = rng.choice(len(source), half, replace=False)
    ends = np.concatenate([source[gone], rng.integers(0, nodes, half)]), np.concatenate([target[gone], rng.integers(0, nodes, half)])
    signs = np.repeat(np.float32([-1, 1]), half)
    order = np.argsort(ends[1], kind="stable")
    rows, counts = np.unique(ends[1], return_counts=True)
    indptr = torch.from_numpy(np.concatenate([[0], np.cumsum(counts)]))
    indices, values = torch.from_numpy(ends[0][order].astype(np.int32)), torch.from_numpy(signs[order])
    return Delta(torch.from_numpy(rows.astype(np.int32)), indptr, indices, values, nodes, nodes)


def snapshots(name: str, share: float) -> tuple[Snapshot, Snapshot]:
    """Return a graph, and the same with `share` of its edges changed as `delta` has them."""
    source, target, nodes = edges(name)
    rng = np.random.default_rng(8)
    before = Snapshot.from_edges(nodes, source, target)
    half = int(before.num_edges * share / 2)
    staying = np.delete(np.arange(before.num_edges), rng.choice(before.num_edges, half, replace=False))
    ends = (np.concatenate([end[staying], rng.integers(0, nodes, half)]) for end in (before.src, before.dst))
    return before, Snapshot.from_edges(nodes, *ends)


@cache
def keep_memory() -> None:
    """Let malloc keep freed blocks, for every contestant alike: otherwise some outputs are mapped anew at every call, by their size and
    history, and a figure is one of page faults."""
    trim, mmap = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
    for option in (trim, mmap):
        ctypes.CDLL(None).mallopt(option, 1 << 30)


def assert_equal(what: str, result: Tensor, expected: Tensor, allowed: float = 1e-4) -> None:
    """Assert that two results differ by at most `allowed` of the largest expected value."""
    error = float((result - expected).detach().abs().max() / expected.detach().abs().max())
    assert error <= allowed, f"{what}: results differ by {error:.1e} of the largest"


def passes(forms: Mapping[str, Callable[[], Tensor]], leaves: Sequence[Tensor], allowed: float = 1e-4) -> dict[str, dict[str, Call]]:
    """Assert that all forms compute the first one's result; return their calls by pass, `forward` and `both` (with the gradients)."""
    expected = next(iter(forms.values()))().detach()
    into = torch.randn_like(expected)
    for who, form in forms.items():
        assert_equal(who, form(), expected, allowed)
    return {
        "forward": {who: torch.no_grad()(form) for who, form in forms.items()},
        "both": {who: lambda form=form: torch.autograd.grad(form(), leaves, into) for who, form in forms.items()},  # type: ignore[misc]
    }
