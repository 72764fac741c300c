"""Report: results of runs before they are drawn. What does not compare stands in sections of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chronoscale.reports.advice import Advice
from chronoscale.reports.attachment import Attachment
from chronoscale.reports.section import Section, sections
from chronoscale.reports.strategy_result import StrategyResult
from chronoscale.reports.training_run import TrainingRun


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """Contents of a report before they are drawn: results of runs, grouped into sections whose figures compare.

    runs: results of benchmarks and simulations. staged: training runs. advice: of `chronoscale advise`. notes: warnings that must be seen.
    environments: of each run, hardware, versions, commit. attachments: files of the folder in others' forms. sections: made of `runs` and
    `staged`.

    Raises ValueError for two results of one run in the same setting, strategy and rank count.
    """

    title: str
    subtitle: str = ""
    runs: tuple[StrategyResult, ...] = ()
    notes: tuple[str, ...] = ()
    environments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    staged: tuple[TrainingRun, ...] = ()
    advice: tuple[Advice, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    sections: tuple[Section, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sections", sections(self.runs, self.staged))

    @property
    def environment(self) -> dict[str, str]:
        """Return the hardware and versions of the report's runs, once where all runs share them, else with the run's name."""
        shared = {}
        for name in dict.fromkeys(name for environment in self.environments.values() for name in environment):
            values = {run: environment.get(name, "none") for run, environment in self.environments.items()}
            all_equal = len(set(values.values())) == 1
            shared[name] = next(iter(values.values())) if all_equal else "; ".join(f"{value} ({run})" for run, value in values.items())
        return shared
