"""Samples: how many measured tasks the costs of a schedule rest on, and how much those varied."""

from __future__ import annotations

import numpy as np

from chronoscale.errors import UserError
from chronoscale.strategies.costing.curves import curves
from chronoscale.strategies.costs import CostModel, FittedCosts, Floats
from chronoscale.strategies.schedule import Op, Schedule

FEW = 20  # of a curve: its error is told by a quarter of them, and no five tasks make a figure


def thinly_sampled(costs: CostModel, schedule: Schedule) -> tuple[str, ...]:
    """Return the operations of a schedule whose cost curves were fitted on fewer than 20 measured tasks, for a warning beside predictions;
    in the order of `Op`. Empty for costs that were not fitted."""
    if not isinstance(costs, FittedCosts):
        return ()
    thin = {fit.curve for fit in costs.fits if fit.samples < FEW}
    operations = {curve.op for curve, _ in curves(schedule, np.arange(len(schedule))) if curve in thin}
    return tuple(op.name for op in Op if op.name in operations)


def row_spreads(costs: CostModel, schedule: Schedule) -> Floats:
    """Return how much each row's time varies from repeat to repeat, as its relative standard deviation in the profile, float64 [rows]; 0
    for collectives. For simulations with uncertainty.

    Raises UserError for costs that were not fitted, and for a curve without a fit.
    """
    fitted = _require_fitted(costs)
    rows = np.flatnonzero(schedule.collective < 0)
    spread = np.zeros(len(schedule))
    for curve, own in curves(schedule, rows):
        spread[rows[own]] = fitted.of(curve).spread
    return spread


def rank_sway(costs: CostModel) -> float:
    """Return how much a rank's whole iteration varies from the other ranks' beyond the variation of its single rows, as a relative standard
    deviation from the profile, for simulations with uncertainty. Raises UserError for costs that were not fitted."""
    return _require_fitted(costs).sway


def _require_fitted(costs: CostModel) -> FittedCosts:
    """Return the costs as fitted ones. Raises UserError for others, which no repeats say the variation of."""
    if not isinstance(costs, FittedCosts):
        raise UserError(f"uncertainty: {costs.name} was not fitted, so no repeats say how much rows vary; state it as a number")
    return costs
