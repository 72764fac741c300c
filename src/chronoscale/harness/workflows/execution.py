"""Execution: how the experiments of one family are executed here: probed and trained, with torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

import pandas as pd

from chronoscale.batching.rivals.rival import RivalScores
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.workflows.workflow import Workflow
from chronoscale.real_exec.job import Item, Job
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Schedule

E = TypeVar("E", bound=Experiment)


class ProbeCandidate(NamedTuple):
    """Short schedule that `chronoscale profile` may run on this machine to fit cost curves to the times of its rows.

    label: unique name, of its files, too. item: writes the schedule and its data to files, and returns what ranks execute (an item of a
    job); called only for a candidate that is chosen.
    """

    label: str
    schedule: Schedule
    item: Callable[[], Item]


class Probes(ABC):
    """Source of the probes (short schedules to time) of one experiment, for `chronoscale profile` and `chronoscale validate`."""

    @abstractmethod
    def of(self, ranks: int) -> Iterator[ProbeCandidate]:
        """Yield the probes that may be timed on `ranks` ranks, the most important first. Data of those that the caller does not take are
        dropped.
        """


PredictedPeriod = Literal["next", "test", "validation"]


class Execution(ABC, Generic[E]):
    """Steps of the command line that execute an experiment on this machine, and differ between the families of dynamic graphs. Commands
    use it without knowing the family.

    workflow: the steps before there is a schedule, of the same family.
    """

    def __init__(self, workflow: Workflow[E]) -> None:
        self.workflow = workflow

    @abstractmethod
    def probes(self, experiment: E, run: Run, folder: Path) -> Probes:
        """Return the short schedules that `chronoscale profile` may time for an experiment.

        run: keeps the stored data that they read. folder: where their own files go.
        """

    @abstractmethod
    def train(self, experiment: E, run: Run, rough_costs: Callable[[], CostModel]) -> None:
        """Train an experiment for `chronoscale train`: `experiment.epochs` epochs on the largest of its rank counts, with its first
        strategy, into the run's folder `train`.

        A run that was killed goes on after its last whole epoch. rough_costs: called for the costs to plan with before anything is
        measured. Raises UserError before anything starts for a strategy that cannot train, and for a schedule that does not fit in memory.
        """

    @abstractmethod
    def predictions(self, job: Job, period: PredictedPeriod | None) -> Iterator[pd.DataFrame]:
        """Yield the predictions of a model that `chronoscale train` has trained, as tables of the same columns, for `chronoscale predict`.

        job: of the training. period: what is predicted; None: what the family offers first. Raises UserError for a period that it has not,
        and for a training without a model.
        """

    def rivals(self, experiment: E, run: Run) -> Sequence[RivalScores]:
        """Return the scores on validation of predictions that train no network, which `chronoscale compare` puts beside trainings; none
        where the family has no such predictions. run: whose stored data are read."""
        return ()
