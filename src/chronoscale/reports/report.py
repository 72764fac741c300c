"""Report: what one comparison found, before it is drawn. Executed and simulated runs stand side by side and are never mixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import pandas as pd

from chronoscale.reports.stages import Staged
from chronoscale.reports.timeline import Timeline, iteration_slice
from chronoscale.strategies.metrics import Summary, time_by_op
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Trace

Kind = Literal["executed", "simulated"]
BASELINES = ("psg", "pgt")  # the common base of the papers' ablations, by family


class Setting(NamedTuple):
    """Runs are compared only within one setting. `machine` is '' where a report has one of a kind."""

    kind: Kind
    machine: str

    def __str__(self) -> str:
        return f"{self.kind} on {self.machine}" if self.machine else self.kind


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """One strategy on one number of ranks.

    op_seconds: seconds in each operation, summed over ranks, index the op's name. machine: keeps runs apart that must not be compared
    (two clusters in one report); '' where there is one of a kind. (A trace's `device` cannot tell: a simulated one names its ranks.) gap:
    of the schedule to its scheduler's bound (`Schedule.gap`), NaN where no scheduler planned. prepare_s: what happens once before the first
    epoch; NaN where a strategy prepares nothing by itself. host_bytes: planned, of a rank (`Schedule.host`). mae, rmse, mape:
    of the validation that ended the last epoch, the last a share; NaN without one.
    """

    kind: Kind
    summary: Summary
    op_seconds: pd.Series[float]
    timeline: Timeline | None = None
    machine: str = ""
    gap: float = float("nan")
    prepare_s: float = float("nan")
    host_bytes: int = 0
    mae: float = float("nan")
    rmse: float = float("nan")
    mape: float = float("nan")

    @classmethod
    def of(cls, kind: Kind, traces: Sequence[Trace], schedule: Schedule | None = None, machine: str = "") -> Measured:
        """From repeats of one epoch; the median repeat stands for them. With its schedule, its middle iteration becomes the timeline."""
        middle = sorted(traces, key=lambda trace: trace.span_ns)[(len(traces) - 1) // 2]
        timeline = iteration_slice(middle, schedule) if schedule is not None and len(middle) else None
        return cls(kind, Summary.of(traces), time_by_op(middle), timeline, machine)

    @property
    def strategy(self) -> str:
        return self.summary.strategy

    @property
    def ranks(self) -> int:
        return self.summary.ranks

    @property
    def setting(self) -> Setting:
        return Setting(self.kind, self.machine)


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """Everything that a page shows.

    fidelity: by (strategy, ranks), frames of `metrics.fidelity`. losses: by label (a strategy's name, or one that begins with it), one
    value a step. staged: training runs in stages. notes: warnings that must be seen. environment: hardware, versions, commit.

    Raises ValueError when one strategy has two results for the same ranks in one setting, or when these ranks are of two devices.
    """

    title: str
    subtitle: str = ""
    runs: tuple[Measured, ...] = ()
    fidelity: Mapping[tuple[str, int], pd.DataFrame] = field(default_factory=dict)
    losses: Mapping[str, Sequence[float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    staged: tuple[Staged, ...] = ()

    def __post_init__(self) -> None:
        seen: dict[tuple[Setting, int], dict[str, str]] = {}
        for run in self.runs:
            peers = seen.setdefault((run.setting, run.ranks), {})
            if run.strategy in peers:
                raise ValueError(f"report: '{run.strategy}' has two {run.setting} results on {run.ranks} ranks")
            peers[run.strategy] = run.summary.device
            if len(set(peers.values())) > 1:
                devices = ", ".join(sorted(set(peers.values())))
                raise ValueError(
                    f"report: {run.setting} results on {run.ranks} ranks are of several devices ({devices}); name their machines"
                )

    @property
    def baseline(self) -> str:
        """The strategy that others are compared with: one of BASELINES when present, else the first; '' without runs."""
        names = [run.strategy for run in self.runs]
        return next((name for name in BASELINES if name in names), names[0] if names else "")

    @property
    def strategies(self) -> tuple[str, ...]:
        """Names, the baseline first, then in order of appearance."""
        names = dict.fromkeys([self.baseline] if self.runs else [])
        names |= dict.fromkeys(run.strategy for run in self.runs)
        names |= dict.fromkeys(strategy for strategy, _ in self.fidelity)
        return tuple(names)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """In order of appearance."""
        return tuple(dict.fromkeys(run.setting for run in self.runs))

    def within(self, setting: Setting) -> dict[int, list[Measured]]:
        """Runs of one setting by rank count, both ascending; strategies in the report's order."""
        place = {name: i for i, name in enumerate(self.strategies)}
        found: dict[int, list[Measured]] = {}
        for run in sorted(self.runs, key=lambda run: (run.ranks, place[run.strategy])):
            if run.setting == setting:
                found.setdefault(run.ranks, []).append(run)
        return found

    def curve(self, strategy: str, setting: Setting) -> list[Measured]:
        """Runs of one strategy in one setting, ranks ascending."""
        return sorted((run for run in self.runs if run.strategy == strategy and run.setting == setting), key=lambda run: run.ranks)
