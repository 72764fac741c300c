"""Cases for every kernel of the native interface, on graphs that kernels find hard: hubs, empty rows, odd widths, misaligned memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.aggregation import VARIANTS, aggregate, increment_, rebuild
from chronoscale.cuda_ext.operators.attention import attention, attention_increment
from chronoscale.cuda_ext.operators.cell_steps import gru_step, gru_step_grad, lstm_step, lstm_step_grad
from chronoscale.cuda_ext.operators.edge_softmax import edge_softmax
from chronoscale.cuda_ext.operators.edges import aggregate_edges
from chronoscale.cuda_ext.operators.encoding import encode
from chronoscale.cuda_ext.operators.gates import gates
from chronoscale.cuda_ext.operators.graph import CSR, Delta, EdgeMap
from chronoscale.cuda_ext.operators.slots import Slots, attend
from chronoscale.cuda_ext.operators.tables import gather_rows
from chronoscale.datasets.snapshots.difference import edge_map
from chronoscale.datasets.snapshots.sequence import Snapshot

LENGTHS = (0, 1, 31, 32, 33, 511, 0, 512, 513, 3000, 2, 700, 700, 5)  # of rows
WIDTHS = (1, 3, 16, 33, 130)
NODES = 3200
DTYPES = (torch.float32, torch.float64)
STORED = (*DTYPES, torch.bfloat16)
Outcome = tuple[str, list[Tensor]]


def outcomes(backend: str) -> dict[str, list[Tensor]]:
    """Return what that backend computes in each case, by the case's name."""
    every = (one_row, _sums, _attention, _rebuild, _edges, _shares, _tables, _slots, _gates, _cells, _encodings)
    return {name: tensors for cases in every for name, tensors in cases(backend)}


