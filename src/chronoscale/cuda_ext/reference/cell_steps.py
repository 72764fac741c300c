"""Reference of the steps of recurrent cells in plain torch: an LSTM's and a GRU's after their products, and their gradients by hand.

Operands are those of `operators.cell_steps`.
"""

from __future__ import annotations

import torch
from torch import Tensor


def lstm_step(
    products: Tensor,
    read: Tensor | None,
    from_state: Tensor | None,
    c: Tensor | None,
    parent: Tensor | None,
    gates: Tensor,
    new_h: Tensor,
    new_c: Tensor,
) -> None:
    """Write an LSTM's gates [R, 4 H] and new state (h, c), [R, H] each, by torch's operators (`operators.cell_steps.lstm_step`)."""
    rows = _rows(products, read, len(new_h))
    sums = rows if from_state is None else rows + from_state
    i, f, g, o = sums.chunk(4, 1)
    torch.cat([i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()], 1, out=gates)
    i, f, g, o = gates.chunk(4, 1)
    new_c.copy_(i * g if c is None else f * _rows(c, parent, len(new_h)) + i * g)
    new_h.copy_(o * new_c.tanh())


def lstm_step_grad(
    gates: Tensor,
    c: Tensor | None,
    parent: Tensor | None,
    new_c: Tensor,
    grad_h: Tensor,
    grad_c: Tensor | None,
    read: Tensor | None,
    grad_products: Tensor | None,
    grad_from_state: Tensor,
    grad_old_c: Tensor | None,
) -> None:
    """Write the gradients of an LSTM's step by torch's operators (`operators.cell_steps.lstm_step_grad`)."""
    i, f, g, o = gates.chunk(4, 1)
    shown = new_c.tanh()
    memory = grad_h * o * (1 - shown * shown)
    if grad_c is not None:
        memory = memory + grad_c
    to_forget = torch.zeros_like(memory) if c is None else memory * _rows(c, parent, len(gates)) * f * (1 - f)
    to_memory = memory * f
    parts = [memory * g * i * (1 - i), to_forget, memory * i * (1 - g * g), grad_h * shown * o * (1 - o)]
    torch.cat(parts, 1, out=grad_from_state)
    if grad_products is not None:
        _add(grad_products, read, grad_from_state)
    if grad_old_c is not None:
        grad_old_c.copy_(to_memory)


def gru_step(
    products: Tensor, read: Tensor | None, from_state: Tensor, h: Tensor | None, parent: Tensor | None, saved: Tensor, new_h: Tensor
) -> None:
    """Write a GRU's new state [R, H], and what its gradient needs, by torch's operators (`operators.cell_steps.gru_step`)."""
    for_reset, for_update, for_candidate = _rows(products, read, len(new_h)).chunk(3, 1)
    state_reset, state_update, state_candidate = from_state.expand(len(new_h), -1).chunk(3, 1)
    r, z = (for_reset + state_reset).sigmoid(), (for_update + state_update).sigmoid()
    n = (for_candidate + r * state_candidate).tanh()
    torch.cat([r, z, n, state_candidate], 1, out=saved)
    new_h.copy_(n - z * n if h is None else n + z * (_rows(h, parent, len(n)) - n))


def gru_step_grad(
    saved: Tensor,
    h: Tensor | None,
    parent: Tensor | None,
    grad_out: Tensor,
    read: Tensor | None,
    grad_products: Tensor | None,
    grad_from_state: Tensor,
    grad_h: Tensor | None,
    add: bool,
) -> None:
    """Write the gradients of a GRU's step by torch's operators (`operators.cell_steps.gru_step_grad`)."""
    r, z, n, state_candidate = saved.chunk(4, 1)
    to_candidate = grad_out * (1 - z) * (1 - n * n)
    to_reset = to_candidate * state_candidate * r * (1 - r)
    to_update = grad_out * ((0 if h is None else _rows(h, parent, len(n))) - n) * z * (1 - z)
    torch.cat([to_reset, to_update, to_candidate * r], 1, out=grad_from_state)
    if grad_products is not None:
        to_products = torch.cat([to_reset, to_update, to_candidate], 1)
        if add:
            _add(grad_products, read, to_products)
        else:
            grad_products[slice(len(saved)) if read is None else read.long()] = to_products
    if grad_h is not None:
        torch.mul(grad_out, z, out=grad_h)


def _rows(table: Tensor, index: Tensor | None, count: int) -> Tensor:
    """Return the rows of a table that an index names; None: the first `count`."""
    return table[:count] if index is None else table.index_select(0, index)


def _add(table: Tensor, index: Tensor | None, rows: Tensor) -> None:
    """Add rows to those of a table that an index names; None: to the first ones."""
    if index is None:
        table[: len(rows)] += rows
    else:
        table.index_add_(0, index, rows)
