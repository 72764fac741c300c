"""Attention of one head takes less time than DGL's message passing, and its increment less than the full form.

Rival: what DGL's GATConv runs between its linear layers: u_add_v, leaky ReLU, edge_softmax, u_mul_e_sum. Graphs have self-loops; both sides
hold their transposes. The increment computes the rows that a change of 1, 5 or 20 % of the edges touches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import torch
from core.case import Case, Subject
from core.turns import Call
from setups.graphs import assert_equal, dgl, keep_memory, snapshots
from torch import Tensor

from chronoscale.cuda_ext.operators.attention import attention, attention_increment
from chronoscale.cuda_ext.operators.graph import CSR, EdgeMap
from chronoscale.datasets.snapshots.difference import edge_map
from chronoscale.datasets.snapshots.sequence import Snapshot

CHANGES = (0.01, 0.05, 0.2)


def csr(snapshot: Snapshot) -> CSR:
    """Return the unweighted adjacency."""
    csr = snapshot.csr()
    return CSR(torch.from_numpy(csr.indptr), torch.from_numpy(csr.indices), None, snapshot.num_nodes)


def dgl_attention(graph: object, z: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return GATConv's output of one head."""
    with graph.local_scope():  # type: ignore[attr-defined]
        scores = torch.nn.functional.leaky_relu(dgl.ops.u_add_v(graph, left[:, None], right[:, None]), 0.2)
        return dgl.ops.u_mul_e_sum(graph, z, dgl.nn.functional.edge_softmax(graph, scores))


def setup(name: str, width: int, both: bool) -> dict[str, Call]:
    """Return calls of a forward pass, or with `both` of forward and backward."""
    keep_memory()
    before, _ = snapshots(name, CHANGES[0])
    graph, nodes = csr(before), before.num_nodes
    leaves = [torch.randn(*size).requires_grad_(both) for size in ((nodes, width), (nodes,), (nodes,))]
    gradient, calls = torch.randn(nodes, width), dict[str, Call]()
    state = attention(graph, *(leaf.detach() for leaf in leaves))

    def add(who: str, form: Callable[..., Tensor]) -> None:
        def backward() -> object:
            out = form(*leaves)
            return torch.autograd.grad(out, leaves, gradient[: len(out)])

        calls[who] = backward if both else lambda: form(*leaves)

    add("full", lambda *values: attention(graph, *values).output())
    for share in CHANGES:
        after = snapshots(name, share)[1]
        made, following = edge_map(before, after), csr(after)
        change = EdgeMap(*(torch.from_numpy(a) for a in (made.rows, made.indptr, made.indices, made.sign)), nodes)
        stepped, _ = attention_increment(state, following, change, *(leaf.detach() for leaf in leaves))
        assert_equal(f"increment of {share:.0%}", stepped.output(), attention(following, *leaves).output(), 1e-3)
        add(f"increment of {share:.0%}", lambda *v, f=following, c=change: attention_increment(state, f, c, *v)[1])  # type: ignore[misc]
    if dgl is not None:
        target = torch.repeat_interleave(torch.arange(graph.num_rows), graph.indptr.diff())
        other = dgl.graph((graph.indices, target.int()), num_nodes=graph.num_rows)
        other.create_formats_()
        assert_equal("dgl", dgl_attention(other, *leaves), state.output(), 1e-3)
        add("dgl", lambda *values: dgl_attention(other, *values))
    return calls


def cases(quick: bool) -> Iterator[Case]:
    """Yield graphs by widths, forward and with backward."""
    for name, width, what in product(("tiny",) if quick else ("dense", "skewed"), (16, 64), ("forward", "both")):
        parameters = {"graph": name, "width": width, "pass": what}
        yield Case.timed(parameters, lambda name=name, width=width, what=what: setup(name, width, what == "both"))  # type: ignore[misc]


SUBJECT = Subject(cases, 9, ("dgl",))
