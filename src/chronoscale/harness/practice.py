"""Practice: what is done with the experiments of a family: count, store, probe, cut, train."""

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


class Candidate(NamedTuple):
    """A schedule that a profile may time, and the item of a job that does; `item()` writes its files."""

    label: str
    schedule: Schedule
    item: Callable[[], Item]


class Practice(ABC, Generic[E]):
    """Callers hold the object and never ask whose it is."""

    @abstractmethod
    def workload(self, experiment: E) -> Workload:
        """Statistics, model shape and hyper-parameters, to plan with; data are not kept. Raises UserError for data of another family,
        absent, or too short."""

    @abstractmethod
    def store(self, experiment: E, run: Run) -> Path:
        """The folder of the data that ranks read, prepared once a run. Raises UserError as `workload`."""

    @abstractmethod
    def stored(self, experiment: E, folder: Path) -> Workload:
        """The workload of what `store` has kept."""

    @abstractmethod
    def probed(self, planner: Strategy) -> str:
        """What a profile must have probed to know the strategy's costs."""

    @abstractmethod
    def probes(self, experiment: E, run: Run, folder: Path) -> Probes:
        """What a profile times. Files go to `folder`."""

    @abstractmethod
    def train(self, experiment: E, run: Run, rough: Callable[[], CostModel]) -> None:
        """Train `experiment.epochs` epochs on the largest of its rank counts with its first strategy, into the run's folder `train`; a run
        that was killed goes on after its last whole epoch. `rough()`: costs before anything is measured.

        Raises UserError before anything starts for a strategy that cannot, and for a schedule that does not fit in memory.
        """

    @abstractmethod
    def size(self, work: Workload) -> str:
        """How much there is, in a few words."""

    @abstractmethod
    def columns(self, work: Workload, schedule: Schedule) -> Mapping[str, object]:
        """What a dry run says of a schedule beside its tasks."""

    def rate(self, experiment: E, schedule: Schedule) -> float:
        """The learning rate of a schedule's largest step."""
        return experiment.training.learning_rate

    def divided(self, experiment: E, run: Run, folder: Path, work: Workload, ranks: int, planner: Strategy) -> tuple[str, Workload]:
        """How ranks divide vertices, for strategies that plan with it: the file that says so, made once a run ('': none), and the workload
        with what it comes to. Raises UserError where there is no such division."""
        return "", work

    def estimated(self, experiment: E, work: Workload, counts: Collection[int], run: Run | None) -> Mapping[int, Workload]:
        """The workload to simulate with, by number of ranks: with a division of vertices where a strategy plans with it, estimated where
        nothing can be cut, or no `run` keeps it. Raises UserError as `divided`."""
        return dict.fromkeys(counts, work)

    def notes(self, experiment: E, run: Run) -> list[str]:
        """What a reader of the run's results must know."""
        return []


class Probes(ABC):
    """What a profile times, for one number of ranks after another."""

    @abstractmethod
    def of(self, ranks: int) -> Iterator[Candidate]:
        """Whatever may be timed, what matters most first. Data that nobody takes are not kept."""
