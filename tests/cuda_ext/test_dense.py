"""Products of dense matrices: against float64, whatever their shapes and strides, on any number of threads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from native_case import PLACES, needs_cpu
from torch import Tensor

from chronoscale.cuda_ext import backend
from chronoscale.cuda_ext.backend import set_threads
from chronoscale.cuda_ext.dense import Linear, product
from chronoscale.cuda_ext.loader import cpu_library
from chronoscale.errors import UserError

pytestmark = pytest.mark.usefixtures("threads")
SIZES = st.sampled_from([0, 1, 2, 5, 11, 12, 13, 31, 32, 33, 48, 49, 70])


def plain(tensor: Tensor) -> Tensor:
    return tensor


def turned(tensor: Tensor) -> Tensor:
    """The same numbers, columns beside each other."""
    return tensor.mT.contiguous().mT


def gaps(tensor: Tensor) -> Tensor:
    """The same numbers, NaN between them."""
    wide = torch.full((*tensor.shape[:-1], 2 * tensor.shape[-1] + 3), torch.nan, dtype=tensor.dtype)
    wide[..., 1 : 1 + 2 * tensor.shape[-1] : 2] = tensor
    return wide[..., 1 : 1 + 2 * tensor.shape[-1] : 2]


def part(tensor: Tensor) -> Tensor:
    """The same numbers, a part of longer rows."""
    return torch.cat([tensor, torch.full_like(tensor, torch.nan)], -1)[..., : tensor.shape[-1]]


def innermost(tensor: Tensor) -> Tensor:
    """The same numbers, a batch's beside each other."""
    return tensor if tensor.dim() < 3 else tensor.permute(1, 2, 0).contiguous().permute(2, 0, 1)


def repeated(tensor: Tensor) -> Tensor:
    """Its first row again and again."""
    return tensor[..., :1, :].expand_as(tensor) if tensor.shape[-2] else tensor


LAID = st.sampled_from([plain, turned, gaps, part, innermost, repeated])
BEGINS = st.sampled_from([None, "row", "rows"])
Laid = Callable[[Tensor], Tensor]


