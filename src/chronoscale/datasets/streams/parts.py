"""Parts: a stream cut for several ranks: each event in one part, each node in one, or, of a few that are shared, in all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.arrays import Bool, Int32, require
from chronoscale.errors import UserError

SHARED = -1  # in place of a node's part


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """node int32 [N]: its part, or SHARED; event int32 [M]: its part, in the order of the stream. count: of parts. origin: how it was made.

    Source: MemShare §3.2. Raises UserError for arrays that do not fit.
    """

    node: Int32
    event: Int32
    count: int
    origin: str = ""

    def __post_init__(self) -> None:
        for name, array, least in (("node", self.node, SHARED), ("event", self.event, 0)):
            require(array, f"Parts.{name}", "int32", (None,))
            if array.size and not least <= array.min() <= array.max() < self.count:
                raise UserError(f"Parts.{name}: expected parts from {least} to {self.count - 1}, got {array.min()} to {array.max()}")

    @property
    def shared(self) -> Int32:
        """Nodes that all parts have, ascending, int32 [S]."""
        return np.flatnonzero(self.node == SHARED).astype(np.int32)

    def here(self, part: int) -> Bool:
        """Whether a part has a node's memory, bool [N]."""
        found: Bool = (self.node == part) | (self.node == SHARED)
        return found
