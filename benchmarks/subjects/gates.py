"""GRU gates and encodings of times, as models of event streams have them, take less time than torch's operators."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import torch
from core.case import Case, Subject
from core.turns import Call
from setups.graphs import keep_memory, passes

from chronoscale.cuda_ext.operators.encoding import encode
from chronoscale.cuda_ext.operators.gates import gates


def setup(nodes: int, hidden: int, what: str, done: str) -> dict[str, Call]:
    """Return calls of the kernel and of torch."""
    keep_memory()
    torch.manual_seed(0)
    if what == "gates":
        leaves = [torch.randn(nodes, 3 * hidden).requires_grad_() for _ in range(2)]
        form = partial(gates, *leaves, torch.randn(nodes, hidden), torch.rand(nodes) > 0.1)
    else:
        leaves = [torch.randn(hidden).requires_grad_() for _ in range(2)]
        form = partial(encode, 1e5 * torch.rand(nodes), *leaves)
    return passes({who: partial(form, backend=backend) for who, backend in (("kernel", "cpu"), ("torch", "reference"))}, leaves, 1e-3)[done]


def cases(quick: bool) -> Iterator[Case]:
    """Yield both operators, forward and with backward, at `tgn`'s size."""
    for what, done in product(("gates", "encodings"), ("forward", "both")):
        nodes, hidden = (20, 8) if quick else (800, 100)
        parameters = {"what": what, "nodes": nodes, "hidden": hidden, "pass": done}
        yield Case.timed(parameters, partial(setup, nodes, hidden, what, done))


SUBJECT = Subject(cases, 15)
