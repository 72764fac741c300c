"""One contract, every backend: reference, cpu, cuda."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from chronoscale.cuda_ext.native.backend import backends, set_threads
from chronoscale.cuda_ext.operators.aggregation import aggregate, increment, increment_
from chronoscale.cuda_ext.operators.graph import CSR, Delta
from chronoscale.errors import UserError

WIDTHS = (1, 3, 8, 16, 33, 64, 128, 200)


def csr(dense: np.ndarray, weighted: bool = True) -> CSR:
    rows, cols = np.nonzero(dense)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(dense)))])
    values = torch.from_numpy(dense[rows, cols].astype(np.float32)) if weighted else None
    return CSR(torch.from_numpy(indptr), torch.from_numpy(cols.astype(np.int32)), values, dense.shape[1])


def delta(dense: np.ndarray) -> Delta:
    rows = np.flatnonzero(dense.any(axis=1))
    part = csr(dense[rows])
    return Delta(torch.from_numpy(rows.astype(np.int32)), part.indptr, part.indices, part.values, *dense.shape)


def random_dense(rows: int, cols: int, density: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, cols)) * (rng.random((rows, cols)) < density)


def features(rows: int, width: int, device: str, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(rows, width, dtype=dtype, generator=torch.Generator().manual_seed(width)).to(device)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual.cpu().double(), expected.cpu().double(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("width", WIDTHS)
def test_aggregate_equals_the_dense_product(backend: str, device: str, width: int, weighted: bool) -> None:
    dense = random_dense(90, 70, 0.1)  # some of its rows are empty
    dense[5] = 1.0
    graph, x = csr(dense, weighted).check().to(device), features(70, width, device)
    close(aggregate(graph, x, backend), torch.from_numpy(dense if weighted else (dense != 0).astype(float)) @ x.cpu().double())


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("width", (*WIDTHS, 5, 130))
def test_bfloat16_is_stored_and_float32_summed(backend: str, device: str, width: int, weighted: bool) -> None:
    """As if the same numbers were stored in float32: of the sums nothing is rounded to eight bits."""
    dense = random_dense(90, 70, 0.1)
    dense[5] = 1.0
    graph, x = csr(dense, weighted).to(device), features(70, width, device).bfloat16().requires_grad_()
    whole = x.detach().float().requires_grad_()
    out, expected = aggregate(graph, x, backend), aggregate(graph, whole, backend)
    assert out.dtype == torch.float32 and torch.allclose(out, expected, rtol=1e-6, atol=1e-6)
    close(out, torch.from_numpy(dense if weighted else (dense != 0).astype(float)) @ x.detach().cpu().double())
    weight = features(90, width, device).cos()
    for result in (out, expected):
        (result * weight).sum().backward()
    assert x.grad is not None and whole.grad is not None
    assert x.grad.dtype == torch.bfloat16 and torch.equal(x.grad, whole.grad.bfloat16())
    change, sums = delta(random_dense(90, 70, 0.02, 2)).to(device), features(90, width, device)
    (new, touched), (whole_new, _) = (increment(sums, change, t.detach(), backend) for t in (x, whole))
    assert new.dtype == touched.dtype == torch.float32 and torch.allclose(new, whole_new, rtol=1e-6, atol=1e-6)
    copy = increment_(sums, change, x.detach(), backend)
    assert torch.equal(copy, touched) and torch.equal(sums, new)
    into = []
    for t in (x.detach().requires_grad_(), whole.detach().requires_grad_()):
        (increment(new, change, t, backend)[0] * weight).sum().backward()
        into.append(t.grad)
    assert into[0] is not None and into[1] is not None and torch.equal(into[0], into[1].bfloat16())


def test_bfloat16_through_the_registered_operators() -> None:
    graph, change, ops = csr(random_dense(9, 7, 0.3)), delta(random_dense(9, 7, 0.2, seed=1)), torch.ops.chronoscale
    x, sums = features(7, 3, "cpu").bfloat16().requires_grad_(), features(9, 3, "cpu")
    alike = ("test_schema", "test_faketensor")
    torch.library.opcheck(ops.aggregate, (graph.indptr, graph.indices, graph.values, x), test_utils=alike)
    torch.library.opcheck(ops.increment, (sums, change.rows, change.indptr, change.indices, change.values, x), test_utils=alike)
    ops.aggregate(graph.indptr, graph.indices, graph.values, x).sum().backward()
    assert x.grad is not None and x.grad.dtype == torch.bfloat16
    with pytest.raises(UserError, match=r"expected contiguous torch.float32 \[9, 3\]"):
        increment(sums.bfloat16(), change, x)


@pytest.mark.parametrize("width", WIDTHS)
def test_increment_equals_the_dense_sum(backend: str, device: str, width: int) -> None:
    dense = random_dense(90, 70, 0.02)
    change, x, sums = delta(dense).check().to(device), features(70, width, device), features(90, width, device)
    expected = sums.cpu().double() + torch.from_numpy(dense) @ x.cpu().double()
    new, touched = increment(sums, change, x, backend)
    close(new, expected)
    assert torch.equal(touched, new[change.rows.long()])
    close(sums, features(90, width, "cpu"))
    copy = increment_(sums, change, x, backend)
    assert torch.equal(copy, touched) and torch.equal(sums, new)


@pytest.mark.sample(1)
@pytest.mark.parametrize("width", (1, 16, 130))
def test_hubs_are_summed_whole(backend: str, device: str, width: int) -> None:
    nodes, edges = 300, 120_000
    rng = np.random.default_rng(1)
    target = np.sort(np.where(rng.random(edges) < 0.9, 7, rng.integers(0, nodes, edges)))
    indptr = torch.from_numpy(np.concatenate([[0], np.cumsum(np.bincount(target, minlength=nodes))]))
    graph = CSR(indptr, torch.from_numpy(rng.integers(0, nodes, edges).astype(np.int32)), None, nodes).to(device)
    x = torch.rand(nodes, width, device=device)
    expected = aggregate(graph, x.double(), "reference")
    torch.testing.assert_close(aggregate(graph, x, backend).double(), expected, rtol=1e-3, atol=1e-2)  # 108,000 float32 terms
    half = x.bfloat16()
    torch.testing.assert_close(aggregate(graph, half, backend), aggregate(graph, half.float(), "reference"), rtol=1e-3, atol=1e-2)
    change = Delta(torch.arange(nodes, dtype=torch.int32, device=device), graph.indptr, graph.indices, None, nodes, nodes)
    new, touched = increment(x, change, x, backend)
    torch.testing.assert_close(new.double(), expected + x.double(), rtol=1e-3, atol=1e-2)
    assert torch.equal(touched, new)


def test_empty_operands(backend: str, device: str) -> None:
    none = csr(np.zeros((0, 4))).to(device)
    assert aggregate(none, torch.ones(4, 3, device=device), backend).shape == (0, 3)
    edgeless = csr(np.zeros((5, 4))).to(device)
    assert torch.equal(aggregate(edgeless, torch.ones(4, 3, device=device), backend).cpu(), torch.zeros(5, 3))
    assert aggregate(edgeless, torch.ones(4, 0, device=device), backend).shape == (5, 0)
    sums = torch.ones(5, 3, device=device)
    new, touched = increment(sums, delta(np.zeros((5, 4))).to(device), torch.ones(4, 3, device=device), backend)
    assert torch.equal(new, sums) and touched.shape == (0, 3)


@pytest.mark.sample(2)
def test_two_hundred_changes_equal_the_whole(backend: str, device: str) -> None:
    rng = np.random.default_rng(3)
    nodes = 40
    adjacency = (rng.random((nodes, nodes)) < 0.2).astype(float)
    x = features(nodes, 16, device)
    sums = aggregate(csr(adjacency).to(device), x, backend)
    first = adjacency.copy()
    for step in range(200):
        flips = rng.random((nodes, nodes)) < 0.02
        after = np.where(flips, 1 - adjacency, adjacency) if step < 199 else first  # the last step undoes all
        touched = increment_(sums, delta(after - adjacency).to(device), x, backend)
        adjacency = after
        whole = aggregate(csr(adjacency).to(device), x, backend)
        torch.testing.assert_close(sums, whole, rtol=1e-4, atol=2e-4)
        assert len(touched) <= nodes


def test_gradients(backend: str, device: str) -> None:
    graph = csr(random_dense(9, 7, 0.3)).to(device)
    change = delta(random_dense(9, 7, 0.2, seed=1)).to(device)
    x = features(7, 3, device, torch.float64).requires_grad_()
    sums = features(9, 3, device, torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: aggregate(graph, x, backend), x)
    assert torch.autograd.gradgradcheck(lambda x: aggregate(graph, x, backend), x)
    assert torch.autograd.gradcheck(lambda sums, x: increment(sums, change, x, backend), (sums, x))


@pytest.mark.slow
def test_registered_operators_have_gradients_and_shapes() -> None:
    graph, change = csr(random_dense(9, 7, 0.3)), delta(random_dense(9, 7, 0.2, seed=1))
    x, sums = features(7, 3, "cpu", torch.float64).requires_grad_(), features(9, 3, "cpu", torch.float64).requires_grad_()
    matrix, rows = (graph.indptr, graph.indices, graph.values), (change.rows, change.indptr, change.indices, change.values)
    ops = torch.ops.chronoscale
    torch.library.opcheck(ops.aggregate, (*matrix, x))
    torch.library.opcheck(ops.increment, (sums, *rows, x))
    assert torch.autograd.gradcheck(lambda x: ops.aggregate(*matrix, x), x)
    assert torch.autograd.gradcheck(lambda sums, x: ops.increment(sums, *rows, x), (sums, x))
    with torch.no_grad():
        copy = sums.clone()
        touched = ops.increment_(copy, *rows, x)
    assert torch.equal(copy[change.rows.long()], touched)


def test_results_do_not_depend_on_threads() -> None:
    if "cpu" not in backends():
        pytest.skip("backend 'cpu' is not available on this machine")
    rng = np.random.default_rng(5)
    nodes, edges = 5_000, 200_000
    target = np.sort((rng.pareto(1.0, edges) * 10).astype(np.int64) % nodes)
    indptr = torch.from_numpy(np.concatenate([[0], np.cumsum(np.bincount(target, minlength=nodes))]))
    graph = CSR(indptr, torch.from_numpy(rng.integers(0, nodes, edges).astype(np.int32)), torch.rand(edges), nodes)
    x = torch.randn(nodes, 40)
    results = []
    try:
        for threads in (1, 2, 5):
            set_threads(threads)
            results.append(aggregate(graph, x, "cpu"))
    finally:
        set_threads(torch.get_num_threads())
    assert all(torch.equal(results[0], other) for other in results[1:])


GRAPH = csr(random_dense(6, 5, 0.5))
CHANGE = delta(random_dense(6, 5, 0.5))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(3, 5).T, "not contiguous"),
        (torch.ones(5, 3, dtype=torch.float16), "expected contiguous float32 or float64"),
        (torch._neg_view(torch.ones(5, 3)), "not contiguous"),
        (torch.ones(4, 3), r"\[5, F\]"),
        (torch.ones(5), r"\[5, F\]"),
        (torch.ones(5, 3, device="meta"), "on cpu"),
    ],
)
def test_wrong_features_are_one_clear_error(x: Tensor, message: str) -> None:
    with pytest.raises(UserError, match=message):
        aggregate(GRAPH, x)
    with pytest.raises(UserError, match=message):
        increment(torch.ones(6, 3), CHANGE, x)


def test_wrong_sums_and_wrong_backends_are_errors() -> None:
    x = torch.ones(5, 3)
    for sums in (torch.ones(5, 3), torch.ones(6, 4), torch.ones(6, 3).double()):
        with pytest.raises(UserError, match="sums"):
            increment_(sums, CHANGE, x)
    memory = torch.ones(9, 3)
    with pytest.raises(UserError, match="shares its memory"):
        increment_(memory[:6], CHANGE, memory[4:])
    with pytest.raises(UserError, match="shares its memory"):
        increment_(CHANGE.indices.view(torch.float32)[:6].view(6, 1), CHANGE, x[:, :1].contiguous())
    with pytest.raises(UserError, match="no gradient"):
        increment_(torch.ones(6, 3), CHANGE, x.clone().requires_grad_())
    with pytest.raises(UserError, match="did you mean 'cuda'"):
        aggregate(GRAPH, x, "cudo")
    if "cuda" not in backends():
        with pytest.raises(UserError, match="not available"):
            aggregate(GRAPH, x, "cuda")
    with pytest.raises(UserError, match="at least 1"):
        set_threads(0)
