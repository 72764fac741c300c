"""Steps of an LSTM take less time on a CPU with one kernel for what follows their products than before; those of a GRU gain little.

`ours` are `lstm` and `gru` as models call them. `before`: the same blocks of rows, an LSTM's gates by torch's operators, a GRU's by the
kernel `gates` and by torch's operators that keep what its gradient needs. `torch`: its own cell. Inputs are as wide as states; a state is
there, and everything asks for a gradient. `products`: what no step can spare, its two matrix products forward, four backward, in the same
blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import torch
from core.case import Case, Subject
from core.turns import Call
from rivals.cells import GatesGru, TorchLstm
from setups.graphs import assert_equal, keep_memory, normal
from torch import Tensor

from chronoscale.cuda_ext.operators.cell_weights import CellWeights
from chronoscale.cuda_ext.operators.gru import gru
from chronoscale.cuda_ext.operators.lstm import lstm
from chronoscale.cuda_ext.operators.row_blocks import longest_block, row_blocks

Form = Callable[[], tuple[Tensor, ...]]


def lstm_forms(x: Tensor, h: Tensor, c: Tensor, weights: CellWeights) -> dict[str, Form]:
    """Return an LSTM's step by contestant."""
    return {
        "ours": lambda: lstm(x, (h, c), weights),
        "before": lambda: TorchLstm.apply(x, h, c, *weights),
        "torch": lambda: torch.lstm_cell(x, (h, c), *weights),
    }


def gru_forms(x: Tensor, h: Tensor, weights: CellWeights) -> dict[str, Form]:
    """Return a GRU's step by contestant."""
    return {
        "ours": lambda: (gru(x, h, weights),),
        "before": lambda: (GatesGru.apply(x, h, *weights),),
        "torch": lambda: (torch.gru_cell(x, h, *weights),),
    }


def products(x: Tensor, h: Tensor, weights: CellWeights, backward: bool) -> Call:
    """Return the matrix products of a step: of input and state with their weights, or of gradients with both."""
    x, h, input_weight, state_weight = (part.detach() for part in (x, h, *weights[:2]))
    width = len(input_weight)
    gates = normal("cpu", longest_block(len(x), width), width)
    gradients = [
        (rows, weight, torch.empty_like(rows), torch.zeros_like(weight.t())) for rows, weight in ((x, input_weight), (h, state_weight))
    ]

    def forward() -> None:
        for block in row_blocks(len(x), width):
            part = torch.mm(x[block], input_weight.t(), out=gates[: block.stop - block.start])
            part.addmm_(h[block], state_weight.t())

    def backwards() -> None:
        for block in row_blocks(len(x), width):
            part = gates[: block.stop - block.start]
            for rows, weight, to_rows, to_weight in gradients:
                torch.mm(part, weight, out=to_rows[block])
                torch.mm(rows[block].t(), part, out=to_weight)

    return backwards if backward else forward


def setup(cell: str, rows: int, width: int, done: str) -> dict[str, Call]:
    """Return calls of one step, forward or backward."""
    keep_memory()
    torch.manual_seed(rows)
    module = torch.nn.LSTMCell(width, width) if cell == "lstm" else torch.nn.GRUCell(width, width)
    weights = CellWeights.of(module)
    x, h, c = (normal("cpu", rows, width, seed=seed).requires_grad_() for seed in (1, 2, 3))
    leaves = [x, h, *([c] if cell == "lstm" else []), *weights]
    forms = lstm_forms(x, h, c, weights) if cell == "lstm" else gru_forms(x, h, weights)
    into = [normal("cpu", rows, width, seed=seed) for seed in (4, 5)][: 1 + (cell == "lstm")]
    expected = [*(outputs := forms["torch"]()), *torch.autograd.grad(outputs, leaves, into)]
    calls: dict[str, Call] = {}
    for who, form in forms.items():
        outputs = form()
        gradients = partial(torch.autograd.grad, outputs, leaves, into, retain_graph=True)
        for result, wanted in zip([*outputs, *gradients()], expected, strict=True):
            assert_equal(who, result, wanted)
        calls[who] = form if done == "forward" else gradients
    return {**calls, "products": products(x, h, weights, done == "backward")}


def cases(quick: bool) -> Iterator[Case]:
    """Yield cells by rows, width and pass."""
    sizes = ((20,), (8,)) if quick else ((1_000, 25_000, 170_000), (64, 128))
    for given in product(("lstm", "gru"), *sizes, ("forward", "backward")):
        yield Case.timed(dict(zip(("cell", "rows", "width", "pass"), given, strict=True)), partial(setup, *given))


SUBJECT = Subject(cases, 9)
