"""Every kernel of the native interface on graphs with what kernels find hard: hubs, empty rows, odd widths, misaligned memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from chronoscale.cuda_ext.attention import attention, attention_increment
from chronoscale.cuda_ext.graph import CSR, Delta, EdgeMap
from chronoscale.cuda_ext.ops import VARIANTS, aggregate, increment_, rebuild
from chronoscale.datasets.snapshots.difference import edge_map
from chronoscale.datasets.snapshots.sequence import Snapshot

LENGTHS = (0, 1, 31, 32, 33, 511, 0, 512, 513, 3000, 2, 700, 700, 5)  # of rows
WIDTHS = (1, 3, 16, 33, 130)
NODES = 3200
DTYPES = (torch.float32, torch.float64)
STORED = (*DTYPES, torch.bfloat16)
Outcome = tuple[str, list[Tensor]]


def outcomes(backend: str) -> dict[str, list[Tensor]]:
    """What that backend makes of each case, by its name."""
    return {name: tensors for cases in (one_row, _sums, _attention, _rebuild) for name, tensors in cases(backend)}


def _random(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _dense(rows: int, width: int, dtype: torch.dtype, offset: int = 0) -> Tensor:
    """Normal numbers [rows, width] that begin `offset` numbers into their memory."""
    memory = torch.randn(rows * width + offset, generator=_random(width), dtype=torch.float64).to(dtype)
    return memory[offset:].view(rows, width)


def _sums(backend: str) -> Iterator[Outcome]:
    columns, rows = 40, len(LENGTHS)
    indptr = torch.tensor([0, *np.cumsum(LENGTHS)])
    indices = torch.randint(columns, (int(indptr[-1]),), generator=_random(0), dtype=torch.int32)
    values = torch.randn(len(indices), generator=_random(1))
    plain, weighted = CSR(indptr, indices, None, columns), CSR(indptr, indices, values, columns)
    targets, fresh = torch.arange(rows, dtype=torch.int32) * 2 + 1, torch.arange(rows).remainder(3).eq(1).to(torch.uint8)
    change = Delta(targets, indptr, indices, values, 2 * rows + 1, columns, fresh).check()
    for dtype in STORED:
        for width in WIDTHS:
            x, of = _dense(columns, width, dtype), f"{dtype}, width {width}"
            yield f"aggregate, {of}", [aggregate(plain, x, backend)]
            yield f"aggregate weighted, {of}", [aggregate(weighted, x, backend)]
            yield f"aggregate misaligned, {of}", [aggregate(weighted, _dense(columns, width, dtype, offset=1), backend)]
            sums = _dense(2 * rows + 1, width, torch.promote_types(dtype, torch.float32))
            yield f"increment, {of}", [increment_(sums, change, x, backend), sums]


def one_row(backend: str) -> Iterator[Outcome]:
    """Two pieces of one row, whose blocks begin together and come to its end together, again and again."""
    indices = torch.randint(40, (1024,), generator=_random(2), dtype=torch.int32)
    graph, x = CSR(torch.tensor([0, 1024]), indices, None, 40), _dense(40, 128, torch.float32)
    yield "aggregate one row", [aggregate(graph, x + i, backend) for i in range(60)]  # what the one before left in memory is not its own


def _changing() -> tuple[Snapshot, Snapshot, EdgeMap]:
    """Two snapshots with rows of those lengths, of which the second has lost a third of each and gained half as many."""
    rng = np.random.default_rng(0)
    drawn = [rng.permutation(np.delete(np.arange(NODES), v)) for v in range(len(LENGTHS))]
    snapshots = []
    for bounds in ([(0, length) for length in LENGTHS], [(length // 3, length + length // 6) for length in LENGTHS]):
        sources = [others[begin:end] for others, (begin, end) in zip(drawn, bounds, strict=True)]
        targets = np.repeat(np.arange(len(LENGTHS)), [len(s) for s in sources])
        snapshots.append(Snapshot.from_edges(NODES, np.concatenate(sources), targets))
    made = edge_map(*snapshots)
    change = EdgeMap(*(torch.from_numpy(a) for a in (made.rows, made.indptr, made.indices, made.sign)), NODES)
    return *snapshots, change


def _graph(snapshot: Snapshot) -> CSR:
    made = snapshot.csr("exact")
    return CSR(torch.from_numpy(made.indptr), torch.from_numpy(made.indices), None, NODES)


def _attention(backend: str) -> Iterator[Outcome]:
    before, after, change = _changing()
    for dtype in DTYPES:
        for width in (1, 33):
            ends = [_dense(NODES, 1, dtype)[:, 0].contiguous(), -_dense(NODES, 1, dtype)[:, 0].contiguous()]
            given = [t.requires_grad_() for t in (_dense(NODES, width, dtype), *ends)]
            state = attention(_graph(before), *given, backend=backend)
            for variant in VARIANTS:
                late, touched = attention_increment(state, _graph(after), change, *given, variant=variant, backend=backend)
                grads = torch.autograd.grad(late.output().sin().sum() + touched.cos().sum(), given, retain_graph=True)
                yield f"attention {variant}, {dtype}, width {width}", [t.detach() for t in (state.total, late.output(), touched, *grads)]


def _rebuild(backend: str) -> Iterator[Outcome]:
    before, _, change = _changing()
    for variant in VARIANTS:
        graph, scale = rebuild(_graph(before), change, variant, backend=backend)
        assert graph.values is not None
        yield f"rebuild {variant}", [graph.indptr, graph.indices, graph.values, scale]
