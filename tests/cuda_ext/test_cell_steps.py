"""Steps of recurrent cells after their products: against torch's cells and autograd, through indices, on any number of threads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from emulation.builder import compiler, library
from hypothesis import given
from hypothesis import strategies as st
from native_case import PLACES, needs_cpu
from pretended import CUDA, pretended
from profiles import examples
from torch import Tensor

from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.cuda_ext.operators.cell_steps import gru_step, gru_step_grad, lstm_step, lstm_step_grad

pytestmark = pytest.mark.usefixtures("threads")
KINDS = {"lstm": 4, "gru": 3}
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


class Operands:
    """Operands of a step of R rows, drawn at random; `offset`: numbers before each tensor in its memory, which misalign it.

    products [V, G H], from_state [R, G H], h and c [Q, H], read int32 [R] (each row at most once), parent int32 [R] (any), and gradients
    grad_h, grad_c [R, H].
    """

    def __init__(
        self, kind: str, rows: int, hidden: int, seed: int = 0, dtype: torch.dtype = torch.float64, device: str = "cpu", offset: int = 0
    ) -> None:
        self.kind, self.rows, self.hidden, self.offset = kind, rows, hidden, offset
        self._generator = torch.Generator().manual_seed(seed)
        self._like = torch.empty(0, dtype=dtype, device=device)
        gates = KINDS[kind] * hidden
        self.products, self.from_state = self.dense(rows + 3, gates), self.dense(rows, gates)
        self.h, self.c, self.grad_h, self.grad_c = self.dense(rows + 2, hidden), self.dense(rows + 2, hidden), *self._pair(rows, hidden)
        self.read = torch.randperm(rows + 3, generator=self._generator)[:rows].int().to(device)
        self.parent = torch.randint(rows + 2, (rows,), generator=self._generator).int().to(device)

    def _pair(self, rows: int, width: int) -> tuple[Tensor, Tensor]:
        return self.dense(rows, width), self.dense(rows, width)

    def dense(self, rows: int, width: int, fill: float | None = None) -> Tensor:
        """Return normal numbers, or the same everywhere."""
        memory = self._like.new_empty(rows * width + self.offset)
        memory[self.offset :] = torch.randn(rows * width, generator=self._generator, dtype=torch.float64) if fill is None else fill
        return memory[self.offset :].view(rows, width)


def torchs(operands: Operands, read: Tensor, from_state: Tensor | None, state: Tensor | None, parent: Tensor) -> list[Tensor]:
    """Return new state and gradients (of from_state, products, old state) by torch's cell and autograd, row by row.

    The cell's weights are zeros: a row's products are its biases.
    """
    o, width = operands, operands.products.shape[1]
    products = o.products.clone().requires_grad_()
    old = (o.dense(len(parent), o.hidden, 0.0) if state is None else state[parent.long()].clone()).requires_grad_()
    sums = (o.dense(len(parent), width, 0.0) if from_state is None else from_state.clone()).requires_grad_()
    zeros = [o.dense(*shape, fill=0.0) for shape in ((1, 1), (width, 1), (width, o.hidden), (1, o.hidden))]
    outputs = [old[:0], old[:0]][: 1 + (o.kind == "lstm")]
    for row, index in enumerate(read.tolist()):
        weights, before = (*zeros[1:3], products[index], sums[row]), old[row : row + 1]
        new = torch.lstm_cell(zeros[0], (zeros[3], before), *weights) if o.kind == "lstm" else (torch.gru_cell(zeros[0], before, *weights),)
        outputs = [torch.cat(pair) for pair in zip(outputs, new, strict=True)]
    total = sum(((output * grad).sum() for output, grad in zip(outputs, (o.grad_h, o.grad_c), strict=False)), 0 * products[0, 0])
    gradients = torch.autograd.grad(total, [sums, products, old], materialize_grads=True)
    return [*(output.detach() for output in outputs), *gradients]


def ours(
    operands: Operands, read: Tensor | None, from_state: Tensor | None, state: Tensor | None, parent: Tensor | None, backend: str
) -> list[Tensor]:
    """Return the same by the step's own functions."""
    o, out = operands, operands.dense
    saved, new_h = out(o.rows, 4 * o.hidden, torch.nan), out(o.rows, o.hidden, torch.nan)
    to_products, to_state = out(len(o.products), o.products.shape[1], 0.0), out(o.rows, o.products.shape[1], torch.nan)
    to_old = out(o.rows, o.hidden, torch.nan)
    if o.kind == "lstm":
        new_c = out(o.rows, o.hidden, torch.nan)
        lstm_step(o.products, read, from_state, state, parent, saved, new_h, new_c, backend)
        lstm_step_grad(saved, state, parent, new_c, o.grad_h, o.grad_c, read, to_products, to_state, to_old, backend)
        return [new_h, new_c, to_state, to_products, to_old]
    assert from_state is not None
    gru_step(o.products, read, from_state, state, parent, saved, new_h, backend)
    gru_step_grad(saved, state, parent, o.grad_h, read, to_products, to_state, to_old, backend)
    return [new_h, to_state, to_products, to_old]


