"""Steps of an LSTM and of a GRU after their products (torch's cells, without its matrix products), forward and backward, one pass each.

Rows may be read through an index, so that a product that several rows or steps share is computed once. All tensors are float32 or float64
alike, contiguous, on one device; nothing is checked. H is the width of a state, R the rows of a step; V and Q are any numbers of rows.
"""

from __future__ import annotations

from torch import Tensor

from chronoscale.cuda_ext.native import abi
from chronoscale.cuda_ext.native.abi import CudaLaunch, EntryLayout, pointer
from chronoscale.cuda_ext.native.backend import BackendName, select_kernels
from chronoscale.cuda_ext.reference import aggregation as aggregation_reference
from chronoscale.cuda_ext.reference import cell_steps as reference


def lstm_step(
    products: Tensor,
    read: Tensor | None,
    from_state: Tensor | None,
    c: Tensor | None,
    parent: Tensor | None,
    gates: Tensor,
    new_h: Tensor,
    new_c: Tensor,
    backend: BackendName = None,
) -> None:
    """Write an LSTM's gates [R, 4 H], after their activations, and new state (h, c), [R, H] each, from the products of its input and state.

        i, f, g, o = products[read] + from_state
        gates = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)
        new_c = f * c[parent] + i * g
        new_h = o * tanh(new_c)

    products [V, 4 H]: of the input, with all biases. read int32 [R]: a row's row of them; None: its own. from_state [R, 4 H]: products of
    the state; None: zeros. c [Q, H]; None: zeros. parent int32 [R]: a row's row of c; None: its own. gates may be the memory of from_state,
    and of products where read is None.
    """
    if _runs_on_reference(new_h, backend):
        return reference.lstm_step(products, read, from_state, c, parent, gates, new_h, new_c)
    return _call("lstm_step", new_h, *map(pointer, (products, read, from_state, c, parent, gates, new_h, new_c)))


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
    backend: BackendName = None,
) -> None:
    """Write the gradients of an LSTM's step from those of its new state, grad_h [R, H] and grad_c [R, H] (None: zeros).

    gates, c, parent, new_c, read: of `lstm_step`. Gradients before the activations are written to grad_from_state [R, 4 H], which may be
    the memory of gates; a row's are added to row read[r] of grad_products [V, 4 H] (None: not wanted), where no two rows of a call may have
    the same read[r]. grad_old_c [R, H]: where the gradient of c[parent[r]] is written, a row for each r, for the caller to add up; None:
    not wanted.
    """
    operands = (gates, c, parent, new_c, grad_h, grad_c, read, grad_products, grad_from_state, grad_old_c)
    if _runs_on_reference(new_c, backend):
        return reference.lstm_step_grad(*operands)
    return _call("lstm_step_grad", new_c, *map(pointer, operands))


def gru_step(
    products: Tensor,
    read: Tensor | None,
    from_state: Tensor,
    h: Tensor | None,
    parent: Tensor | None,
    saved: Tensor,
    new_h: Tensor,
    backend: BackendName = None,
) -> None:
    """Write a GRU's new state [R, H], and what its gradient needs, from the products of its input and state.

        r, z = sigmoid(products[read] + from_state)
        n = tanh(products_n[read] + r * from_state_n)
        new_h = n + z * (h[parent] - n)

    products [V, 3 H], read, parent: as in `lstm_step`; products hold the input's bias alone. from_state [R, 3 H]: products of the state
    with its bias; [3 H]: the same for all rows, as in a first step. h [Q, H]; None: zeros. saved [R, 4 H]: r, z, n and from_state_n.
    """
    if _runs_on_reference(new_h, backend):
        return reference.gru_step(products, read, from_state, h, parent, saved, new_h)
    stride = from_state.shape[1] if from_state.dim() == 2 else 0
    inputs = (*map(pointer, (products, read, from_state)), stride, *map(pointer, (h, parent)))
    return _call("gru_step", new_h, *inputs, saved.data_ptr(), new_h.data_ptr())


def gru_step_grad(
    saved: Tensor,
    h: Tensor | None,
    parent: Tensor | None,
    grad_out: Tensor,
    read: Tensor | None,
    grad_products: Tensor | None,
    grad_from_state: Tensor,
    grad_h: Tensor | None,
    backend: BackendName = None,
    add: bool = True,
) -> None:
    """Write the gradients of a GRU's step from that of its new state, grad_out [R, H].

    saved, h, parent, read: of `gru_step`. Written are the gradient of each row's from_state, grad_from_state [R, 3 H], and, unless None,
    that of h[parent[r]] through z alone, grad_h [R, H], a row for each r. A row's gradient of products is added (add False: written) to row
    read[r] of grad_products [V, 3 H] (None: not wanted), where no two rows of a call may have the same read[r].
    """
    if _runs_on_reference(grad_out, backend):
        return reference.gru_step_grad(saved, h, parent, grad_out, read, grad_products, grad_from_state, grad_h, add)
    inputs = map(pointer, (saved, h, parent, grad_out, read))
    return _call("gru_step_grad", grad_out, *inputs, int(add), *map(pointer, (grad_products, grad_from_state, grad_h)))


def _runs_on_reference(x: Tensor, backend: BackendName) -> bool:
    """Return whether torch's operators compute the step, for want of kernels on the tensors' device or by the backend's name."""
    return select_kernels(x.device, backend) is aggregation_reference


def _call(name: str, state: Tensor, *arguments: int | None) -> None:
    """Run a step's kernel on the device of a state [R, H]."""
    abi.call(name, state, (*state.shape, *arguments), CudaLaunch((), EntryLayout(0, 0)))
