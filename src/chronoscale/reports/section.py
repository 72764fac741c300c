"""Section: the part of a report whose figures compare, as they share one setting. Every chart, table and finding is about one section."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from chronoscale.reports.setting import Facts, Kind, Setting, describe, differences
from chronoscale.reports.strategy_result import StrategyResult
from chronoscale.reports.training_run import TrainingRun

BASELINES = ("psg", "pgt")  # the common base of the papers' ablations, by family


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """Section of a report: results that compare, as they share one setting (same work, same machine or simulated cluster).

    name: begins the names of its files, '' for a report's only section. differences: facts that tell it from sections of the same title.
    runs: results of strategies; where runs repeat one another, the run is part of a result's label. staged: training runs. report_labels:
    labels of the whole report, so that a strategy keeps its colour.
    """

    setting: Setting
    name: str = ""
    differences: Facts = ()
    runs: tuple[StrategyResult, ...] = ()
    staged: tuple[TrainingRun, ...] = ()
    report_labels: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        return self.setting.kind

    @property
    def title(self) -> str:
        """Return the section's heading in a report: 'executed: model on dataset, device', and what tells it from others of that title."""
        return f"{self.setting}; {describe(self.differences)}" if self.differences else str(self.setting)

    @property
    def file(self) -> str:
        """Return what the names of the section's files begin with; '' in a report of one section."""
        return f"{self.name}-" if self.name else ""

    @property
    def comparable(self) -> list[StrategyResult]:
        """Return the section's results that did not fail."""
        return [run for run in self.runs if not run.failed]

    @property
    def baseline(self) -> str:
        """Return the strategy that a report compares others with: one of BASELINES when present, else the first; '' without any."""
        names = [run.strategy for run in self.comparable]
        return next((name for name in BASELINES if name in names), names[0] if names else "")

    @property
    def strategies(self) -> tuple[str, ...]:
        """Return names of the section's strategies, the baseline first, then in order of appearance."""
        names = [*([self.baseline] if self.baseline else []), *(run.strategy for run in self.runs)]
        return tuple(dict.fromkeys(names))

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of the section's curves: strategies in order, with the run's name where several runs have measured one."""
        place = {name: i for i, name in enumerate(self.strategies)}
        return tuple(dict.fromkeys(self.label(run) for run in sorted(self.runs, key=lambda run: place[run.strategy])))

    def label(self, run: StrategyResult) -> str:
        """Return what a report calls a result: the strategy's name, with that of the run where several runs have measured the same."""
        counts = Counter((other.strategy, other.ranks) for other in self.runs)
        several = any(name == run.strategy and count > 1 for (name, _), count in counts.items())
        return f"{run.strategy} ({run.run})" if several else run.strategy

    def by_ranks(self, results: Sequence[StrategyResult] | None = None) -> dict[int, list[StrategyResult]]:
        """Return results by number of ranks, ascending, strategies in the section's order. results: default: all of the section."""
        place = {name: i for i, name in enumerate(self.labels)}
        by_count: dict[int, list[StrategyResult]] = {}
        for run in sorted(self.runs if results is None else results, key=lambda run: (run.ranks, place[self.label(run)])):
            by_count.setdefault(run.ranks, []).append(run)
        return by_count

    def alike(self, results: Sequence[StrategyResult]) -> list[list[StrategyResult]]:
        """Return results on one number of ranks in groups that train on the same targets in the same order: only their epochs compare."""
        groups: dict[str, list[StrategyResult]] = {}
        for run in results:
            groups.setdefault(run.mathematics, []).append(run)
        return list(groups.values())

    def curve(self, label: str) -> list[StrategyResult]:
        """Return the comparable results of one label (a strategy's curve in a report's chart), ranks ascending."""
        return sorted((run for run in self.comparable if self.label(run) == label), key=lambda run: run.ranks)

    def base(self, run: StrategyResult) -> StrategyResult | None:
        """Return the baseline's result that a report compares `run` with: on the same ranks, of the same run where that has one; None where
        it trains otherwise, so that no ratio of epochs would mean anything."""
        named = [other for other in self.comparable if (other.strategy, other.ranks) == (self.baseline, run.ranks)]
        baselines = [other for other in named if other.mathematics == run.mathematics]
        return next((other for other in baselines if other.run == run.run), baselines[0] if baselines else None)


def sections(runs: Sequence[StrategyResult], staged: Sequence[TrainingRun] = ()) -> tuple[Section, ...]:
    """Group results into the sections of a report, one a setting: executed ones first, else in order of appearance.

    runs: of benchmarks and simulations. staged: training runs. Raises ValueError for two results of one run in the same setting, strategy
    and rank count.
    """
    doubled = [key for key, n in Counter((run.setting, run.run, run.strategy, run.ranks) for run in runs).items() if n > 1]
    if doubled:
        setting, run, strategy, ranks = doubled[0]
        raise ValueError(f"report: '{strategy}' has two results on {ranks} ranks in run '{run}', {setting}")
    settings = dict.fromkeys([*(run.setting for run in runs), *(run.setting for run in staged)])
    differ = differences(settings)
    parts = []
    for setting in sorted(settings, key=lambda setting_: setting_.kind != "executed"):
        results, trained = tuple(run for run in runs if run.setting == setting), tuple(run for run in staged if run.setting == setting)
        same_kind = [setting_ for setting_ in settings if setting_.kind == setting.kind]
        name = setting.kind + (f"-{same_kind.index(setting) + 1}" if len(same_kind) > 1 else "")
        parts.append(Section(setting, name if len(settings) > 1 else "", differ[setting], results, trained))
    labels = tuple(dict.fromkeys(label for part in parts for label in part.labels))
    return tuple(Section(part.setting, part.name, part.differences, part.runs, part.staged, labels) for part in parts)
