"""Attention, full and incremental: against DGL, against itself in float64, over a long run, on every backend."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from changing_graphs import changing, distance, operand
from torch import Tensor

from chronoscale.cuda_ext.operators.attention import AttentionState, attention, attention_increment, attention_increment_
from chronoscale.cuda_ext.operators.graph import CSR, EdgeMap
from chronoscale.datasets.snapshots.difference import edge_map
from chronoscale.datasets.snapshots.sequence import Snapshot
from chronoscale.errors import UserError

WIDTH = 8


def is_plain(snapshot: Snapshot) -> CSR:
    graph, _ = operand(snapshot)
    return CSR(graph.indptr, graph.indices, None, graph.num_cols)


def change(before: Snapshot, after: Snapshot) -> EdgeMap:
    made = edge_map(before, after)
    return EdgeMap(*(torch.from_numpy(a) for a in (made.rows, made.indptr, made.indices, made.sign)), made.num_nodes)


@cache
def run() -> tuple[list[CSR], list[EdgeMap]]:
    snapshots = list(changing())
    return [is_plain(s) for s in snapshots], [change(a, b) for a, b in pairwise(snapshots)]


def inputs(nodes: int, spread: float, device: str = "cpu", dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """z, left and right; scores differ by several times `spread` within a row."""
    generator = torch.Generator().manual_seed(5)
    z, ends = torch.randn(nodes, WIDTH, generator=generator), spread * torch.randn(2, nodes, generator=generator)
    return [t.to(device, dtype).contiguous() for t in (z, ends[0], ends[1])]


@pytest.mark.sample(2)
@pytest.mark.parametrize("spread", [1.0, 10.0])
def test_the_full_form_equals_dgl(backend: str, device: str, spread: float) -> None:
    dgl = pytest.importorskip("dgl")
    graph = run()[0][0]
    dst = torch.repeat_interleave(torch.arange(graph.num_rows), graph.indptr.diff())
    other = dgl.graph((graph.indices.long(), dst), num_nodes=graph.num_rows)
    ours, theirs = ([t.requires_grad_() for t in inputs(graph.num_rows, spread, where)] for where in (device, "cpu"))
    out = attention(graph.to(device), *ours, backend=backend).output()
    scores = torch.nn.functional.leaky_relu(theirs[1][graph.indices.long()] + theirs[2][dst], 0.2)
    weights = dgl.nn.functional.edge_softmax(other, scores[:, None])
    expected = dgl.ops.u_mul_e_sum(other, theirs[0], weights)
    assert distance(out, expected) < 1e-5
    for result, values in ((out, ours), (expected, theirs)):
        (result * inputs(graph.num_rows, 1.0, str(result.device))[0].cos()).sum().backward()
        assert all(v.grad is not None for v in values)
    for mine, other_ in zip(ours, theirs, strict=True):
        assert mine.grad is not None and other_.grad is not None and distance(mine.grad, other_.grad) < 1e-5


@pytest.mark.sample(2)
@pytest.mark.parametrize("spread", [1.0, 10.0])
def test_a_thousand_changes_equal_the_whole(backend: str, device: str, spread: float, steps: int) -> None:
    graphs, changes = (of[: steps + extra] for of, extra in zip(run(), (1, 0), strict=True))
    values = inputs(graphs[0].num_rows, spread, device)
    state = attention(graphs[0].to(device), *values, backend=backend)
    worst = 0.0
    for t, (graph, step) in enumerate(zip(graphs[1:], changes, strict=True), 1):
        touched = attention_increment_(state, graph.to(device), step.to(device), *values, backend=backend)
        if t % 50 == 0:
            worst = max(worst, distance(state.output(), attention(graph.to(device), *values, backend=backend).output()))
            assert torch.equal(touched, state.output()[step.rows.long()])
    assert worst < 1e-5


@pytest.mark.sample(1)
def test_gradients_of_a_thousand_changes_equal_those_of_the_whole(backend: str, device: str, steps: int) -> None:
    graphs, changes = (of[: steps + extra] for of, extra in zip(run(), (1, 0), strict=True))
    mine, whole = ([t.requires_grad_() for t in inputs(graphs[0].num_rows, 10.0, device)] for _ in range(2))
    weight = torch.randn(graphs[0].num_rows, WIDTH, generator=torch.Generator().manual_seed(7)).to(device)
    state = attention(graphs[0].to(device), *mine, backend=backend)
    first = state.output()
    for graph, step in zip(graphs[1:], changes, strict=True):
        state, _ = attention_increment(state, graph.to(device), step.to(device), *mine, backend=backend)
    ((state.output() + first) * weight).sum().backward()
    ends = [attention(graphs[t].to(device), *whole, backend=backend).output() for t in (0, steps)]
    ((ends[0] + ends[1]) * weight).sum().backward()
    for a, b in zip(mine, whole, strict=True):
        assert a.grad is not None and b.grad is not None and distance(a.grad, b.grad) < 1e-5


def star(gap: float, dtype: torch.dtype = torch.float32) -> tuple[list[CSR], list[EdgeMap], list[Tensor]]:
    """Node 0 hears of 1 to 5, and 5 lies `gap` above them; it leaves, comes back and leaves; then all leave."""
    others = np.arange(1, 5)
    sets = [np.append(others, 5), others, np.append(others, 5), others, others, np.zeros(0, int)]
    snapshots = [Snapshot.from_edges(6, src, np.zeros_like(src)) for src in sets]
    z, left, right = inputs(6, 0.3, dtype=dtype)
    left[5] += gap
    return [is_plain(s) for s in snapshots], [change(a, b) for a, b in pairwise(snapshots)], [z, left, right]


@pytest.mark.parametrize("gap", [5.0, 20.0, 80.0, 500.0])
def test_a_row_survives_the_loss_of_its_largest_score(backend: str, device: str, gap: float) -> None:
    graphs, changes, values = star(gap)
    values = [v.to(device) for v in values]
    state = attention(graphs[0].to(device), *values, backend=backend)
    for graph, step in zip(graphs[1:], changes, strict=True):
        before = state.output()
        following, touched = attention_increment(state, graph.to(device), step.to(device), *values, backend=backend)
        assert torch.equal(state.output(), before), "the old state has changed"
        expected = attention(graph.to(device), *(v.double() for v in values), backend="reference").output()
        assert distance(following.output(), expected) < 1e-6
        assert torch.equal(touched, following.output()[step.rows.long()])
        state = following


def test_a_row_survives_the_loss_of_almost_all_that_it_hears(backend: str, device: str) -> None:
    """Its largest score stays, and nothing is left of a sum of thousands but that: without computing it afresh, of 1e-7 relative to the
    whole sum 1e-4 relative to the rest would be wrong."""
    nodes = 4001
    z, left, right = inputs(nodes, 1e-3)
    left[1] = left.max() + 1e-3
    sets = [np.arange(1, 1 + count) for count in (4000, 1000, 200, 40, 8, 2)]
    snapshots = [Snapshot.from_edges(nodes, src, np.zeros_like(src)) for src in sets]
    graphs, values = [is_plain(s) for s in snapshots], [v.to(device) for v in (z, left, right)]
    values[1][0] = values[1][1] - 100  # the row's own loop counts for nothing
    state = attention(graphs[0].to(device), *values, backend=backend)
    for graph, step in zip(graphs[1:], [change(a, b) for a, b in pairwise(snapshots)], strict=True):
        attention_increment_(state, graph.to(device), step.to(device), *values, backend=backend)
    expected = attention(graphs[-1].to(device), *(v.double() for v in values), backend="reference").output()
    assert distance(state.output()[:1], expected[:1]) < 1e-6


@pytest.mark.parametrize("gap", [20.0, 500.0])
def test_the_published_form_does_not(gap: float) -> None:
    graphs, changes, values = star(gap)
    state = attention(graphs[0], *values)
    for graph, step in zip(graphs[1:], changes[:1], strict=False):
        state, _ = attention_increment(state, graph, step, *values, variant="as-published")
    error = distance(state.output(), attention(graphs[1], *values).output())
    print(f"as published, relative error after the loss of a score {gap:.0f} above the others: {error:.2e}")
    assert not error < 1e-2  # nan counts


def test_the_published_form_is_right_while_nothing_cancels() -> None:
    graphs, changes = run()
    values = inputs(graphs[0].num_rows, 0.1)
    state = attention(graphs[0], *values)
    for graph, step in zip(graphs[1:6], changes[:5], strict=True):
        state, _ = attention_increment(state, graph, step, *values, variant="as-published")
    assert distance(state.output(), attention(graphs[5], *values).output()) < 1e-5


@pytest.mark.sample(2)
def test_gradients(backend: str, device: str) -> None:
    graphs, changes, values = star(4.0, torch.float64)
    values = [v.to(device).requires_grad_() for v in values]

    def outputs(z: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, ...]:
        state = attention(graphs[0].to(device), z, left, right, backend=backend)
        made = [state.output()]
        for graph, step in zip(graphs[1:], changes, strict=True):
            state, touched = attention_increment(state, graph.to(device), step.to(device), z, left, right, backend=backend)
            made += [state.output(), touched]
        return tuple(made)

    assert torch.autograd.gradcheck(outputs, values)


@pytest.mark.parametrize("width", [1, 16, 33, 130])
def test_backends_agree(backend: str, device: str, width: int) -> None:
    graphs, changes = run()
    nodes = graphs[0].num_rows
    values = [torch.randn(nodes, width, generator=torch.Generator().manual_seed(width)), *inputs(nodes, 3.0)[1:]]
    made = []
    for name, where in ((backend, device), ("reference", "cpu")):
        leaves = [v.detach().to(where, copy=True).requires_grad_() for v in values]
        state = attention(graphs[0].to(where), *leaves, backend=name)
        state, touched = attention_increment(state, graphs[1].to(where), changes[0].to(where), *leaves, backend=name)
        (state.output().sin().sum() + touched.cos().sum()).backward()
        made.append([state.output(), touched, state.maximum, state.reference, *(leaf.grad for leaf in leaves)])
    for mine, theirs in zip(*made, strict=True):
        assert mine is not None and theirs is not None and distance(mine, theirs) < 1e-5


def test_what_does_not_fit_is_refused() -> None:
    graphs, changes, (z, left, right) = star(1.0)
    state = attention(graphs[0], z, left, right)
    for wrong, message in (
        ((z.double(), left, right), "left is"),
        ((z, left[:3], right), r"expected contiguous .* \[6\]"),
        ((z.T.contiguous().T, left, right), "not contiguous"),
        ((z[0], left, right), r"\[6, F\]"),
    ):
        with pytest.raises(UserError, match=message):
            attention(graphs[0], *wrong)
    with pytest.raises(UserError, match="did you mean 'exact'"):
        attention_increment(state, graphs[1], changes[0], z, left, right, variant="exakt")
    with pytest.raises(UserError, match="do not fit"):
        attention_increment(state, graphs[1], run()[1][0], z, left, right)
    with pytest.raises(UserError, match="do not fit"):
        attention_increment(
            AttentionState(state.total[:3], state.denominator[:3], state.maximum[:3], state.reference[:3]),
            graphs[1],
            changes[0],
            z,
            left,
            right,
        )
