"""A strategy in a file of its own: the longest groups first, so that the GPUs of an iteration finish at about the same time.

In an experiment file: `strategies: [psg, strategy.py:LongestFirst]`, the path relative to that file. docs/extending.md walks through it.
"""

from __future__ import annotations

import numpy as np

from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.snapshots.groups import Placement
from chronoscale.strategies.snapshots.lowering import Reuse
from chronoscale.strategies.snapshots.strategy import GroupStrategy
from chronoscale.strategies.workload import Workload


class LongestFirst(GroupStrategy):
    """Groups by falling number of edges, one a rank and iteration; difference maps inside a group, as REAL's type I."""

    name = "longest-first"
    title = "Longest group first"
    source = "examples/strategy.py"
    summary = "Each GPU trains whole snapshot groups, those with the most edges first."
    reuse = Reuse(snapshots=True)

    def place(self, workload: Workload, ranks: int, costs: CostModel) -> Placement:
        """Where and when each group is trained; which of its snapshots are sent as changes is decided by what they cost."""
        start = workload.group_start(np.arange(workload.groups))
        edges = np.sum([workload.snapshots.edges[start + step] for step in range(workload.hyper.group_size)], axis=0)
        turn = np.empty(workload.groups, np.int64)
        turn[np.argsort(-edges, kind="stable")] = np.arange(workload.groups)
        return Placement(ranks, turn % max(ranks, 1), turn // max(ranks, 1), np.zeros_like(turn))
