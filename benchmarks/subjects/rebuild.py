"""An adjacency takes less time from its predecessor and the change (REAL, section 4.3) than made afresh.

Rivals: the reference kernel, which sorts; torch.sparse and DGL, which start from the later edges, already on the device, unweighted.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import torch
from core.case import Case, Subject
from core.turns import Call
from setups.graphs import dgl, keep_memory, snapshots

from chronoscale.cuda_ext.operators.aggregation import rebuild
from chronoscale.cuda_ext.operators.graph import CSR, EdgeMap
from chronoscale.datasets.snapshots.difference import edge_map


def setup(name: str, share: float) -> dict[str, Call]:
    """Return calls that make the adjacency after a change of `share` of the edges."""
    keep_memory()
    before, after = snapshots(name, share)
    csr, made = before.csr(), edge_map(before, after)
    graph = CSR(*(torch.from_numpy(a) for a in (csr.indptr, csr.indices, csr.values)), before.num_nodes)
    change = EdgeMap(*(torch.from_numpy(a) for a in (made.rows, made.indptr, made.indices, made.sign)), before.num_nodes)
    loops = np.arange(before.num_nodes, dtype=np.int32)
    src, dst = (torch.from_numpy(np.concatenate([end, loops])) for end in (after.src, after.dst))
    ids, ones = torch.stack([dst, src]).long(), torch.ones(len(src))
    calls: dict[str, Call] = {
        "rebuild": lambda: rebuild(graph, change),
        "by sorting": lambda: rebuild(graph, change, backend="reference"),
        "torch.sparse": lambda: torch.sparse_coo_tensor(ids, ones, (before.num_nodes,) * 2, check_invariants=False).to_sparse_csr(),
    }
    if dgl is not None:
        calls["dgl"] = lambda: dgl.graph((src, dst), num_nodes=before.num_nodes).formats("csc").create_formats_()
    ours, sorted_ = (rebuild(graph, change, backend=backend)[0] for backend in ("cpu", "reference"))
    assert torch.equal(ours.indptr, sorted_.indptr) and torch.equal(ours.indices, sorted_.indices)
    degrees = calls["torch.sparse"]() @ torch.ones(before.num_nodes)  # type: ignore[operator]
    assert torch.equal(degrees.long(), ours.indptr.diff())
    return calls


def cases(quick: bool) -> Iterator[Case]:
    """Yield graphs by shares of changed edges."""
    for name, share in product(("tiny",), (0.2,)) if quick else product(("dense", "skewed"), (0.001, 0.01, 0.05, 0.2)):
        yield Case.timed({"graph": name, "changed": share}, lambda name=name, share=share: setup(name, share))  # type: ignore[misc]


SUBJECT = Subject(cases, 15, ("dgl",))