def random(*size: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(*size, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def expected(a: Tensor, b: Tensor, start: Tensor | None) -> Tensor:
    """By one number at a time: nothing of torch's products."""
    wide = (a.double()[..., :, :, None] * b.double()[..., None, :, :]).sum(-2)
    return wide if start is None else wide + start.double()


@needs_cpu
@given(sizes=st.tuples(SIZES, SIZES, SIZES), batches=st.integers(0, 3), one=LAID, other=LAID, begins=BEGINS, seed=st.integers(0, 99))
def test_any_sizes_and_strides(sizes: tuple[int, int, int], batches: int, one: Laid, other: Laid, begins: str | None, seed: int) -> None:
    m, k, n = sizes
    first = (batches,) * (batches > 0)
    a, b = one(random(*first, m, k, seed=seed)), other(random(*first, k, n, seed=seed + 1))
    begins = None if first else begins
    start = None if begins is None else one(random(*((1, n) if begins == "row" else (m, n)), seed=seed + 2))
    start = start[0] if start is not None and begins == "row" else start
    found = product(a, b, start, backend="cpu")
    assert found.shape == (*first, m, n)
    torch.testing.assert_close(found.double(), expected(a, b, start), rtol=0, atol=2e-6 * max(k, 1))


@needs_cpu
@pytest.mark.parametrize("k", [511, 512, 513, 1024, 1025, 3000])
def test_a_deep_sum_goes_on_where_it_was_written(k: int) -> None:
    a, b, start = random(50, k), random(k, 40, seed=1), random(40, seed=2)
    torch.testing.assert_close(product(a, b, start, backend="cpu").double(), expected(a, b, start), rtol=0, atol=3e-4)
    twice = product(a.double(), b.double(), start.double(), backend="cpu")
    torch.testing.assert_close(twice, expected(a, b, start), rtol=0, atol=1e-11)


@needs_cpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_do_not_depend_on_threads_nor_a_row_on_the_others(dtype: torch.dtype) -> None:
    a, b, start = random(331, 700, dtype=dtype), random(700, 201, dtype=dtype, seed=1), random(201, dtype=dtype, seed=2)
    set_threads(1)
    whole = product(a, b, start, backend="cpu")
    for count in (2, 3, 8):
        set_threads(count)
        assert torch.equal(product(a, b, start, backend="cpu"), whole), f"{count} threads"
    for rows in (slice(0, 1), slice(7, 12), slice(100, 331)):
        assert torch.equal(product(a[rows], b, start, backend="cpu"), whole[rows])


@needs_cpu
@given(sizes=st.tuples(*[st.integers(1, 5)] * 3), batches=st.integers(0, 3), one=LAID, other=LAID, seed=st.integers(0, 99))
def test_gradients_of_any_strides(sizes: tuple[int, int, int], batches: int, one: Laid, other: Laid, seed: int) -> None:
    (m, k, n), first = sizes, (batches,) * (batches > 0)
    a, b = one(random(*first, m, k, seed=seed)).requires_grad_(), other(random(*first, k, n, seed=seed + 1)).requires_grad_()
    into = other(random(*first, m, n, seed=seed + 2))
    found = torch.autograd.grad(product(a, b, backend="cpu"), (a, b), into)
    for made, right in zip(found, (expected(into, b.mT, None), expected(a.mT, into, None)), strict=True):
        torch.testing.assert_close(made.double(), right.detach(), rtol=0, atol=2e-5)


@needs_cpu
def test_gradients() -> None:
    def ask(*size: int, seed: int) -> Tensor:
        return random(*size, dtype=torch.float64, seed=seed).requires_grad_()

    a, b, wide = ask(15, 7, seed=0), ask(7, 35, seed=1), ask(9, 11, seed=2)
    assert torch.autograd.gradcheck(product, (a, b, ask(35, seed=3)))
    assert torch.autograd.gradcheck(product, (a, b, ask(15, 35, seed=3)))
    assert torch.autograd.gradcheck(product, (ask(2, 5, 7, seed=4), ask(2, 7, 33, seed=5)))
    assert torch.autograd.gradcheck(lambda x, w: product(x, w[:, :7].t()), (a, wide))  # a part of a weight, as models have it
    assert torch.autograd.gradcheck(lambda x: product(x.view(15, 7, 1).transpose(0, 1), ask(7, 1, 3, seed=6).detach()), (a,))
    assert torch.autograd.gradcheck(lambda x: product(x, b.detach()).sum(), (a,))  # a gradient without strides


@needs_cpu
def test_threads_that_were_set_stay() -> None:
    """Also where a device is asked about in another way than before."""
    library = cpu_library()
    assert library is not None
    set_threads(3)
    backend.missing.cache_clear()
    backend._default.cache_clear()
    product(random(2, 3), random(3, 4))
    product(random(2, 3), random(3, 4), backend="cpu")
    assert library.cs_get_threads() == 3


@needs_cpu
def test_what_needs_no_gradient_gets_none() -> None:
    a, b, start = random(5, 4), random(4, 3, seed=1).requires_grad_(), random(3, seed=2)
    product(a, b, start, backend="cpu").sum().backward()
    assert a.grad is None and start.grad is None
    torch.testing.assert_close(b.grad, a.sum(0)[:, None].expand(4, 3))


@pytest.mark.parametrize("backend", PLACES)
def test_not_finite_stays_so_where_it_is(backend: str) -> None:
    a, b = torch.ones(13, 3), torch.ones(3, 33)
    a[4, 1], b[2, 32] = torch.nan, torch.inf
    found = product(a, b, backend=backend)
    assert found[4].isnan().all()
    rest = torch.cat([found[:4], found[5:]])
    assert rest[:, 32].isinf().all() and (rest[:, :32] == 3).all()


@needs_cpu
def test_a_batch_has_rows_beside_each_other() -> None:
    found = product(random(2, 5, 3), random(2, 3, 4), backend="cpu")
    assert found.transpose(0, 1).is_contiguous()


def test_linear_is_torchs() -> None:
    layer = Linear(7, 5)
    torch.manual_seed(0)
    same = torch.nn.Linear(7, 5)
    same.load_state_dict(layer.state_dict())
    for x in (random(6, 7), random(2, 3, 7), random(0, 7), random(7)):
        torch.testing.assert_close(layer(x), same(x))


def gone(tensor: Tensor) -> Tensor:
    """Its memory is, or a part of it."""
    tensor.untyped_storage().resize_(4)
    return tensor


@pytest.mark.parametrize(
    "a, b, start, said",
    [
        (random(2, 3), random(3, 4), gone(random(4)), "start is torch.float32 [4] on cpu, not all of it in memory"),
        (gone(random(2, 3)), random(3, 4), None, "a is torch.float32 [2, 3] on cpu, not all of it in memory"),
        (random(2, 3).to_sparse(), random(3, 4), None, "torch.sparse_coo"),
        (random(2, 3), random(4, 2), None, "expected [m, k] and [k, n]"),
        (random(3), random(3, 2), None, "a is torch.float32 [3]"),
        (random(2, 3), random(3, 2).double(), None, "floats alike"),
        (random(2, 3).long(), random(3, 2).long(), None, "floats alike"),
        (random(2, 2, 3), random(1, 3, 2), None, "or [h, m, k] and [h, k, n]"),
        (random(2, 3), random(3, 4), random(2), "start is"),
        (random(2, 3), random(3, 4), random(4).double(), "expected torch.float32 [4] or [2, 4]"),
        (random(1, 2, 3), random(1, 3, 4), random(4), "start is"),
    ],
)
def test_what_does_not_fit_is_said(a: Tensor, b: Tensor, start: Tensor | None, said: str) -> None:
    with pytest.raises(UserError) as raised:
        product(a, b, start)
    assert said in str(raised.value)
