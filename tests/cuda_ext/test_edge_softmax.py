"""Softmax over rows' entries: one contract, every backend."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from chronoscale.cuda_ext.native import abi
from chronoscale.cuda_ext.native import edges as edges_native
from chronoscale.cuda_ext.native.backend import TRITON, backends, set_threads, triton_interpreted
from chronoscale.cuda_ext.operators.edge_softmax import edge_softmax
from chronoscale.errors import UserError

LENGTHS = (0, 1, 2, 9, 10, 15, 16, 17, 31, 32, 33, 0, 64, 65, 129, 511, 512, 513, 1500, 3, 0)  # around registers, warps and pieces
HEADS = (1, 2, 3, 4, 8, 16, 17, 40)
NAN, INF = float("nan"), float("inf")


def pointers(lengths: tuple[int, ...] = LENGTHS) -> Tensor:
    return torch.tensor([0, *lengths]).cumsum(0)


def normal(entries: int, heads: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(entries, heads, generator=torch.Generator().manual_seed(heads + seed), dtype=torch.float64).to(dtype)


def by_row(scores: Tensor, indptr: Tensor) -> Tensor:
    """torch.softmax, a row at a time."""
    return torch.cat([scores[begin:end].softmax(0) for begin, end in pairwise(indptr.tolist())])


def heads_for(backend: str) -> tuple[int, ...]:
    return (2, 3) if backend == TRITON and triton_interpreted() else HEADS


@pytest.mark.parametrize("longest", [None, 10])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_torch_softmax_row_by_row(served: tuple[str, str], dtype: torch.dtype, longest: int | None) -> None:
    """Also where a row is longer than its caller says."""
    backend, device = served
    indptr = pointers()
    for heads in heads_for(backend):
        scores = normal(int(indptr[-1]), heads, dtype)
        found = edge_softmax(scores.to(device), indptr.to(device), backend, longest).cpu().double()
        torch.testing.assert_close(found, by_row(scores.double(), indptr), rtol=2e-6 if dtype == torch.float32 else 1e-13, atol=0)


def test_short_rows_alone(served: tuple[str, str]) -> None:
    """As a sampler's batch is: at its end no register can be read whole."""
    backend, device = served
    for length in (1, 2, 5, 10):
        indptr = pointers((length,) * 3)
        for heads in heads_for(backend):
            scores = normal(3 * length, heads, torch.float64)
            found = edge_softmax(scores.to(device), indptr.to(device), backend).cpu()
            torch.testing.assert_close(found, by_row(scores, indptr), rtol=1e-13, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_that_are_no_numbers_are_as_torch_has_them(served: tuple[str, str], dtype: torch.dtype) -> None:
    backend, device = served
    indptr = pointers()
    for heads in (1, 2, 3):
        for strange in ((-INF,), (INF,), (NAN,), (INF, -INF), (-INF, 1e30, -1e30), (1e4, -1e4), (-INF,) * 600):
            scores = normal(int(indptr[-1]), heads, dtype)
            for begin, end in pairwise(indptr.tolist()):
                some = min(len(strange), end - begin)
                scores[end - some : end, 0] = torch.tensor(strange[:some], dtype=dtype)
            found = edge_softmax(scores.to(device), indptr.to(device), backend).cpu()
            expected = by_row(scores.double(), indptr).to(dtype)
            torch.testing.assert_close(found, expected, rtol=2e-6, atol=1e-30, equal_nan=True)


def test_scores_however_large_are_stable(served: tuple[str, str]) -> None:
    """Whole numbers, so that a score moved by 2^20 is the same score."""
    backend, device = served
    indptr = pointers()
    scores = normal(int(indptr[-1]), 2).mul(8).round().to(device)
    still = edge_softmax(scores, indptr.to(device), backend)
    for moved in (2.0**20, -(2.0**20)):
        assert torch.equal(edge_softmax(scores + moved, indptr.to(device), backend), still)


def test_rows_add_up_to_one(served: tuple[str, str]) -> None:
    backend, device = served
    indptr = pointers()
    shares = edge_softmax(10 * normal(int(indptr[-1]), 2).to(device), indptr.to(device), backend).cpu().double()
    sums = torch.stack([shares[begin:end].sum(0) for begin, end in pairwise(indptr.tolist())])
    lengths = indptr.diff()
    torch.testing.assert_close(sums, (lengths > 0).double()[:, None].expand_as(sums), rtol=0, atol=2e-6)


def test_nothing_to_weigh(served: tuple[str, str]) -> None:
    backend, device = served
    for rows, entries, heads in ((0, 0, 2), (3, 0, 2), (1, 4, 0)):
        indptr = torch.tensor([0] * rows + [entries], device=device)
        scores = torch.zeros(entries, heads, device=device).requires_grad_()
        shares = edge_softmax(scores, indptr, backend)
        assert shares.shape == (entries, heads)
        assert torch.autograd.grad(shares.sum(), scores)[0].shape == (entries, heads)


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 16])
def test_gradients(served: tuple[str, str], heads: int) -> None:
    backend, device = served
    indptr = pointers((0, 1, 4, 0, 11, 2)).to(device)
    scores = normal(18, heads, torch.float64).to(device).requires_grad_()
    assert torch.autograd.gradcheck(lambda scores: edge_softmax(scores, indptr, backend), scores)


