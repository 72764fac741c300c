"""Samples: how many measured tasks the costs of a schedule rest on."""

from __future__ import annotations

from chronoscale.strategies.costs import CostModel, FittedCosts
from chronoscale.strategies.schedule import Op, Schedule

FEW = 20  # of a curve: its error is told by a quarter of them, and no five tasks make a figure


def few(costs: CostModel, schedule: Schedule) -> tuple[str, ...]:
    """Operations of `schedule` whose curves were fitted on fewer than FEW samples, in the order of `Op`; none where nothing was fitted."""
    if not isinstance(costs, FittedCosts):
        return ()
    thin = {(fit.op, fit.width) for fit in costs.fits if fit.samples < FEW}
    return tuple(op.name for op in Op if any((op.name, int(width)) in thin for width in set(schedule.width[schedule.tasks(op)].tolist())))
