"""Moved: bytes of single operations, by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from emulation.stand_in import emulated
from torch import Tensor, nn

from chronoscale.cuda_ext.operators.aggregation import aggregate
from chronoscale.cuda_ext.operators.cell_steps import gru_step, gru_step_grad, lstm_step, lstm_step_grad
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.real_exec.measurement.kernels import KernelCounter

R, K, N = 10, 6, 4  # rows; widths
IDS = torch.tensor([1, 3, 3], dtype=torch.int64)


def moved(run: Callable[[], Any]) -> int:
    with KernelCounter() as counter:
        run()
    return counter.bytes


A, B, C, BIAS = torch.randn(R, K), torch.randn(K, N), torch.randn(R, K), torch.randn(N)


@pytest.mark.parametrize(
    ("run", "numbers"),
    [
        (lambda: A @ B, R * K + K * N + R * N),
        (lambda: torch.addmm(BIAS, A, B), N + R * K + K * N + R * N),
        (lambda: A + C, 3 * R * K),
        (lambda: A.clone().add_(C), 5 * R * K),  # a copy; then both are read, and one is written
        (lambda: A * A, 2 * R * K),  # one operand, once
        (lambda: A + A[:, :1].expand(R, K), 2 * R * K + R),  # what is expanded lies there once
        (lambda: A.t(), 0),
        (lambda: A.view(-1), 0),
        (lambda: torch.empty(R, K), 0),
        (lambda: torch.empty(R, K).fill_(1), R * K),
        (lambda: A.new_zeros(R, K), R * K),
        (lambda: torch.empty(R, K).copy_(A), 2 * R * K),
        (lambda: A.sum(0), R * K + K),
        (lambda: A[IDS], 2 * 3 * K + 2 * 3),  # rows that are picked, and 8 bytes an id
        (lambda: A.index_select(0, IDS), 2 * 3 * K + 2 * 3),
        (lambda: torch.empty(R, K).index_copy_(0, IDS[:2], C[:2]), 2 * 2 * K + 2 * 2),
        (lambda: A.index_copy(0, IDS[:2], C[:2]), 2 * R * K + 2 * 2 * K + 2 * 2),
        (lambda: torch.empty(R, K).index_add_(0, IDS, C[:3]), 3 * 3 * K + 2 * 3),
        (lambda: torch.cat([A, C], 1), 4 * R * K),
        (lambda: torch.add(A, C, out=torch.empty(R, K)), 3 * R * K),
    ],
)  # fmt: skip
def test_an_operation_reads_its_operands_and_writes_its_results(run: Callable[[], Any], numbers: int) -> None:
    assert moved(run) == 4 * numbers


def test_dropout_writes_a_mask() -> None:
    assert moved(lambda: nn.functional.dropout(A, 0.5)) == 4 * 2 * R * K + R * K
    assert moved(lambda: nn.functional.dropout(A, 0.5, training=False)) == 0


@pytest.mark.parametrize(
    ("kind", "forward", "backward"), [("lstm", 7 + 8 + 2 * 5, 7 + 10 + 2 * 10), ("gru", 7 + 6 + 2 * 4, 6 + 13 + 2 * 8 + 3)]
)
def test_a_step_of_a_cell(kind: str, forward: int, backward: int) -> None:
    """Numbers a row, of width H. An LSTM forwards: two products (H + 4 H each) and the fused kernel, which reads 8 H of gates and the cell
    and writes 4 H of gates, the cell and the state. Backwards: four products (5 H each), the fused kernel (gradients 2 H, cells 2 H, gates
    4 H; gates 4 H and the cell H) and the sum of 4 H for the bias. A GRU has 3 H of gates and
    keeps 5 H; its state's gradient comes from two sides, which are added."""
    rows, width = 512, 8
    cell = (nn.LSTMCell if kind == "lstm" else nn.GRUCell)(width, width)
    x, h, c = (torch.randn(rows, width, requires_grad=True) for _ in range(3))
    gates = (4 if kind == "lstm" else 3) * width
    weights = 2 * gates * width

    def step() -> Any:
        return torch.lstm_cell(x, (h, c), *cell.parameters()) if kind == "lstm" else torch.gru_cell(x, h, *cell.parameters())

    with KernelCounter() as counter:
        built = step()
    assert counter.bytes == 4 * (rows * width * forward + weights + 2 * gates)
    outputs = list(built) if isinstance(built, tuple) else [built]
    arguments, into = [x, h, c] if kind == "lstm" else [x, h], [torch.ones_like(part) for part in outputs]
    with (
        KernelCounter() as counter
    ):  # not the one of the forward pass: what the emulation of the fused kernel itself dispatches counts nowhere
        torch.autograd.grad(outputs, [*arguments, *cell.parameters()], into)
    assert counter.count == (6 if kind == "lstm" else 8)
    assert counter.bytes == 4 * (rows * width * backward + 2 * weights)


