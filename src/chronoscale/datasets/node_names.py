"""Names of nodes: what a dataset's source calls its nodes, by their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Int64
from chronoscale.errors import UserError

Names = NDArray[np.str_]


class NamedNodes(Protocol):
    """Dataset of any family, whose nodes 0 .. N-1 may have names, or ids in its source."""

    @property
    def node_ids(self) -> Int64 | None: ...

    @property
    def node_names(self) -> Names | None: ...


def require_names(names: Names | None, meaning: str, num_nodes: int) -> None:
    """Check that the names of a dataset's nodes are an array of text, one a node; None passes. meaning: what messages call it. Raises
    UserError."""
    if names is not None and (not isinstance(names, np.ndarray) or names.dtype.kind != "U" or names.shape != (num_nodes,)):
        kind = f"{names.dtype} {names.shape}" if isinstance(names, np.ndarray) else type(names).__name__
        raise UserError(f"{meaning}: expected an array of text ({num_nodes},), got {kind}")


def name_nodes(dataset: NamedNodes, nodes: Iterable[int]) -> list[str]:
    """Return what a dataset's source calls each of `nodes` (numbers from 0): its name where nodes have names, else its id in the source,
    else its number. Tables of predictions and messages name nodes by it."""
    numbers = np.fromiter(nodes, np.int64)
    known = dataset.node_ids if dataset.node_names is None else dataset.node_names
    return [str(name) for name in (numbers if known is None else known[numbers]).tolist()]