def test_gradients_of_long_rows(served: tuple[str, str]) -> None:
    backend, device = served
    indptr = pointers()
    for heads in heads_for(backend):
        scores, weight = normal(int(indptr[-1]), heads).requires_grad_(), normal(int(indptr[-1]), heads, seed=1)
        there = scores.detach().to(device).requires_grad_()
        (found,) = torch.autograd.grad((edge_softmax(there, indptr.to(device), backend) * weight.to(device)).sum(), there)
        wide = scores.detach().double().requires_grad_()
        (expected,) = torch.autograd.grad((by_row(wide, indptr) * weight).sum(), wide)
        torch.testing.assert_close(found.cpu().double(), expected, rtol=1e-5, atol=1e-6)


def test_threads_change_no_bit(threads: None) -> None:
    if "cpu" not in backends():
        pytest.skip("backend 'cpu' is not available on this machine")
    lengths = torch.randint(0, 20, (20_000,), generator=torch.Generator().manual_seed(1))
    lengths[77] = 30_000
    indptr, results = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]), []
    scores = normal(int(indptr[-1]), 2).requires_grad_()
    for count in (1, 2, 5):
        set_threads(count)
        shares = edge_softmax(scores, indptr, "cpu")
        results.append((shares.detach(), *torch.autograd.grad(shares.sin().sum(), scores)))
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(1, 9), st.sampled_from([1.0, 30.0, 300.0]))
def test_any_rows(lengths: list[int], heads: int, size: float) -> None:
    indptr = pointers(tuple(lengths))
    scores = size * normal(int(indptr[-1]), heads)
    expected = by_row(scores.double(), indptr) if len(lengths) else scores.double()
    for backend in {"reference", "cpu"} & set(backends()):
        # e^x is as far off as x is, and x - maximum is rounded
        torch.testing.assert_close(edge_softmax(scores, indptr, backend).double(), expected, rtol=2e-6 * size, atol=1e-37)


@pytest.mark.parametrize("wrong", [(1, 3, 6), (0, 4, 3, 6), (0, 3, 5), (0, 3, 7), (0, 7, 6), (-1, 3, 6), (0, -(2**62), 6), (0, 2**62, 6)])
def test_pointers_that_do_not_ascend_are_one_line(wrong: tuple[int, ...]) -> None:
    for backend in {"reference", "cpu"} & set(backends()):
        with pytest.raises(UserError, match="edge_softmax: indptr must ascend from 0 to 6, the number of scores"):
            edge_softmax(normal(6, 2), torch.tensor(wrong), backend)


def test_emulated_pointers_that_are_wrong_spoil_no_memory(emulated_kernels: None) -> None:
    """Every number of the result is of its own row's, or was never written."""
    scores = normal(1200, 2)
    for wrong in ([0, 700, 600, 1200], [5, 10, 2**40], [0, -5, 1200], [0, 0, 1300], [-(2**40), 2**40, 0], [2**40, 2**41]):
        edges_native.softmax(scores, torch.tensor(wrong), None)
        edges_native.softmax_grad(scores, scores, torch.tensor(wrong), None)
    scores = normal(60, 2)  # so few that they pass through shared memory
    for wrong in ([0, 4, 3, 60], [5, 2, 60], [3, 0, 60], [0, 2**40, 30], [40, 20, 0], [-5, 30, 20, 61]):
        edges_native.softmax(scores, torch.tensor(wrong), 9)
        edges_native.softmax_grad(scores, scores, torch.tensor(wrong), 9)
    assert abi.on_cuda(scores)


def test_emulated_rows_that_are_not_long_take_one_launch(emulated_kernels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counters, which a call has where it has pieces of rows, are what the second depends on."""
    asked: list[int] = []
    made = abi._counters
    monkeypatch.setattr(abi, "_counters", lambda *given: (asked.append(given[2]), made(*given))[1])
    for lengths, longest, pieces in (((3, 10, 32), None, []), ((300, 300), 300, []), ((300, 300), None, [2]), ((10, 600), 600, [2])):
        asked.clear()
        indptr = pointers(lengths)
        edges_native.softmax(normal(int(indptr[-1]), 2), indptr, longest)
        assert asked == pieces


SCORES, INDPTR = normal(6, 2), torch.tensor([0, 2, 6])


@pytest.mark.parametrize(
    ("scores", "indptr", "said"),
    [
        (SCORES[:, 0], INDPTR, r"scores is torch.float32 \[6\] on cpu.*expected contiguous float32 or float64 \[\*, H\]"),
        (SCORES.half(), INDPTR, "expected contiguous float32 or float64"),
        (SCORES.T.contiguous().T, INDPTR, "not contiguous"),
        (SCORES, INDPTR.int(), r"indptr is torch.int32 \[3\] on cpu; expected contiguous torch.int64"),
        (SCORES, INDPTR[:0], "0 pointers into 6 scores; expected 1 pointer at least"),
        (SCORES, INDPTR.to("meta"), "on cpu"),
    ],
)
def test_what_does_not_fit_is_one_clear_error(scores: Tensor, indptr: Tensor, said: str) -> None:
    with pytest.raises(UserError, match=said):
        edge_softmax(scores, indptr)


@pytest.mark.slow
def test_the_registered_operator() -> None:
    scores, ops = normal(6, 2, torch.float64).requires_grad_(), torch.ops.chronoscale
    torch.library.opcheck(ops.edge_softmax, (scores, INDPTR))
    torch.library.opcheck(ops.edge_softmax_grad, (scores.detach(), scores.detach(), INDPTR))
    assert torch.autograd.gradcheck(lambda scores: ops.edge_softmax(scores, INDPTR), scores)
    with pytest.raises(UserError, match="into is"):
        ops.edge_softmax_grad(scores.detach(), SCORES, INDPTR)