def agree(mine: list[Tensor], wanted: list[Tensor], dtype: torch.dtype) -> None:
    for one, other in zip(mine, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
@given(
    rows=st.integers(0, 9),
    hidden=st.sampled_from([1, 3, 17, 64, 130]),
    seed=st.integers(0, 99),
    dtype=st.sampled_from(list(TOLERANCE)),
    indexed=st.booleans(),
    first=st.booleans(),
    offset=st.integers(0, 2),
)
@examples(60)
def test_equals_torchs_cell(
    kind: str, place: str, rows: int, hidden: int, seed: int, dtype: torch.dtype, indexed: bool, first: bool, offset: int
) -> None:
    """With and without an index of products and of states, in a first step, with misaligned memory."""
    o = Operands(kind, rows, hidden, seed, dtype, offset=offset)
    state = None if first else o.c if kind == "lstm" else o.h
    from_state = None if first and kind == "lstm" else o.from_state
    every = torch.arange(rows, dtype=torch.int32)
    read, parent = (o.read, o.parent) if indexed else (None, None)
    wanted = torchs(o, o.read if indexed else every, from_state, state, o.parent if indexed else every)
    agree(ours(o, read, from_state, state, parent, place), wanted, dtype)


@pytest.mark.parametrize("hidden", [5, 36])  # numbers alone, and packs of them
@pytest.mark.parametrize("kind", KINDS)
def test_every_backend(backend: str, device: str, kind: str, hidden: int) -> None:
    for dtype, offset in ((torch.float64, 0), (torch.float32, 0), (torch.float32, 1)):
        o = Operands(kind, 11, hidden, 3, dtype, device, offset)
        state = o.c if kind == "lstm" else o.h
        mine = ours(o, o.read, o.from_state, state, o.parent, backend)
        agree(mine, torchs(o, o.read, o.from_state, state, o.parent), dtype)
        without = ours(o, None, o.from_state, None, None, backend)
        every = torch.arange(11, dtype=torch.int32, device=device)
        agree(without, torchs(o, every, o.from_state, None, every), dtype)


@pytest.mark.parametrize("kind", KINDS)
def test_products_that_several_steps_share_add_up_their_gradients(backend: str, device: str, kind: str) -> None:
    """Three steps of all rows read the same few products; a row has one of them in each step, and another in the next."""
    o = Operands(kind, 3, 4, 1, device=device)
    leaf, total = o.products.clone().requires_grad_(), o.dense(*o.products.shape, fill=0.0)
    reads = [torch.tensor(index, dtype=torch.int32, device=device) for index in ([0, 1, 2], [2, 0, 1], [5, 0, 2])]
    wanted = torch.zeros_like(total)
    for read in reads:
        part = torchs(o, read, o.from_state, None, read)
        wanted += part[-2]
        mine = [o.dense(3, 4 * o.hidden), o.dense(3, o.hidden), o.dense(3, o.hidden), o.dense(3, o.products.shape[1])]
        if kind == "lstm":
            lstm_step(leaf.detach(), read, o.from_state, None, None, *mine[:3], backend)
            lstm_step_grad(mine[0], None, None, mine[2], o.grad_h, o.grad_c, read, total, mine[3], None, backend)
        else:
            gru_step(leaf.detach(), read, o.from_state, None, None, *mine[:2], backend)
            gru_step_grad(mine[0], None, None, o.grad_h, read, total, mine[3], None, backend)
    torch.testing.assert_close(total, wanted, rtol=1e-12, atol=1e-12)
    assert not total[3:5].any() and total[5].any()


def test_an_lstm_in_place(backend: str, device: str) -> None:
    """Gates take the memory of the products, and gradients that of the gates."""
    o = Operands("lstm", 7, 6, 2, device=device)
    apart = ours(o, None, o.from_state, o.c, o.parent, backend)
    memory, new_h, new_c, to_old = o.from_state.clone(), *(o.dense(7, 6) for _ in range(3))
    lstm_step(o.products, None, memory, o.c, o.parent, memory, new_h, new_c, backend)
    lstm_step_grad(memory, o.c, o.parent, new_c, o.grad_h, o.grad_c, None, None, memory, to_old, backend)
    same = [new_h, new_c, memory, to_old]
    assert all(torch.equal(one, other) for one, other in zip(same, [*apart[:3], apart[4]], strict=True))
    sums = o.products[:7] + o.from_state
    separate, products = [o.dense(7, 24), o.dense(7, 6), o.dense(7, 6)], sums.clone()
    lstm_step(sums, None, None, o.c, None, *separate, backend)
    lstm_step(products, None, None, o.c, None, products, new_h, new_c, backend)
    assert all(torch.equal(one, other) for one, other in zip([products, new_h, new_c], separate, strict=True))


def test_gradients_of_an_lstm_that_are_not_wanted(backend: str, device: str) -> None:
    """No gradient of the new memory counts as zeros; the others are the same without those of products and of the old memory."""
    o = Operands("lstm", 7, 6, 2, device=device)
    o.grad_c.zero_()
    wanted = ours(o, o.read, o.from_state, o.c, o.parent, backend)
    gates, new_h, new_c, to_state = o.dense(7, 24), o.dense(7, 6), o.dense(7, 6), o.dense(7, 24)
    lstm_step(o.products, o.read, o.from_state, o.c, o.parent, gates, new_h, new_c, backend)
    lstm_step_grad(gates, o.c, o.parent, new_c, o.grad_h, None, o.read, None, to_state, None, backend)
    assert torch.equal(to_state, wanted[2])


def test_gradients_of_a_gru_that_are_not_wanted_or_written(backend: str, device: str) -> None:
    o = Operands("gru", 7, 6, 2, device=device)
    _, to_state, to_products, _ = ours(o, o.read, o.from_state, o.h, o.parent, backend)
    saved, new_h, alone, written = o.dense(7, 24), o.dense(7, 6), o.dense(7, 18), o.dense(10, 18, 5.0)
    gru_step(o.products, o.read, o.from_state, o.h, o.parent, saved, new_h, backend)
    gru_step_grad(saved, o.h, o.parent, o.grad_h, o.read, None, alone, None, backend)
    assert torch.equal(alone, to_state)
    gru_step_grad(saved, o.h, o.parent, o.grad_h, o.read, written, alone, None, backend, add=False)
    assert torch.equal(written[o.read.long()], to_products[o.read.long()])
    others = torch.ones(10, dtype=torch.bool, device=device)
    others[o.read.long()] = False
    assert (written[others] == 5).all()


def test_a_gru_whose_rows_share_one_row_of_the_states_products(backend: str, device: str) -> None:
    o = Operands("gru", 7, 6, 2, device=device)
    bias = o.from_state[2].clone()
    each = Operands("gru", 7, 6, 2, device=device)
    each.from_state = bias.expand(7, -1).contiguous()
    shared, repeated = ours(o, o.read, bias, None, None, backend), ours(each, o.read, each.from_state, None, None, backend)
    for result, expected in zip(shared[0:1] + shared[2:], repeated[0:1] + repeated[2:], strict=True):
        assert torch.equal(result, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf, 1e4, -1e4])
