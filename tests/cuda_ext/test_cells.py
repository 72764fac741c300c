"""Recurrent cells on many rows: against torch's own, with blocks short enough to have several."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from native_case import PLACES, needs_cpu
from profiles import examples
from torch import Tensor

from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.cuda_ext.operators import row_blocks
from chronoscale.cuda_ext.operators.cell_weights import CellWeights
from chronoscale.cuda_ext.operators.gru import gru
from chronoscale.cuda_ext.operators.lstm import lstm
from chronoscale.errors import UserError

pytestmark = pytest.mark.usefixtures("threads", "short")
CELLS: dict[str, type[torch.nn.RNNCellBase]] = {"gru": torch.nn.GRUCell, "lstm": torch.nn.LSTMCell}
Step = Callable[[Tensor, tuple[Tensor, Tensor] | None], tuple[Tensor, ...]]


@pytest.fixture(scope="module")
def short() -> object:
    """Blocks of a few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_blocks, "BLOCK_NUMBERS", 64)
        yield


def cell_of(kind: str, width: int, hidden: int, seed: int, dtype: torch.dtype = torch.float64) -> torch.nn.RNNCellBase:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return CELLS[kind](width, hidden, dtype=dtype)


def ours(kind: str, cell: torch.nn.RNNCellBase, backend: str | None = "cpu") -> Step:
    if kind == "gru":
        return lambda x, state: (gru(x, None if state is None else state[0], CellWeights.of(cell), backend=backend),)
    return lambda x, state: lstm(x, state, CellWeights.of(cell), backend=backend)


def theirs(kind: str, cell: torch.nn.RNNCellBase) -> Step:
    if kind == "gru":
        return lambda x, state: (cell(x, None if state is None else state[0]),)
    return lambda x, state: cell(x, state)


