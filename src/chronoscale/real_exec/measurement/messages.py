"""Messages: all-reduces of many sizes, alone, that every profile of several ranks times."""

from __future__ import annotations

import numpy as np

from chronoscale.strategies.planning.builder import Builder
from chronoscale.strategies.schedule import Lane, Op, Schedule

MESSAGES = tuple(1 << power for power in range(10, 23, 2))  # bytes: 1 KiB .. 4 MiB


def all_reduces(ranks: int) -> Schedule:
    """All-reduces of every size in MESSAGES, one after the other."""
    builder = Builder(f"all-reduce-{ranks}", ranks, kind="collectives")
    for i, size in enumerate(MESSAGES):
        builder.add(Op.ALLREDUCE, Lane.COMM, {"rank": np.arange(ranks), "order": i, "collective": i, "bytes": size, "iteration": 0})
    return builder.finish()
