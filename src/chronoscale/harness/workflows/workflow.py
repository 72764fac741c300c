"""Workflow: how the experiments of one family are run: data stored, planned with, partitioned, probed and trained on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.runs.run_folder import Run
from chronoscale.real_exec.job import Item
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload

E = TypeVar("E", bound=Experiment)


class ProbeCandidate(NamedTuple):
    """A schedule that a profile may time, and the item of a job that does; `item()` writes its files."""

    label: str
    schedule: Schedule
    item: Callable[[], Item]


class Probes(ABC):
    """What a profile of one experiment may time."""

    @abstractmethod
    def of(self, ranks: int) -> Iterator[ProbeCandidate]:
        """Yield whatever may be timed on `ranks` ranks, what matters most first. Data that nobody takes are not kept."""


class Workflow(ABC, Generic[E]):
    """How a family's experiments are run. Callers hold the object and never ask which family it is of."""

    @abstractmethod
    def workload(self, experiment: E) -> Workload:
        """Return statistics, model shape and hyper-parameters, to plan with; data are not kept.

        Raises UserError for data of another family, absent, or too short.
        """

    @abstractmethod
    def store(self, experiment: E, run: Run) -> Path:
        """Prepare the data that ranks read, once a run, and return their folder. Raises UserError as `workload`."""

    @abstractmethod
    def stored(self, experiment: E, folder: Path) -> Workload:
        """Return the workload of the data that `store` has prepared in `folder`."""

    @abstractmethod
    def probes(self, experiment: E, run: Run, folder: Path) -> Probes:
        """Return what a profile may time. Files go to `folder`."""

    @abstractmethod
    def train(self, experiment: E, run: Run, rough_costs: Callable[[], CostModel]) -> None:
        """Train `experiment.epochs` epochs on the largest of its rank counts with its first strategy, into the run's folder `train`.

        A run that was killed goes on after its last whole epoch. rough_costs: returns costs before anything is measured. Raises
        UserError before anything starts for a strategy that cannot train, and for a schedule that does not fit in memory.
        """

    @abstractmethod
    def size(self, work: Workload) -> str:
        """Say how large a workload is, in a few words."""

    @abstractmethod
    def columns(self, work: Workload, schedule: Schedule) -> Mapping[str, object]:
        """Return what a dry run says of a schedule beside its tasks, by column."""

    def rate(self, experiment: E, schedule: Schedule) -> float:
        """Return the learning rate of a schedule's largest step."""
        return experiment.training.learning_rate

    def partition(self, experiment: E, run: Run, folder: Path, work: Workload, ranks: int, planner: Strategy) -> tuple[str, Workload]:
        """Partition the graph over ranks, for strategies that plan with it: return the partition's file, made once a run ('': none), and
        the workload with the partition's counts. Raises UserError where there is no such partition."""
        return "", work

    def partition_for_simulation(self, experiment: E, work: Workload, counts: Collection[int], run: Run | None) -> Mapping[int, Workload]:
        """Return the workload to simulate with, by number of ranks: with a partition where a strategy plans with it, estimated where
        nothing can be cut, or no `run` keeps it. Raises UserError as `partition`."""
        return dict.fromkeys(counts, work)

    def notes(self, experiment: E, run: Run) -> list[str]:
        """Return sentences that a reader of the run's results must know."""
        return []
