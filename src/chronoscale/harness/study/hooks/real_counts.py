"""REAL: what is counted of a simulated epoch for Figure 11 and Table 1: GraphConv of remote rows, and streams at work side by side."""

from __future__ import annotations

import numpy as np

from chronoscale.harness.study.replay import Replayed
from chronoscale.strategies.schedule import COLLECTIVES, Op


def flops_with_halo(replayed: Replayed) -> float:
    """Return the flops of GraphConv in a simulated epoch as if ranks convolved the remote rows that they read, too; a metric of Figure 11.

    A remote row has as many edges as a rank's own on average. The same as metric `flops` where the vertices are not parted.
    """
    convolved = np.isin(replayed.schedule.op, [Op.AGGREGATE, Op.INCREMENT])
    cut = replayed.workload.partition
    share = float(cut.halo.sum() / cut.rows.sum()) if cut is not None else 0.0
    return float(replayed.schedule.flops[convolved].sum()) * (1 + share)


def lanes_beside(replayed: Replayed) -> float:
    """Return in what share of its busy time a rank has two or more streams at work, collectives left out, for REAL's Table 1."""
    trace = replayed.trace
    work = ~np.isin(trace.op, [int(op) for op in COLLECTIVES])
    total = both = 0.0
    for rank in range(trace.ranks):
        here = work & (trace.rank == rank)
        time = np.concatenate([trace.start_ns[here], trace.end_ns[here]])
        step = np.repeat([1, -1], int(here.sum()))
        order = np.lexsort((step, time))
        depth, spans = np.cumsum(step[order])[:-1], np.diff(time[order])
        total, both = total + float(spans[depth > 0].sum()), both + float(spans[depth > 1].sum())
    return both / total if total else 0.0
