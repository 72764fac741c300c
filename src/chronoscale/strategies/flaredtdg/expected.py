"""Expected: times of a window's rows as a planner sees them, communication among them."""

from __future__ import annotations

import numpy as np

from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import CostModel, FittedCosts, durations
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Schedule

UNKNOWN = Link(12.5e9, 1e-5)  # where costs know nothing of the network: 100 Gb/s


def expected_ns(costs: CostModel, schedule: Schedule) -> Ints:
    """Durations of all rows, int64 [rows]: by a predictor where costs have one (FlareDTDG §3.4). Else collectives take what costs know of the
    link, or one of 100 Gb/s: orders need no more. Raises UserError for what was not profiled."""
    if isinstance(costs, FittedCosts) and costs.predictor is not None:
        return costs.predictor.predict(schedule)
    ns, _ = durations(costs, schedule)
    link = costs.collective if isinstance(costs, FittedCosts) and costs.collective is not None else UNKNOWN
    joined = np.isin(schedule.op, [int(op) for op in COLLECTIVES])
    ns[joined] = np.rint((link.latency_s + schedule.bytes[joined] / link.bandwidth) * 1e9).astype(np.int64)
    return ns