def drawn(rows: int, width: int, hidden: int, seed: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """x, h, c, and what weighs the results."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(rows, width), *[(rows, hidden)] * 4]
    return [torch.randn(*shape, dtype=torch.float64, generator=generator).to(dtype) for shape in shapes]


def ran(step: Step, cell: torch.nn.RNNCellBase, tensors: list[Tensor], first: bool, steps: int = 2) -> list[Tensor]:
    """Results of some steps, and the gradients of inputs, states and weights."""
    x, h, c = (tensor.clone().requires_grad_() for tensor in tensors[:3])
    state: tuple[Tensor, Tensor] | None = None if first else (h, c)
    for _ in range(steps):
        made = step(x, state)
        state = (made[0], made[-1])
    total = sum((part * weight).sum() for part, weight in zip(made, tensors[3:], strict=False))
    gradients = torch.autograd.grad(total, [x, h, c, *cell.parameters()], allow_unused=True)
    return [*made, *(torch.zeros(0) if gradient is None else gradient for gradient in gradients)]


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("backend", PLACES)
@given(rows=st.integers(0, 30), width=st.integers(1, 9), hidden=st.integers(1, 20), first=st.booleans(), seed=st.integers(0, 99))
@examples(40)
def test_equals_torchs_cell(kind: str, backend: str, rows: int, width: int, hidden: int, first: bool, seed: int) -> None:
    cell, tensors = cell_of(kind, width, hidden, seed), drawn(rows, width, hidden, seed)
    found, wanted = (ran(step, cell, tensors, first) for step in (ours(kind, cell, backend), theirs(kind, cell)))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", CELLS)
def test_float32_is_as_near_as_torchs_cell(kind: str) -> None:
    cell, tensors = cell_of(kind, 24, 16, 3, torch.float32), drawn(50, 24, 16, 3, torch.float32)
    exact = ran(theirs(kind, cell.double()), cell, [tensor.double() for tensor in tensors], False, 4)
    cell = cell.float()
    found, others = (ran(step, cell, tensors, False, 4) for step in (ours(kind, cell), theirs(kind, cell)))
    for one, other, right in zip(found, others, exact, strict=True):
        size = right.abs().max() if right.numel() else 0
        reach = (other - right).abs().max() if right.numel() else 0
        assert (one - right).abs().numel() == 0 or (one - right).abs().max() <= 4 * reach + 1e-6 * size


@needs_cpu
@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("first", [False, True])
def test_gradients(kind: str, first: bool) -> None:
    cell, (x, h, c, *_) = cell_of(kind, 4, 3, 0), drawn(9, 4, 3, 0)
    step = ours(kind, cell)
    if first:
        assert torch.autograd.gradcheck(lambda a, *_: step(a, None), (x.requires_grad_(), *cell.parameters()))
    else:
        states = (h.requires_grad_(), c.requires_grad_()) if kind == "lstm" else (h.requires_grad_(),)
        assert torch.autograd.gradcheck(
            lambda a, *s: step(a, (s[0], s[len(states) - 1])), (x.requires_grad_(), *states, *cell.parameters())
        )


@needs_cpu
@pytest.mark.parametrize("kind", CELLS)
def test_what_is_not_asked_for_is_not_made(kind: str) -> None:
    cell, (x, h, c, *_) = cell_of(kind, 4, 3, 0), drawn(9, 4, 3, 0)
    made = ours(kind, cell)(x, (h, c))
    made[0].sum().backward()
    assert x.grad is None and h.grad is None and c.grad is None
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in cell.parameters())
    with torch.no_grad():
        assert all(torch.equal(one, other) for one, other in zip(made, ours(kind, cell)(x, (h, c)), strict=True))


@needs_cpu
@pytest.mark.parametrize("kind", CELLS)
def test_any_strides(kind: str) -> None:
    """States that lie by columns, are negated or every other row; a gradient that is one number repeated."""
    cell, tensors = cell_of(kind, 5, 4, 1), drawn(20, 5, 4, 1)
    spread = [
        tensors[0].t().contiguous().t(),
        torch._neg_view(-tensors[1]),
        torch.stack([tensors[2]] * 2, 1).flatten(0, 1)[::2],
    ]
    assert spread[1].is_neg() and not spread[2].is_contiguous()
    leaves = [[part.detach().requires_grad_() for part in parts] for parts in (spread, tensors[:3])]
    found = [ours(kind, cell)(x, (h, c)) for x, h, c in leaves]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
    wanted = [*leaves[0][: 3 if kind == "lstm" else 2], *cell.parameters()]
    others = [*leaves[1][: 3 if kind == "lstm" else 2], *cell.parameters()]
    for one, other in zip(*(torch.autograd.grad(made[0].sum(), of) for made, of in zip(found, (wanted, others), strict=True)), strict=True):
        torch.testing.assert_close(one, other)


@needs_cpu
@pytest.mark.parametrize("kind", CELLS)
def test_the_same_on_any_number_of_threads(kind: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_blocks, "BLOCK_NUMBERS", 1 << 19)
        cell, tensors = cell_of(kind, 48, 64, 2, torch.float32), drawn(6000, 48, 64, 2, torch.float32)
        found = []
        for count in (1, 3):
            set_threads(count)
            found.append(ran(ours(kind, cell), cell, tensors, False))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@needs_cpu
@pytest.mark.parametrize("kind", CELLS)
def test_once(kind: str) -> None:
    cell, (x, h, c, *_) = cell_of(kind, 4, 3, 0), drawn(9, 4, 3, 0)
    into = torch.autograd.grad(ours(kind, cell)(x.requires_grad_(), (h, c))[0].square().sum(), x, create_graph=True)[0]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        into.sum().backward()


@pytest.mark.parametrize(
    "spoilt, words",
    [
        ({"x": torch.zeros(5)}, r"x is torch.float32 \[5\].*expected float32 or float64 \[R, D\]"),
        ({"x": torch.zeros(5, 4, dtype=torch.float16)}, r"x is torch.float16.*expected float32 or float64"),
        ({"h": torch.zeros(4, 3)}, r"h is torch.float32 \[4, 3\].*expected torch.float32 \[5, 3\]"),
        ({"h": torch.zeros(5, 3, dtype=torch.float64)}, r"h is torch.float64.*expected torch.float32 \[5, 3\]"),
        ({"weight_ih": torch.zeros(9, 5)}, r"weight_ih is torch.float32 \[9, 5\].*expected torch.float32 \[9, 4\]"),
        ({"bias_ih": torch.zeros(8)}, r"bias_ih is torch.float32 \[8\].*expected torch.float32 \[9\]"),
        ({"weight_hh": torch.zeros(())}, r"weight_ih is .*expected torch.float32 \[-3, 4\]"),
    ],
)
def test_what_does_not_fit(spoilt: dict[str, Tensor], words: str) -> None:
    weights = CellWeights(torch.zeros(9, 4), torch.zeros(9, 3), torch.zeros(9), torch.zeros(9))
    weights = weights._replace(**{name: tensor for name, tensor in spoilt.items() if name in CellWeights._fields})
    with pytest.raises(UserError, match=f"^gru: {words}"):
        gru(spoilt.get("x", torch.zeros(5, 4)), spoilt.get("h", torch.zeros(5, 3)), weights)


def test_an_lstm_has_four_gates_and_two_states() -> None:
    three = CellWeights(torch.zeros(9, 4), torch.zeros(9, 3), torch.zeros(9), torch.zeros(9))
    with pytest.raises(UserError, match=r"^lstm: weight_ih is torch.float32 \[9, 4\].*expected torch.float32 \[12, 4\]"):
        lstm(torch.zeros(5, 4), None, three)
    four = CellWeights(torch.zeros(12, 4), torch.zeros(12, 3), torch.zeros(12), torch.zeros(12))
    with pytest.raises(UserError, match=r"^lstm: c is torch.float32 \[5, 2\].*expected torch.float32 \[5, 3\]"):
        lstm(torch.zeros(5, 4), (torch.zeros(5, 3), torch.zeros(5, 2)), four)