def _random(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _dense(rows: int, width: int, dtype: torch.dtype, offset: int = 0) -> Tensor:
    """Return normal numbers [rows, width] that begin `offset` numbers into their memory."""
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
            unseen = CSR(indptr, indices, values, columns).mark_checked()  # whose long rows nobody has listed
            yield f"aggregate unseen, {of}", [aggregate(unseen, x, backend)]
            sums = _dense(2 * rows + 1, width, torch.promote_types(dtype, torch.float32))
            yield f"increment, {of}", [increment_(sums, change, x, backend), sums]


def one_row(backend: str) -> Iterator[Outcome]:
    """Sum a row of two pieces, whose blocks begin together and come to its end together, again and again."""
    indices = torch.randint(40, (1024,), generator=_random(2), dtype=torch.int32)
    graph, x = CSR(torch.tensor([0, 1024]), indices, None, 40), _dense(40, 128, torch.float32)
    yield "aggregate one row", [aggregate(graph, x + i, backend) for i in range(60)]  # what the one before left in memory is not its own


def _changing() -> tuple[Snapshot, Snapshot, EdgeMap]:
    """Return two snapshots with rows of those lengths; the second has lost a third of each and gained half as many."""
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


def _edges(backend: str) -> Iterator[Outcome]:
    rows = len(LENGTHS)
    target = torch.repeat_interleave(torch.arange(rows), torch.tensor(LENGTHS))
    mixed = target[torch.randperm(len(target), generator=_random(3))]
    source = torch.randint(40, target.shape, generator=_random(4))
    for dtype in DTYPES:
        for width in WIDTHS:
            x, each, of = _dense(40, width, dtype), _dense(len(target), width, dtype), f"{dtype}, width {width}"
            yield f"edges ascending, {of}", [aggregate_edges(x, target, rows, source, backend=backend, ascending=True)]
            yield f"edges mixed, {of}", [aggregate_edges(each, mixed.int(), rows, backend=backend)]
            misaligned = _dense(40, width, dtype, offset=1)
            yield f"edges misaligned, {of}", [aggregate_edges(misaligned, target.int(), rows, source.int(), backend=backend)]
            counts = x.round()  # whole numbers: their sums are exact in any order
            for ids in (torch.int32, torch.int64):
                given = mixed.to(ids), rows, source.to(ids)
                yield f"edges by atomics, {ids}, {of}", [aggregate_edges(counts, *given, deterministic=False, backend=backend)]


def _shares(backend: str) -> Iterator[Outcome]:
    indptr = torch.tensor([0, *np.cumsum(LENGTHS)])
    for dtype in DTYPES:
        for heads in (1, 2, 3):
            scores = _dense(int(indptr[-1]), heads, dtype)
            scores[700:900, 0], scores[40:44, 0] = -torch.inf, -torch.inf  # a whole piece's but for its ends, and a share of a warp's
            scores.requires_grad_()
            shares = edge_softmax(scores, indptr, backend)
            into = torch.autograd.grad(shares.sin().sum(), scores)
            yield f"shares, {dtype}, {heads} heads", [shares.detach(), *into]
            few = torch.arange(60).remainder(11).cumsum(0)
            near = scores.detach()[: int(few[-1])].clone().requires_grad_()
            made = edge_softmax(near, torch.cat([few.new_zeros(1), few]), backend)
            yield f"shares by shared memory, {dtype}, {heads} heads", [made.detach(), *torch.autograd.grad(made.sin().sum(), near)]
            short = edge_softmax(scores.detach(), indptr, backend, longest=31)  # which is not so: later, and as right
            yield f"shares by warps, {dtype}, {heads} heads", [short]


def _tables(backend: str) -> Iterator[Outcome]:
    index = torch.randint(50, (300,), generator=_random(5))
    for dtype in DTYPES:
        for width in WIDTHS:
            cached, sent = (_dense(rows, width, dtype, offset).requires_grad_() for rows, offset in ((20, 0), (30, width % 2)))
            rows = gather_rows(cached, sent, index.int() if width % 2 else index, backend)
            into = torch.autograd.grad(rows.sin().sum(), (cached, sent))
            yield f"tables, {dtype}, width {width}", [rows.detach(), *into]


def _slots(backend: str) -> Iterator[Outcome]:
    sizes = [(1, 1, 1, 3, 0, 0), (20, 10, 2, 4, 8, 12), (9, 33, 3, 5, 2, 3), (3, 300, 2, 0, 0, 36), (4, 7, 2, 132, 0, 400)]
    for dtype in DTYPES:
        for targets, fanout, heads, width, edges, clock in sizes:
            draw = _random(fanout)
            slot, there = torch.randint(11, (targets, fanout), generator=draw), torch.rand(targets, fanout, generator=draw) < 0.8
            wanted = _dense(targets, heads * (width + edges + clock), dtype).view(targets, heads, -1) / 9
            edge = _dense(targets * fanout, edges, dtype).view(targets, fanout, edges) if edges else None
            elapsed, keep = (_dense(targets, count, dtype).abs() for count in (fanout, heads * fanout))
            leaves = [wanted, _dense(11, width, dtype, offset=fanout % 2), *([edge] if edges else [])]
            leaves += [_dense(2, clock, dtype)[i].contiguous() for i in range(2)] if clock else []
            leaves = [leaf.requires_grad_() for leaf in leaves]
            given = Slots(slot, there, elapsed, leaves[2] if edges else None)
            encoding = (leaves[-2], leaves[-1]) if clock else None
            made = attend(leaves[0], leaves[1], given, encoding, keep.view(targets, heads, fanout), backend)
            into = torch.autograd.grad(made.sin().sum(), leaves)
            yield f"slots, {dtype}, {targets} of {fanout}, {heads} heads", [made.detach(), *into]


def _gates(backend: str) -> Iterator[Outcome]:
    for dtype in DTYPES:
        for hidden in (5, 36, 140):
            leaves = [_dense(11, hidden * times, dtype, offset=hidden % 2).requires_grad_() for times in (3, 3, 1)]
            made = gates(leaves[0], leaves[1], leaves[2], torch.arange(11) % 3 > 0, backend)
            yield f"gates, {dtype}, {hidden}", [made.detach(), *torch.autograd.grad(made.sin().sum(), leaves)]


def _cells(backend: str) -> Iterator[Outcome]:
    """Step 11 rows of an LSTM and of a GRU, with indices and without, in memory that packs fit and in memory that they do not."""
    for dtype in DTYPES:
        for hidden in (5, 36, 140):
            drawn = [_dense(13, hidden * times, dtype, offset=hidden % 2) for times in (4, 3, 1)]
            read = torch.randperm(13, generator=_random(hidden)).int()[:11]
            parent = torch.randint(13, (11,), generator=_random(hidden)).int()
            made = [torch.zeros(13, hidden * times, dtype=dtype) for times in (4, 4, 1, 1, 1, 4)]
            for state, indices in ((drawn[2], (read, parent)), (None, (None, None))):
                gates, to_gates, new_h, new_c, to_old, to_products = made = [torch.zeros_like(part) for part in made]
                rows, grad = slice(11), drawn[2][2:]
                from_state = None if state is None else drawn[0][:11].flip(0)
                lstm_step(drawn[0], indices[0], from_state, state, indices[1], gates[rows], new_h[rows], new_c[rows], backend)
                late = None if state is None else grad
                given = gates[rows], state, indices[1], new_c[rows], grad, late, indices[0]
                lstm_step_grad(*given, to_products, to_gates[rows], to_old[rows] if late is not None else None, backend)
                yield f"lstm, {dtype}, {hidden}, {state is None}", made
                saved, to_state, new_h, _, to_old, to_products = made = [torch.zeros_like(part) for part in made]
                to_state, to_products = to_state[:, : 3 * hidden].contiguous(), to_products[:, : 3 * hidden].contiguous()
                from_state = drawn[1][:11] if state is not None else drawn[1][4]
                gru_step(drawn[1], indices[0], from_state, state, indices[1], saved[rows], new_h[rows], backend)
                given = saved[rows], state, indices[1], grad, indices[0]
                gru_step_grad(*given, to_products, to_state[rows], to_old[rows], backend, add=state is not None)
                yield f"gru, {dtype}, {hidden}, {state is None}", [saved, to_state, new_h, to_old, to_products]


def _encodings(backend: str) -> Iterator[Outcome]:
    for dtype in DTYPES:
        for rows, clock in ((7, 3), (513, 36), (1030, 1)):
            leaves = [_dense(2, clock, dtype)[i].contiguous().requires_grad_() for i in range(2)]
            made = encode(100 * _dense(1, rows, dtype)[0], leaves[0], leaves[1], backend)
            yield f"encodings, {dtype}, {rows} of {clock}", [made.detach(), *torch.autograd.grad(made.sin().sum(), leaves)]
