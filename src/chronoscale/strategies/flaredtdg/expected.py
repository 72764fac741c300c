"""Expected: times of a window's rows as a planner sees them, communication among them."""

from __future__ import annotations

import numpy as np

from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import CostModel, FittedCosts, durations
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Schedule

UNKNOWN = Link(12.5e9, 1e-5)  # where costs know nothing of the network: 100 Gb/s


def expected_ns(costs: CostModel, schedule: Schedule) -> Ints:
    """Durations of all rows, int64 [rows]: by a predictor where costs have one (FlareDTDG §3.4).

    Without one, and of costs of a single rank, which never communicated, collectives take what costs know of the link, or one of 100 Gb/s:
    orders need no more. Raises UserError for what was not profiled.
    """
    learned = costs.predictor if isinstance(costs, FittedCosts) else None
    joined = np.isin(schedule.op, [int(op) for op in COLLECTIVES])
    if learned is not None and learned.communicates:
        return learned.predict(schedule, np.arange(len(schedule)))
    ns = np.zeros(len(schedule), np.int64)
    if learned is not None:
        ns[~joined] = learned.predict(schedule, np.flatnonzero(~joined))
    else:
        ns, _ = durations(costs, schedule)
    link = costs.collective if isinstance(costs, FittedCosts) and costs.collective is not None else UNKNOWN
    ns[joined] = np.rint((link.latency_s + schedule.bytes[joined] / link.bandwidth) * 1e9).astype(np.int64)
    return ns
