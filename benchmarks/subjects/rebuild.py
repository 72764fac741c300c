"""An adjacency takes less time from its predecessor and the change (REAL, section 4.3) than made afresh.

Rivals: the reference kernel, which sorts; torch.sparse and DGL, which start from the later edges, already on the device, unweighted.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import torch
from core.case import Case, Subject
from core.turns import Call
from rivals.reductions import DGL
from setups.graphs import adjacency, drawn, flipped, graphs_on, keep_memory, keys_of

from chronoscale.cuda_ext.operators.aggregation import rebuild
from chronoscale.cuda_ext.operators.sparse_arrays import row_ids


def setup(name: str, share: float, device: str) -> dict[str, Call]:
    """Return calls that make the adjacency after a change of `share` of the edges."""
    keep_memory()
    drawn_graph = drawn(name, device)
    nodes = drawn_graph.num_rows
    before = adjacency(keys_of(drawn_graph), nodes)
    change, after = flipped(before, share)
    target, ones = row_ids(after.indptr, after.nnz), torch.ones(after.nnz, device=device)
    ids = torch.stack([target, after.indices.long()])
    calls: dict[str, Call] = {
        "rebuild": lambda: rebuild(before, change),
        "by sorting": lambda: rebuild(before, change, backend="reference"),
        "torch.sparse": lambda: torch.sparse_coo_tensor(ids, ones, (nodes, nodes), check_invariants=False).to_sparse_csr(),
    }
    if DGL is not None:
        calls["DGL"] = lambda: DGL.graph((ids[1].int(), ids[0].int()), num_nodes=nodes).formats("csc").create_formats_()
    for backend in (device, "reference"):
        made = rebuild(before, change, backend=backend)[0]
        assert torch.equal(made.indptr, after.indptr) and torch.equal(made.indices, after.indices), f"{backend} makes another adjacency"
    degrees = calls["torch.sparse"]() @ torch.ones(nodes, device=device)  # type: ignore[operator]
    assert torch.equal(degrees.long(), after.indptr.diff())
    return calls


def cases(device: str, quick: bool) -> Iterator[Case]:
    """Yield graphs by shares of changed edges."""
    for name, share in product(graphs_on(device, quick), (0.2,) if quick else (0.001, 0.01, 0.05, 0.2)):
        yield Case.timed({"graph": name, "changed": share}, partial(setup, name, share, device))


SUBJECT = Subject(partial(cases, "cpu"), 15, ("dgl",), partial(cases, "cuda"))
