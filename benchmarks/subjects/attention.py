"""Attention of one head takes less time than by DGL's, PyG's and torch's operators, and its increment less than the full form.

Rivals compute what GATConv does between its linear layers: scores, leaky ReLU, softmax over a node's edges, weighted sum. Graphs have
self-loops; transposes are held by ours and by DGL. The increment computes the rows that a change of 1, 5 or 20 % of the edges touches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

from core.case import Case, Subject
from core.turns import Call
from rivals import reductions
from setups.graphs import adjacency, assert_equal, drawn, flipped, graphs_on, keep_memory, keys_of, normal, passes
from torch import Tensor

from chronoscale.cuda_ext.operators.attention import attention, attention_increment

CHANGES = (0.01, 0.05, 0.2)


def setup(name: str, width: int, done: str, device: str) -> dict[str, Call]:
    """Return calls of a forward pass, or of forward and backward."""
    keep_memory()
    drawn_graph = drawn(name, device)
    nodes = drawn_graph.num_rows
    graph = adjacency(keys_of(drawn_graph), nodes)
    leaves = [normal(device, *size, seed=seed).requires_grad_() for seed, size in enumerate(((nodes, width), (nodes,), (nodes,)))]
    values = [leaf.detach() for leaf in leaves]
    state = attention(graph, *values)
    forms: dict[str, Callable[[], Tensor]] = {"full": lambda: attention(graph, *leaves).output()}
    forms |= {who: partial(way, *leaves) for who, way in reductions.attended(graph).items()}
    calls = passes(forms, leaves, 1e-3)[done]
    for share in CHANGES:
        change, after = flipped(graph, share)
        stepped, _ = attention_increment(state, after, change, *values)
        assert_equal(f"increment of {share:.0%}", stepped.output(), attention(after, *values).output(), 1e-3)
        form = partial(attention_increment, state, after, change, *leaves)
        touched = {f"increment of {share:.0%}": lambda form=form: form()[1]}  # type: ignore[misc]
        calls |= passes(touched, leaves)[done]
    return calls


def cases(device: str, quick: bool) -> Iterator[Case]:
    """Yield graphs by widths, forward and with backward."""
    for name, width, done in product(graphs_on(device, quick), (16, 64), ("forward", "both")):
        yield Case.timed({"graph": name, "width": width, "pass": done}, partial(setup, name, width, done, device))


SUBJECT = Subject(partial(cases, "cpu"), 9, ("dgl", "torch_geometric", "pyg_lib"), partial(cases, "cuda"))
