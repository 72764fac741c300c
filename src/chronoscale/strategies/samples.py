"""Samples: how many measured tasks the costs of a schedule rest on."""

from __future__ import annotations

import numpy as np

from chronoscale.strategies.costs import CostModel, FittedCosts
from chronoscale.strategies.curves import curves
from chronoscale.strategies.schedule import Op, Schedule

FEW = 20  # of a curve: its error is told by a quarter of them, and no five tasks make a figure


def few(costs: CostModel, schedule: Schedule) -> tuple[str, ...]:
    """Operations of `schedule` whose curves were fitted on fewer than FEW samples, in the order of `Op`; none where nothing was fitted."""
    if not isinstance(costs, FittedCosts):
        return ()
    thin = {fit.curve for fit in costs.fits if fit.samples < FEW}
    found = {curve.op for curve, _ in curves(schedule, np.arange(len(schedule))) if curve in thin}
    return tuple(op.name for op in Op if op.name in found)
