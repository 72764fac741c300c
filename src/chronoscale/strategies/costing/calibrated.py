"""CalibratedCosts: costs fitted to the epochs of a training run so far, and a scaled guess for operations that it has not shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chronoscale.strategies.costing.curves import curves
from chronoscale.strategies.costs import CostModel, FittedCosts, Floats
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Op, Schedule
from chronoscale.strategies.trace import Source


@dataclass(frozen=True, slots=True)
class CalibratedCosts:
    """Costs fitted to what a training run has measured so far; what it has not measured costs `rough` times `factor`, marked as
    extrapolated.

    A run's own epochs never show every form that a planner weighs (a full graph where a difference map was sent): those need a guess on the
    same scale.
    """

    fitted: FittedCosts
    rough: CostModel
    factor: float

    @property
    def name(self) -> str:
        return f"{self.fitted.name}, elsewhere {self.rough.name} x {self.factor:.3g}"

    @property
    def launch_ns(self) -> int:
        """The launch time of the fitted curves: what a run's epochs have measured includes launching."""
        return self.fitted.launch_ns

    def occupies(self, schedule: Schedule, rows: Ints, ns: Ints) -> tuple[Floats, Floats]:
        """Return the shares of memory bandwidth and SMs that `rough` estimates."""
        return self.rough.occupies(schedule, rows, ns)

    def predict(self, schedule: Schedule, rows: Ints) -> tuple[Ints, Source]:
        ns, source = np.zeros(len(rows), np.int64), Source.FITTED
        fitted_curves = {fit.curve for fit in self.fitted.fits}
        for curve, chosen in curves(schedule, rows):
            is_fitted = curve in fitted_curves
            durations, origin = (self.fitted if is_fitted else self.rough).predict(schedule, rows[chosen])
            ns[chosen] = durations if is_fitted else np.rint(durations * self.factor).astype(np.int64)
            source = source if is_fitted and origin is Source.FITTED else Source.EXTRAPOLATED
        return ns, source


def scale_factor(seen: Sequence[tuple[Schedule, Ints | Floats]], rough: CostModel) -> float:
    """Return measured over predicted time: the median over operations of the ratio of sums.

    seen: schedules, and the measured ns of their rows, [tasks] each.
    """
    ratios = []
    for schedule, ns in seen:
        for code in np.unique(schedule.op):
            if Op(code) not in COLLECTIVES:
                rows = schedule.tasks(Op(code))
                ratios.append(ns[rows].sum() / max(rough.predict(schedule, rows)[0].sum(), 1))
    return float(np.median(ratios)) if ratios else 1.0
