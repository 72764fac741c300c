"""Graphs of the operators' subjects, made on the device that they are used on, their changes, and what subjects on operators share."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import cycle
from typing import NamedTuple

import torch
from core.turns import Call, memory_permitting
from torch import Tensor

from chronoscale.cuda_ext.operators.graph import CSR, Delta, EdgeMap

SKEW = 0.8  # of the Pareto law that both ends are drawn from; the largest row then has some 4 % of all edges


class Size(NamedTuple):
    """Nodes, edges, and whether both ends are drawn from a power law."""

    nodes: int
    edges: int
    skewed: bool = False


GRAPHS = {
    "sparse": Size(25_000, 30_000),
    "dense": Size(25_000, 500_000),
    "skewed": Size(100_000, 1_000_000, True),
    "tiny": Size(50, 300),
    "uniform-64M": Size(4_000_000, 64_000_000),  # beyond the cache of any GPU: 64 float32 features of it alone are 1 GB
    "skewed-64M": Size(4_000_000, 64_000_000, True),
}


def graphs_on(device: str, quick: bool, on_cpu: Sequence[str] = ("dense", "skewed")) -> tuple[str, ...]:
    """Return the names of the graphs that a subject measures on a device."""
    if quick:
        return ("tiny",)
    return ("uniform-64M", "skewed-64M") if device == "cuda" else tuple(on_cpu)


def drawn(name: str, device: str = "cpu", seed: int = 7) -> CSR:
    """Return a random unweighted graph; pairs of nodes may repeat."""
    size, draw = GRAPHS[name], torch.Generator(device).manual_seed(seed)
    source, target = (_ends(size, draw) for _ in range(2))
    if size.skewed:  # nodes with many edges have no order
        source, target = (torch.randperm(size.nodes, generator=draw, device=device)[ends] for ends in (source, target))
    keys = target.mul_(size.nodes).add_(source).sort().values
    starts = torch.arange(size.nodes + 1, device=device) * size.nodes
    return CSR(torch.searchsorted(keys, starts), keys.remainder(size.nodes).int(), None, size.nodes)


def _ends(size: Size, draw: torch.Generator) -> Tensor:
    if not size.skewed:
        return torch.randint(0, size.nodes, (size.edges,), generator=draw, device=draw.device)
    uniform = torch.rand(size.edges, generator=draw, device=draw.device, dtype=torch.float64).clamp_(min=1e-12)
    return uniform.pow_(-1 / SKEW).sub_(1).mul_(20).long().remainder_(size.nodes)


def normal(device: str, *shape: int, seed: int = 11) -> Tensor:
    """Return Gaussian numbers."""
    return torch.randn(*shape, generator=torch.Generator(device).manual_seed(seed), device=device)


def keys_of(graph: CSR) -> Tensor:
    """Return target * num_cols + source of every edge, int64."""
    return torch.repeat_interleave(torch.arange(graph.num_rows, device=graph.device), graph.indptr.diff()) * graph.num_cols + graph.indices


def change(graph: CSR, share: float, seed: int = 0) -> Delta:
    """Return a change of `share` of the edges: half of them go, as many come in rows that have many."""
    draw = torch.Generator(graph.device).manual_seed(seed)
    half, nodes = max(1, int(graph.nnz * share / 2)), graph.num_rows
    picked = torch.randint(0, graph.nnz, (2 * half,), generator=draw, device=graph.device)
    target = torch.searchsorted(graph.indptr, picked, right=True).sub_(1)
    source = graph.indices[picked]
    source[half:] = torch.randint(0, nodes, (half,), generator=draw, device=graph.device, dtype=torch.int32)
    values = torch.ones(2 * half, device=graph.device)
    values[:half] = -1
    target, order = target.sort(stable=True)
    rows, counts = torch.unique_consecutive(target, return_counts=True)
    indptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return Delta(rows.int(), indptr, source[order], values[order], nodes, nodes)


def increment_bytes(delta: Delta, width: int) -> int:
    """Return what an increment moves: the change, its sources' rows, and the touched rows, read once and written twice."""
    return delta.nbytes + 4 * width * (delta.nnz + 3 * len(delta.rows))


