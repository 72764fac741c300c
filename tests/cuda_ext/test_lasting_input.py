"""Steps of cells whose input stays, against torch's cells."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from chronoscale.cuda_ext.operators.cell_weights import CellWeights
from chronoscale.cuda_ext.operators.lasting_input import LastingInput
from chronoscale.errors import UserError


def _steps(cell: nn.Module, x: Tensor, count: int, ours: bool, backend: str | None = None) -> list[Tensor]:
    """The hidden states of some steps."""
    lasting = LastingInput(x, CellWeights.of(cell), backend) if ours else None  # type: ignore[arg-type]
    state, found = None, []
    for _ in range(count):
        if lasting:
            state = lasting.step(state)
        elif isinstance(cell, nn.LSTMCell):
            state = cell(x, state)
        else:
            state = (cell(x, None if state is None else state[0]),) * 2
        found.append(state[0])
    return found


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell])
@pytest.mark.parametrize(
    ("rows", "width", "steps", "backend"), [(1, 3, 2, None), (40, 5, 4, "reference"), (9000, 20, 3, None), (0, 4, 2, None)]
)
def test_it_equals_torchs_cell(kind: type[nn.Module], rows: int, width: int, steps: int, backend: str | None) -> None:
    torch.manual_seed(rows)
    cell = kind(width, width).double()
    x = torch.randn(rows, width, dtype=torch.float64)
    weight = torch.randn(steps, rows, width, dtype=torch.float64)
    results = []
    for ours in (False, True):
        cell.zero_grad()
        given = x.clone().requires_grad_()
        states = _steps(cell, given, steps, ours, backend)
        (torch.stack(states[1:]) * weight[1:]).sum().backward()  # the first is read by the second alone
        results.append([*states, given.grad, *(parameter.grad for parameter in cell.parameters())])
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11 * max(rows, 1))


def test_a_step_without_a_reader_takes_no_part() -> None:
    cell, x = nn.LSTMCell(4, 4).double(), torch.randn(6, 4, dtype=torch.float64)
    expected, found = (x.clone().requires_grad_() for _ in range(2))
    _steps(cell, expected, 2, False)[1].sum().backward()
    _steps(cell, found, 4, True)[1].sum().backward()
    torch.testing.assert_close(found.grad, expected.grad, rtol=1e-12, atol=1e-12)


def test_weights_that_do_not_fit_are_refused() -> None:
    cell = nn.RNNCell(4, 4)
    with pytest.raises(UserError, match="3 or 4 gates"):
        LastingInput(torch.zeros(2, 4), CellWeights.of(cell))
    with pytest.raises(UserError, match="weight_ih"):
        LastingInput(torch.zeros(2, 3), CellWeights.of(nn.LSTMCell(4, 4)))
