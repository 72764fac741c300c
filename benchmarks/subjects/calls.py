"""A call of an operator in C++ costs its host less than one by ctypes: operands so small that a kernel takes none of it.

Microseconds of one thread's processor time: without gradients (`plain`), with them asked for (`graded`), forward and backward (`both`).
Rival: ctypes, as every call went before; torch.mm beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import Any

import torch
from core.case import Case, Subject
from core.turns import Call
from setups.graphs import assert_equal
from torch import Tensor

from chronoscale.cuda_ext.native import cpp_operators
from chronoscale.cuda_ext.operators.aggregation import aggregate, increment
from chronoscale.cuda_ext.operators.edge_softmax import edge_softmax
from chronoscale.cuda_ext.operators.edges import aggregate_edges
from chronoscale.cuda_ext.operators.encoding import encode
from chronoscale.cuda_ext.operators.gates import gates
from chronoscale.cuda_ext.operators.graph import CSR, Delta
from chronoscale.cuda_ext.operators.slots import Slots, attend
from chronoscale.cuda_ext.operators.tables import gather_rows
from chronoscale.errors import UserError

ROWS, WIDTH = 8, 8


def leaf(*size: int) -> Tensor:
    """Return a drawn tensor that wants a gradient."""
    return torch.rand(*size).requires_grad_()


def operators() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Return every operator and what it is given."""
    pointer, ids = torch.arange(0, 2 * ROWS + 1, 2), torch.randint(0, ROWS, (2 * ROWS,), dtype=torch.int32)
    graph, edges = CSR(pointer, ids, None, ROWS), ids.sort().values
    change = Delta(torch.arange(2, dtype=torch.int32), pointer[:3], ids[:4], torch.ones(4), ROWS, ROWS)
    slots = Slots(torch.randint(0, ROWS, (ROWS, 2)), torch.ones(ROWS, 2, dtype=torch.bool), torch.rand(ROWS, 2), None)
    clock = leaf(WIDTH), leaf(WIDTH)
    return {
        "torch.mm": (torch.mm, (leaf(ROWS, WIDTH), leaf(WIDTH, WIDTH))),
        "aggregate": (aggregate, (graph, leaf(ROWS, WIDTH))),
        "increment": (increment, (leaf(ROWS, WIDTH), change, leaf(ROWS, WIDTH))),
        "attend": (attend, (leaf(ROWS, 1, 2 * WIDTH), leaf(ROWS, WIDTH), slots, clock)),
        "gates": (gates, (leaf(ROWS, 3 * WIDTH), leaf(ROWS, 3 * WIDTH), leaf(ROWS, WIDTH), torch.ones(ROWS, dtype=torch.bool))),
        "encode": (encode, (torch.rand(ROWS), *clock)),
        "aggregate_edges": (aggregate_edges, (leaf(2 * ROWS, WIDTH), edges, ROWS)),
        "gather_rows": (gather_rows, (leaf(ROWS, WIDTH), leaf(ROWS, WIDTH), ids)),
        "edge_softmax": (edge_softmax, (leaf(2 * ROWS, 1), pointer)),
    }


@contextmanager
def by_ctypes() -> Iterator[None]:
    """Call kernels by ctypes within."""
    original = cpp_operators.load_operators
    cpp_operators.load_operators = lambda: None  # type: ignore[assignment]
    try:
        yield
    finally:
        cpp_operators.load_operators = original


def setup(name: str, what: str, loops: int) -> dict[str, Call]:
    """Return calls of one operator by both ways; a call is one of `loops`, so that the way is chosen once. Raises UserError without C++."""
    if cpp_operators.load_operators() is None:
        raise UserError("the operators in C++ are not compiled: chronoscale compile")
    operator, given = operators()[name]
    leaves = [part for part in (*given, *(given[3] if name == "attend" else ())) if isinstance(part, Tensor) and part.requires_grad]

    def result() -> Tensor:
        made = operator(*given)
        return made[0] if isinstance(made, tuple) else made  # type: ignore[no-any-return]

    into = torch.ones_like(result())

    def loop() -> None:
        with torch.set_grad_enabled(what != "plain"):
            for _ in range(loops):
                if what == "both":
                    torch.autograd.grad(result(), leaves, into)
                else:
                    operator(*given)

    if name == "torch.mm":
        return {"torch": loop}
    expected = result()
    with by_ctypes():
        assert_equal(name, result(), expected)
    return {"c++": loop, "ctypes": lambda: by_ctypes()(loop)()}


def cases(quick: bool) -> Iterator[Case]:
    """Yield every operator by pass; seconds are those of `loops` calls."""
    loops = 2 if quick else 500
    for name, what in product(operators(), ("plain", "graded", "both")):
        yield Case.timed({"operator": name, "pass": what, "loops": loops}, partial(setup, name, what, loops))


SUBJECT = Subject(cases, 15)
