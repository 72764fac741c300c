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
    """Cost model for planning the next epochs of a running training: curves fitted to the epochs measured so far; operations that these did
    not contain cost the estimate of `rough` (another cost model, such as a datasheet's) times `factor`, and are marked as extrapolated.

    A planner weighs alternatives (to send a snapshot in full, or as its difference from the last one), of which a run's own epochs show
    only the chosen one: the others need an estimate on the same scale. `factor`: measured over rough time, from `scale_factor`.
    """

    fitted: FittedCosts
    rough: CostModel
    factor: float

    @property
    def name(self) -> str:
        return f"{self.fitted.name}, elsewhere {self.rough.name} x {self.factor:.3g}"

    @property
    def launch_ns(self) -> int:
        """How long launching one kernel takes a rank's host, ns, as the fitted curves have it; 0 on a CPU."""
        return self.fitted.launch_ns

    def occupies(self, schedule: Schedule, rows: Ints, ns: Ints) -> tuple[Floats, Floats]:
        """Return the shares (0 to 1) of the device's memory bandwidth and of its SMs that rows occupy, both as `rough` estimates them.

        rows: numbers of rows of the schedule; ns: their durations. Float64 [len(rows)] each.
        """
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
    """Return by what factor a cost model's durations have to be multiplied to be on the scale of measured epochs, for `CalibratedCosts`.

    seen: executed schedules, each with the measured duration of every row, ns [rows]. For each schedule and operation the ratio of summed
    measured to summed predicted time; their median, 1.0 without any. Collectives are left out.
    """
    ratios = []
    for schedule, ns in seen:
        for code in np.unique(schedule.op):
            if Op(code) not in COLLECTIVES:
                rows = schedule.tasks(Op(code))
                ratios.append(ns[rows].sum() / max(rough.predict(schedule, rows)[0].sum(), 1))
    return float(np.median(ratios)) if ratios else 1.0
