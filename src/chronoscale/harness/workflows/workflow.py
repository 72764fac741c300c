"""Workflow: how the experiments of one family come to what is planned with: data stored, counted, partitioned. It needs no torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.runs.run_folder import Run
from chronoscale.reports.attachment import Attachment
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload

E = TypeVar("E", bound=Experiment)


class Workflow(ABC, Generic[E]):
    """Steps of the command line that differ between the families of dynamic graphs (snapshots, event streams, signals): how an experiment's
    data are opened, stored, counted and cut. Commands use it without knowing the family; those that execute, `Execution` besides.
    """

    @abstractmethod
    def workload(self, experiment: E) -> Workload:
        """Return the counts of an experiment's dataset, its model's shape and its hyper-parameters, to plan and simulate with; the data
        themselves are dropped.

        Raises UserError for data of another family, absent, or too short.
        """

    @abstractmethod
    def store(self, experiment: E, run: Run) -> Path:
        """Store an experiment's data in the format that ranks read, for `chronoscale bench` and `train`; return their folder.

        They are stored once a run, as a piece of it. Raises UserError as `workload`.
        """

    @abstractmethod
    def stored(self, experiment: E, folder: Path) -> Workload:
        """Return the counts, model's shape and hyper-parameters to plan with, of the data that `store` has put in `folder`."""

    @abstractmethod
    def size(self, work: Workload) -> str:
        """Describe how large a workload is in a few words, for the title of `--dry-run`'s table, such as "52 snapshots"."""

    @abstractmethod
    def columns(self, work: Workload, schedule: Schedule) -> Mapping[str, object]:
        """Return what `--dry-run` prints of a strategy's schedule beside its number of tasks: column -> value."""

    def rate(self, experiment: E, schedule: Schedule) -> float:
        """Return the learning rate of the largest optimiser step of a schedule, for the column `learning_rate` of `chronoscale bench`."""
        return experiment.training.learning_rate

    def partition(self, experiment: E, run: Run, folder: Path, work: Workload, ranks: int, planner: Strategy) -> tuple[str, Workload]:
        """Cut the experiment's graph over ranks before its strategies are planned and executed here, for a strategy that plans with that.

        Returns the file of the partition, made once a run ('': the strategy needs none), and `work` with the partition's counts. folder: of
        the stored data. Raises UserError where the graph cannot be cut so.
        """
        return "", work

    def partition_for_simulation(self, experiment: E, work: Workload, counts: Collection[int], run: Run | None) -> Mapping[int, Workload]:
        """Return the workload to simulate on each number of GPUs: with a graph partition where one of the experiment's strategies plans
        with it.

        counts: numbers of GPUs. run: keeps the partition; None: nothing is cut, and counts of a random partition are estimated. Raises
        UserError as `partition`.
        """
        return dict.fromkeys(counts, work)

    def notes(self, experiment: E, run: Run) -> list[str]:
        """Return sentences that a report prints beside a run's results, such as what was left out of an epoch."""
        return []

    def attachment(self, runs: Sequence[tuple[E, Run]]) -> Attachment | None:
        """Return the results of runs as somebody else's benchmark takes them, a file of a report; None where none of them has any."""
        return None