def test_extremes(backend: str, device: str, kind: str, value: float) -> None:
    """NaN stays NaN and spreads to no other number; gates of what is infinite or large are shut or open, as torch's."""
    for dtype in TOLERANCE:
        for gate in range(KINDS[kind]):
            o = Operands(kind, 2, 20, gate, dtype, device)
            o.products[0, gate * 20 + 3] = value
            state, every = o.c if kind == "lstm" else o.h, torch.arange(2, dtype=torch.int32, device=device)
            mine = ours(o, None, o.from_state, state, None, backend)
            wanted = torchs(o, every, o.from_state, state, every)
            new = 2 if kind == "lstm" else 1
            for one, other in zip(mine[:new], wanted[:new], strict=True):
                torch.testing.assert_close(one, other, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], equal_nan=True)
            assert mine[0][0].isnan().sum() == (1 if value != value else 0) and not mine[0][1].isnan().any()
            if value == value:
                agree(mine[new:], wanted[new:], dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1e-4, 0.1, 0.3, 3.0, 40.0])
def test_float32_is_as_near_as_torchs_cell(backend: str, device: str, kind: str, size: float) -> None:
    exact = Operands(kind, 60, 20, 5, device=device)
    single = Operands(kind, 60, 20, 5, torch.float32, device)
    for name in ("products", "from_state"):
        setattr(single, name, (size * getattr(single, name)))
        setattr(exact, name, getattr(single, name).double())
    for name in ("h", "c", "grad_h", "grad_c"):
        setattr(exact, name, getattr(single, name).double())
    state = "c" if kind == "lstm" else "h"
    right = torchs(exact, exact.read, exact.from_state, getattr(exact, state), exact.parent)
    others = torchs(single, single.read, single.from_state, getattr(single, state), single.parent)
    mine = ours(single, single.read, single.from_state, getattr(single, state), single.parent, backend)
    for one, other, true in zip(mine, others, right, strict=True):
        assert (one - true).abs().max() <= 4 * (other - true).abs().max() + 2e-7