def test_steps_of_cells_move_their_operands_once() -> None:
    """Numbers a row, of width H. An LSTM: products and state 4 H each, memory H, gates 4 H, memory and state written; backwards gates 4 H,
    memories and gradients 2 H each, 4 H written, as many of the products read and written, and H of the memory. A GRU likewise.
    """
    tensor = lambda times, rows=R: torch.zeros(rows, times * K)  # noqa: E731
    read = torch.arange(R, dtype=torch.int32)
    with_all = lstm_step, (tensor(4, 20), read, tensor(4), tensor(1, 20), read, tensor(4), tensor(1), tensor(1))
    required = lstm_step, (tensor(4), None, None, None, None, tensor(4), tensor(1), tensor(1))
    backwards = (
        lstm_step_grad,
        (tensor(4), tensor(1), read, tensor(1), tensor(1), tensor(1), read, tensor(4, 20), tensor(4), tensor(1)),
    )
    first = gru_step, (tensor(3), None, torch.zeros(3 * K), None, None, tensor(4), tensor(1))
    gru_backwards = gru_step_grad, (tensor(4), tensor(1), None, tensor(1), None, tensor(3), tensor(3), tensor(1))
    with emulated():
        for (step, operands), numbers, ids in (
            (with_all, 4 + 4 + 1 + 4 + 2, 2),
            (required, 4 + 4 + 2, 0),
            (backwards, 4 + 2 + 2 + 4 + 8 + 1, 2),
            (first, 3 + 4 + 1, 0),
            (gru_backwards, 4 + 1 + 1 + 3 + 6 + 1, 0),
        ):
            assert moved(lambda step=step, operands=operands: step(*operands)) == 4 * R * (numbers * K + ids)  # type: ignore[misc]


def test_our_kernels_read_a_row_for_every_edge() -> None:
    indptr, indices = torch.tensor([0, 2, 2, 5]), torch.tensor([0, 2, 1, 1, 0], dtype=torch.int32)
    values, x = torch.ones(5), torch.randn(3, K)
    for weights, each in ((values, 8), (None, 4)):
        graph = CSR(indptr, indices, weights, 3).check()
        with emulated():
            assert moved(lambda graph=graph: aggregate(graph, x)) == 3 * (8 + 4 * K) + 5 * (each + 4 * K)  # type: ignore[misc]


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_a_sparse_product_moves_as_much() -> None:
    sparse = torch.sparse_csr_tensor(torch.arange(9), torch.arange(8), torch.ones(8), (8, 8), check_invariants=False)
    x: Tensor = torch.randn(8, K)
    assert moved(lambda: sparse @ x) == 9 * 8 + 8 * (8 + 4) + 2 * 8 * K * 4


def test_a_step_of_adam() -> None:
    """Pass by pass: lerp 3, mul 2, addcmul 3, sqrt 2, div 2, add 2, addcdiv 4 numbers a parameter, and the gradient is zeroed."""
    parameter = nn.Parameter(torch.randn(1000))
    parameter.grad = torch.randn(1000)
    together, fused = (torch.optim.Adam([parameter], **{how: True}) for how in ("foreach", "fused"))
    for optimizer, passes in ((together, 18), (fused, 7)):
        optimizer.step()
        assert moved(optimizer.step) == pytest.approx(4 * 1000 * passes, abs=16)