def changes(graph: CSR, share: float, width: int) -> Iterator[Delta]:
    """Return changes of `share` of the edges, one after another without end; together they exceed a GPU's cache four times."""
    first = change(graph, share).check()
    count = 1
    if graph.device.type == "cuda":
        cache_bytes = torch.cuda.get_device_properties(graph.device).L2_cache_size
        count = min(32, -(-4 * cache_bytes // increment_bytes(first, width)))
    return cycle([first, *(change(graph, share, seed).check() for seed in range(1, count))])


def adjacency(keys: Tensor, nodes: int) -> CSR:
    """Return A + I as `rebuild` takes it, of any keys: the self-loop first in a row, then ascending sources; unweighted."""
    keys = torch.unique(keys)
    target, source = keys // nodes, keys % nodes
    own = torch.arange(nodes, device=keys.device) * (nodes + 1)
    placed = torch.cat([own, (target * (nodes + 1) + source + 1)[target != source]]).sort().values
    row, column = placed // (nodes + 1), placed % (nodes + 1) - 1
    indptr = torch.searchsorted(placed, torch.arange(nodes + 1, device=keys.device) * (nodes + 1))
    return CSR(indptr, torch.where(column < 0, row, column).int(), None, nodes)


def flipped(before: CSR, share: float, seed: int = 1) -> tuple[EdgeMap, CSR]:
    """Return a change of `share` of an adjacency's edges, half gone and half new, and the adjacency after it."""
    nodes, draw = before.num_rows, torch.Generator(before.device).manual_seed(seed)
    keys = keys_of(before).sort().values
    keys = keys[keys // nodes != keys % nodes]
    going = torch.rand(len(keys), generator=draw, device=keys.device) < share / 2
    new = torch.unique(torch.randint(0, nodes * nodes, (max(1, int(len(keys) * share / 2)),), generator=draw, device=keys.device))
    new = new[(new // nodes != new % nodes) & ~torch.isin(new, keys, assume_unique=True)]
    gone = keys[going]
    changed, order = torch.cat([gone, new]).sort()
    sign = torch.ones(len(changed), dtype=torch.int8, device=keys.device).masked_fill_(order < len(gone), -1)
    rows, counts = torch.unique_consecutive(changed // nodes, return_counts=True)
    indptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return EdgeMap(rows.int(), indptr, (changed % nodes).int(), sign, nodes), adjacency(torch.cat([keys[~going], new]), nodes)


def copy_of(moved: int, device: str) -> Call:
    """Return a copy within the device's memory that moves as many bytes: its time over a kernel's is the share of bandwidth used."""
    source = torch.zeros(min(max(moved // 2, 1), 4 << 30), dtype=torch.uint8, device=device)
    into = torch.empty_like(source)
    return lambda: into.copy_(source)


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


def agreeing(forms: Mapping[str, Callable[[], Tensor]], allowed: float = 1e-4) -> dict[str, Callable[[], Tensor]]:
    """Assert that all forms compute the first one's result, and return those that the device's memory holds."""
    agreeing_forms = {}
    expected = next(iter(forms.values()))().detach()
    for who, form in forms.items():
        if (result := memory_permitting(who, form)) is not None:
            assert_equal(who, result, expected, allowed)
            agreeing_forms[who] = form
    return agreeing_forms


def passes(forms: Mapping[str, Callable[[], Tensor]], leaves: Sequence[Tensor], allowed: float = 1e-4) -> dict[str, dict[str, Call]]:
    """Return the calls of `agreeing` forms by pass, `forward` and `both` (with the gradients)."""
    agreeing_forms = agreeing(forms, allowed)
    into = torch.randn_like(next(iter(agreeing_forms.values()))().detach())
    return {
        "forward": {who: torch.no_grad()(form) for who, form in agreeing_forms.items()},
        "both": {who: lambda form=form: torch.autograd.grad(form(), leaves, into) for who, form in agreeing_forms.items()},  # type: ignore[misc]
    }