@pytest.mark.skipif(compiler() is None, reason="the kernels are emulated, which needs a C++ compiler")
@pytest.mark.parametrize("kind", KINDS)
def test_a_pretended_gpu_minds_nothing(kind: str, emulation: None) -> None:
    o = Operands(kind, 11, 36, dtype=torch.float32)
    state = o.c if kind == "lstm" else o.h
    wanted = torchs(o, o.read, o.from_state, state, o.parent)
    with pretended(library()) as findings:
        for name in ("products", "from_state", "h", "c", "grad_h", "grad_c", "read", "parent", "_like"):
            setattr(o, name, getattr(o, name).to(CUDA))
        mine = ours(o, o.read, o.from_state, o.c if kind == "lstm" else o.h, o.parent, "cuda")
        mine = [part.cpu() for part in mine]
    assert not findings, str(findings)
    agree(mine, wanted, torch.float32)


@needs_cpu
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_on_any_number_of_threads(kind: str) -> None:
    o = Operands(kind, 1500, 70, dtype=torch.float32)
    results = []
    for count in (1, 2, 8):
        set_threads(count)
        results.append(ours(o, o.read, o.from_state, o.c, o.parent, "cpu"))
    assert all(torch.equal(one, other) for others in results[1:] for one, other in zip(results[0], others, strict=True))


@needs_cpu
def test_nothing_is_written_without_rows() -> None:
    steps: dict[str, Callable[[Operands], list[Tensor]]] = {
        kind: lambda o: ours(o, o.read, o.from_state, o.c, o.parent, "cpu") for kind in KINDS
    }
    for kind, step in steps.items():
        assert not any(part.any() for part in step(Operands(kind, 0, 4)))
