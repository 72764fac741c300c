"""A linear layer and a ReLU, block by block: against torch's operators."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from native_case import PLACES, needs_cpu
from profiles import examples
from torch import Tensor
from torch.nn.functional import linear

from chronoscale.cuda_ext.operators import row_blocks
from chronoscale.cuda_ext.operators.linear_relu import linear_relu
from chronoscale.errors import UserError

pytestmark = pytest.mark.usefixtures("short")


@pytest.fixture(scope="module")
def short() -> object:
    """Blocks of a few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_blocks, "BLOCK_NUMBERS", 20)
        yield


def drawn(rows: int, width: int, hidden: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x, weight, bias = (
        torch.randn(*shape, dtype=torch.float64, generator=generator) for shape in ((rows, width), (hidden, width), (hidden,))
    )
    return x, weight, bias


@given(rows=st.integers(0, 60), width=st.integers(0, 30))
def test_blocks_are_all_rows_once(rows: int, width: int) -> None:
    found, longest = [list(range(rows))[block] for block in row_blocks.row_blocks(rows, width)], row_blocks.longest_block(rows, width)
    assert [row for block in found for row in block] == list(range(rows))
    assert all(len(block) == longest for block in found[:-1]) and all(0 < len(block) <= longest for block in found)
    assert longest <= 1 or longest * width <= 20


@pytest.mark.parametrize("backend", PLACES)
@pytest.mark.parametrize("biased", [True, False])
@given(rows=st.integers(0, 30), width=st.integers(1, 9), hidden=st.integers(1, 20), seed=st.integers(0, 99))
@examples(40)
def test_equals_torchs_operators(backend: str, biased: bool, rows: int, width: int, hidden: int, seed: int) -> None:
    leaves = [part.requires_grad_() for part in drawn(rows, width, hidden, seed)][: 2 + biased]
    found, wanted = linear_relu(*leaves, backend=backend), torch.relu(linear(*leaves))
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    weights = torch.randn(rows, hidden, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    for one, other in zip(*(torch.autograd.grad((made * weights).sum(), leaves) for made in (found, wanted)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-11)


@needs_cpu
def test_gradients() -> None:
    assert torch.autograd.gradcheck(linear_relu, [part.requires_grad_() for part in drawn(9, 4, 3)])


@needs_cpu
def test_what_is_cut_off_gets_no_gradient_and_nan_stays() -> None:
    x, weight, bias = (part.requires_grad_() for part in drawn(9, 4, 3))
    linear_relu(x, weight, bias - 1000).sum().backward()
    assert all(part.grad is not None and not part.grad.any() for part in (x, weight, bias))
    spoilt = x.detach().clone()
    spoilt[8] = torch.nan
    found = linear_relu(spoilt, weight, bias)
    assert found[8].isnan().all() and not found[:8].isnan().any()


@needs_cpu
def test_any_strides() -> None:
    x, weight, bias = drawn(20, 5, 4)
    apart = [x.t().contiguous().t(), torch._neg_view(-weight).t().contiguous().t(), bias.repeat_interleave(2)[::2]]
    apart = [part.requires_grad_() for part in apart]
    alike = [part.clone().requires_grad_() for part in (x, weight, bias)]
    found = [linear_relu(*parts) for parts in (apart, alike)]
    torch.testing.assert_close(*found)
    for one, other in zip(
        *(torch.autograd.grad(made.sum(), parts) for made, parts in zip(found, (apart, alike), strict=True)), strict=True
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "given_, words",
    [
        ((torch.zeros(5), torch.zeros(3, 4), None), r"x is torch.float32 \[5\].*expected float32 or float64 \[R, D\]"),
        ((torch.zeros(5, 4), torch.zeros(3, 5), None), r"weight is torch.float32 \[3, 5\].*expected torch.float32 \[3, 4\] on cpu"),
        ((torch.zeros(5, 4), torch.zeros(3, 4), torch.zeros(4)), r"bias is torch.float32 \[4\].*expected torch.float32 \[3\]"),
        ((torch.zeros(5, 4), torch.zeros(3, 4).double(), None), r"weight is torch.float64"),
    ],
)
def test_what_does_not_fit(given_: tuple[Tensor, Tensor, Tensor | None], words: str) -> None:
    with pytest.raises(UserError, match=f"^linear_relu: {words}"):
        linear_relu(*given_)
