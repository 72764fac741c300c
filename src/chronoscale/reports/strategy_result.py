"""Strategy result: one strategy on one number of ranks in one run, executed or simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from chronoscale.reports.breakdown import Breakdown
from chronoscale.reports.setting import Kind, Setting
from chronoscale.reports.timeline import Timeline, iteration_timeline
from chronoscale.simulator.failures.summary import FailureSummary
from chronoscale.simulator.network.traffic import LinkUse
from chronoscale.simulator.uncertainty.effect import Effect
from chronoscale.simulator.uncertainty.joint import Conclusion
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.evaluation.fidelity import TOTAL, Coverage
from chronoscale.strategies.evaluation.metrics import Summary, time_by_op
from chronoscale.strategies.evaluation.ranking import EpochTimes
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Source, Trace

EXTRAPOLATED = Source.EXTRAPOLATED.name.lower()


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """Simulator's prediction of a schedule that was also executed, compared with the measurement, for a report.

    frame: errors by operation (`fidelity.fidelity`). costs: name of the cost model. sources: where durations come from. coverage: what was
    compared.
    """

    frame: pd.DataFrame
    costs: str
    sources: str
    coverage: Coverage

    @property
    def error_pct(self) -> float:
        """Return the prediction's error for the whole epoch, percent of the measured."""
        return self._total("error_pct")

    @property
    def epoch_s(self) -> float:
        """Return the predicted seconds of what was compared."""
        return self._total("predicted_ms") / 1e3

    def _total(self, column: str) -> float:
        return next((float(value) for op, value in zip(self.frame["op"], self.frame[column], strict=True) if op == TOTAL), float("nan"))


class Band(NamedTuple):
    """Range that nine tenths of a simulation's draws lie in, from their 5 % to their 95 % quantile; NaN without draws.

    A draw is one simulation with uncertain assumptions drawn at random.
    """

    low: float = float("nan")
    high: float = float("nan")

    @classmethod
    def of(cls, draws: Sequence[float] | Floats) -> Band:
        return cls(*(float(np.quantile(draws, q)) for q in (0.05, 0.95))) if len(draws) else cls()


@dataclass(frozen=True, slots=True, eq=False)
class StrategyResult:
    """Result of one strategy on one number of ranks, executed or simulated, which a report compares with others.

    op_seconds: seconds in each operation, summed over ranks, index the op's name. run: the folder that it is from. gap: of the schedule to
    its scheduler's bound (`Schedule.gap`), NaN where no scheduler planned. prepare_s: time spent once before the first epoch; NaN where a
    strategy prepares nothing. host_bytes: planned, of a rank (`Schedule.host`). scores: of the validation that ended the last epoch, by
    key. losses: one value a step. prediction: of the same schedule, where it was replayed. failed: why its figures compare with nothing, ''
    where they do. draws_s: the epoch of a simulation in every draw of what is uncertain; the summary is of the middle draw, its spread and
    repeats are those of the draws. failure_summary: of a training whose devices fail, None where none do. effects: of assumptions on the
    epoch, where they were tried; conclusions: on pairs in which it is the faster, under joint assumptions. idle_ranks: ranks without work.
    few_samples: operations whose costs rest on too few samples. cluster_gpus: GPUs that a simulated cluster has, 0 where executed. links:
    the busiest ones, where links are modelled. steps: of the optimiser in an epoch; targets, mathematics: what it trains on
    (`strategies.trained_work`), 0 and '' where unknown. peak_bytes: of the fullest rank's device, as planned; 0 where unknown.
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
    failure_summary: FailureSummary | None = None
    effects: tuple[Effect, ...] = ()
    conclusions: tuple[Conclusion, ...] = ()
    idle_ranks: int = 0
    few_samples: tuple[str, ...] = ()
    cluster_gpus: int = 0
    links: tuple[LinkUse, ...] = ()
    steps: int = 0
    targets: int = 0
    mathematics: str = ""
    peak_bytes: int = 0

    @classmethod
    def of(cls, setting: Setting, traces: Sequence[Trace], schedule: Schedule | None = None) -> StrategyResult:
        """Make a report's result of the traces of one epoch, executed or simulated several times; the median one stands for them.

        schedule: where given, its middle iteration becomes the result's timeline.
        """
        middle = sorted(traces, key=lambda trace: trace.span_ns)[(len(traces) - 1) // 2]
        timeline = iteration_timeline(middle, schedule) if schedule is not None and len(middle) else None
        return cls(setting, Summary.of(traces), time_by_op(middle), timeline)

    def with_draws(self, draws_s: Sequence[float]) -> StrategyResult:
        """Return the result with the epochs of a simulation's draws, whose middle one its trace is; itself for no draws.

        draws_s: seconds, one a draw.
        """
        if not draws_s:
            return self
        low, high = np.quantile(draws_s, [0.25, 0.75])
        return replace(self, draws_s=tuple(draws_s), summary=replace(self.summary, spread_s=float(high - low) / 2, repeats=len(draws_s)))

    @property
    def target_us(self) -> float:
        """Microseconds of the epoch for every target that it trains on; NaN where their number is unknown."""
        return 1e6 * self.summary.epoch_s / self.targets if self.targets else float("nan")

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
        """Return what nine tenths of the simulation's draws of the epoch lie in, s."""
        return Band.of(self.draws_s)

    def speedup_band(self, other: StrategyResult) -> Band:
        """Return what nine tenths of the speed-ups of this result over `other` lie in, draw by draw; NaN where they were not drawn alike.

        What draws of one number have in common, such as which rank is slow, is then no difference.
        """
        drawn_alike = len(self.draws_s) == len(other.draws_s) and self is not other and min(self.draws_s, default=0) > 0
        return Band.of(np.divide(other.draws_s, self.draws_s)) if drawn_alike else Band()

    @property
    def busiest_link(self) -> str:
        """Return the simulated network's busiest link with its mean utilisation, in words; '' where no links are modelled."""
        return "".join(f"{link.link}, {100 * link.utilisation:.1f} %" for link in self.links[:1])

    @property
    def breakdown(self) -> Breakdown:
        """Return what the epoch's time goes to, such as sampling, transfers and layers."""
        return Breakdown.of(self.op_seconds, self.ranks, self.summary.epoch_s)

    @property
    def ranked(self) -> EpochTimes | None:
        """Return the predicted and the measured epoch, for comparing the order of strategies; None where nothing was predicted."""
        if self.prediction is None:
            return None
        summary = self.summary
        return EpochTimes(self.strategy, self.prediction.epoch_s, summary.epoch_s, summary.spread_s, summary.repeats)

    @property
    def extrapolated(self) -> bool:
        """Return whether any duration lies outside what the cost model was fitted on."""
        return EXTRAPOLATED in self.summary.sources.split(", ")


def describe_bad_loss(losses: Sequence[float]) -> str:
    """Return in words at which step a loss stopped being a number, for a report; '' where all are finite. losses: one a step."""
    wrong = np.flatnonzero(~np.isfinite(np.asarray(losses, np.float64)))
    return f"loss not finite at iteration {wrong[0]}" if len(wrong) else ""
