"""Rivals of the operators on edges: the same sums and softmax by torch, PyTorch Geometric and pyg-lib, where they are installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import Tensor

Sum = Callable[[Tensor], Tensor]


def _found(name: str) -> Any:
    try:
        return import_module(name)
    except (ImportError, OSError):  # its libraries may be for another torch
        return None


PYG, PYG_LIB = _found("torch_geometric.utils"), _found("pyg_lib.ops")
FANOUT, SKEW = 10, 1.1  # edges of a target at most; the power law of skewed degrees


def versions() -> str:
    """Return versions of the packages, 'absent' for what is not there."""
    packages = {"torch": True, "torch_geometric": PYG is not None, "pyg_lib": PYG_LIB is not None}
    return ", ".join(f"{name} {_version(name) if there else 'absent'}" for name, there in packages.items())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return str(getattr(import_module(name), "__version__", "of unknown version"))


def sums(indptr: Tensor, target: Tensor, source: Tensor | None) -> dict[str, Sum]:
    """out[v] = sum over the edges e of v of x[source[e]], or x[e] without sources. Edges of row v are indptr[v] to indptr[v + 1], target is
    the row of each; int64 all."""
    rows = len(indptr) - 1

    def read(x: Tensor) -> Tensor:
        return x if source is None else x.index_select(0, source)

    sums_by_name: dict[str, Sum] = {
        "index_add_": lambda x: x.new_zeros(rows, x.shape[1]).index_add(0, target, read(x)),
        "segment_reduce": lambda x: torch.segment_reduce(read(x), "sum", offsets=indptr, axis=0, initial=0.0),
    }
    if PYG is not None:
        sums_by_name["PyG"] = lambda x: PYG.scatter(read(x), target, 0, rows, "sum")
    if PYG_LIB is not None:
        sums_by_name["pyg-lib"] = lambda x: PYG_LIB.segment_sum_csr(read(x), indptr)
    return sums_by_name


def softmax(indptr: Tensor, target: Tensor) -> dict[str, Sum]:
    """Softmax over each row's edges, by head: scores [E, H] to shares."""
    rows = len(indptr) - 1
    made: dict[str, Sum] = {}
    if PYG is not None:
        made["PyG"] = lambda scores: PYG.softmax(scores, target, num_nodes=rows)
    if PYG_LIB is not None:
        made["pyg-lib"] = lambda scores: PYG_LIB.softmax_csr(scores, indptr)
    return made


def obvious_softmax(scores: Tensor, target: Tensor, rows: int) -> Tensor:
    """Return the softmax over each row's edges as one would write it down; target: the row of each edge, int64."""
    lowest = scores.new_full((rows, scores.shape[1]), -torch.inf)
    largest = lowest.scatter_reduce(0, target[:, None].expand_as(scores), scores.detach(), "amax")
    powers = (scores - largest[target]).exp()
    return powers / scores.new_zeros(rows, scores.shape[1]).index_add(0, target, powers)[target]


def degrees(targets: int, skewed: bool, draw: torch.Generator) -> Tensor:
    """Return int64 [targets]: 0 to FANOUT alike, as a sampler leaves them, or a power law of about as many edges, the largest some 4 %."""
    if not skewed:
        return torch.randint(0, FANOUT + 1, (targets,), generator=draw)
    tail = torch.rand(targets, generator=draw).clamp_(min=1e-6).pow_(-1 / SKEW)
    counts = (tail * (FANOUT / 2 * targets / tail.sum())).long()
    counts[0] += FANOUT * targets // 50
    return counts
