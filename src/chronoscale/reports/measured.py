"""Measured: one strategy on one number of ranks, in one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from chronoscale.reports.breakdown import Breakdown
from chronoscale.reports.charts.timeline import Timeline, iteration_slice
from chronoscale.reports.setting import Kind, Setting
from chronoscale.simulator.failures.endurance import Endured
from chronoscale.simulator.network.traffic import LinkUse
from chronoscale.simulator.uncertainty.assumptions import Effect
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.evaluation.fidelity import TOTAL, Coverage
from chronoscale.strategies.evaluation.metrics import Summary, time_by_op
from chronoscale.strategies.evaluation.ranking import EpochTimes
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Source, Trace

EXTRAPOLATED = Source.EXTRAPOLATED.name.lower()


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """What a replay of an executed schedule predicted: a frame of `fidelity.fidelity`, the costs' name, where durations come from, and what
    was compared."""

    frame: pd.DataFrame
    costs: str
    sources: str
    coverage: Coverage

    @property
    def error_pct(self) -> float:
        """Of the whole epoch."""
        return self._total("error_pct")

    @property
    def epoch_s(self) -> float:
        """Of what was compared."""
        return self._total("predicted_ms") / 1e3

    def _total(self, column: str) -> float:
        return next((float(value) for op, value in zip(self.frame["op"], self.frame[column], strict=True) if op == TOTAL), float("nan"))


class Band(NamedTuple):
    """What a twentieth of the draws stays below, and what a twentieth exceeds; NaN without draws."""

    low: float = float("nan")
    high: float = float("nan")

    @classmethod
    def of(cls, draws: Sequence[float] | Floats) -> Band:
        return cls(*(float(np.quantile(draws, q)) for q in (0.05, 0.95))) if len(draws) else cls()


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """One strategy on one number of ranks.

    op_seconds: seconds in each operation, summed over ranks, index the op's name. run: the folder that it is from. gap: of the schedule to
    its scheduler's bound (`Schedule.gap`), NaN where no scheduler planned. prepare_s: what happens once before the first epoch; NaN where a
    strategy prepares nothing by itself. host_bytes: planned, of a rank (`Schedule.host`). scores: of the validation that ended the last
    epoch, by key; none without one. losses: one value a step. prediction: of the same schedule, where it was replayed. failed: why its
    figures compare with nothing, '' where they do. draws_s: the epoch of a simulation in every draw of what is uncertain; the summary is
    of the middle one, its spread and repeats are the draws'. endured: a training whose devices fail, None where none do.
    effects: of assumptions on the epoch, where they were tried. idle: ranks without work. few: operations whose costs rest on too few
    samples. there: GPUs that a simulated cluster has, 0 where executed. links: the busiest ones, where links are modelled.
    """

    setting: Setting
    summary: Summary
    op_seconds: pd.Series[float]
    timeline: Timeline | None = None
    run: str = ""
    gap: float = float("nan")
    prepare_s: float = float("nan")
    host_bytes: int = 0
    scores: Mapping[str, float] = field(default_factory=dict)
    losses: tuple[float, ...] = ()
    prediction: Prediction | None = None
    failed: str = ""
    draws_s: tuple[float, ...] = ()
    endured: Endured | None = None
    effects: tuple[Effect, ...] = ()
    idle: int = 0
    few: tuple[str, ...] = ()
    there: int = 0
    links: tuple[LinkUse, ...] = ()

    @classmethod
    def of(cls, setting: Setting, traces: Sequence[Trace], schedule: Schedule | None = None) -> Measured:
        """From repeats of one epoch; the median repeat stands for them. With its schedule, its middle iteration becomes the timeline."""
        middle = sorted(traces, key=lambda trace: trace.span_ns)[(len(traces) - 1) // 2]
        timeline = iteration_slice(middle, schedule) if schedule is not None and len(middle) else None
        return cls(setting, Summary.of(traces), time_by_op(middle), timeline)

    def drawn(self, draws_s: Sequence[float]) -> Measured:
        """With the draws that its trace is the middle one of; itself for none."""
        if not draws_s:
            return self
        low, high = np.quantile(draws_s, [0.25, 0.75])
        return replace(self, draws_s=tuple(draws_s), summary=replace(self.summary, spread_s=float(high - low) / 2, repeats=len(draws_s)))

    @property
    def strategy(self) -> str:
        return self.summary.strategy

    @property
    def ranks(self) -> int:
        return self.summary.ranks

    @property
    def kind(self) -> Kind:
        return self.setting.kind

    @property
    def band(self) -> Band:
        """Of the epoch, s."""
        return Band.of(self.draws_s)

    def faster(self, other: Measured) -> Band:
        """How many times as fast as `other`, draw by draw: what draws of one number have in common, such as who straggles, is then no
        difference. NaN where they have not been drawn alike."""
        alike = len(self.draws_s) == len(other.draws_s) and self is not other and min(self.draws_s, default=0) > 0
        return Band.of(np.divide(other.draws_s, self.draws_s)) if alike else Band()

    @property
    def busiest_link(self) -> str:
        """With its mean utilisation, in words; '' where none is modelled."""
        return "".join(f"{one.link}, {100 * one.utilisation:.1f} %" for one in self.links[:1])

    @property
    def breakdown(self) -> Breakdown:
        """What its epoch is made of."""
        return Breakdown.of(self.op_seconds, self.ranks, self.summary.epoch_s)

    @property
    def ranked(self) -> EpochTimes | None:
        """Its epoch, predicted and measured; None where nothing was predicted."""
        if self.prediction is None:
            return None
        found = self.summary
        return EpochTimes(self.strategy, self.prediction.epoch_s, found.epoch_s, found.spread_s, found.repeats)

    @property
    def extrapolated(self) -> bool:
        """Whether any of its durations leaves what its costs were fitted on."""
        return EXTRAPOLATED in self.summary.sources.split(", ")


def unsound(losses: Sequence[float]) -> str:
    """Where a loss stopped being a number, in words; '' where all are finite."""
    wrong = np.flatnonzero(~np.isfinite(np.asarray(losses, np.float64)))
    return f"loss not finite at iteration {wrong[0]}" if len(wrong) else ""
