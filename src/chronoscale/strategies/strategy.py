"""Strategy: the base class of planners, which turn a workload into a schedule and run nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.planning.stretch import ROWS, Stretch
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trained_work import TrainedWork
from chronoscale.strategies.workload import Hyper, Workload

MOST = 30_000_000  # rows that are planned at once where a strategy bounds them: some 12 GB while they are built


class Strategy(ABC):
    """A planner: it turns a workload into the schedule of an epoch. Order, placement, forms and overlap are all in the rows that it
    returns.

    name, title, source (paper and section), summary: class attributes, or fields where several strategies differ only in parameters.
    """

    name: str
    title: str
    source: str
    summary: str = ""  # what it does, one sentence
    family: ClassVar[str]  # of dynamic graphs that it plans for, as `Workload.family`
    kind: ClassVar[str]  # of its schedules, as `Schedule.kind`: what executes them
    executes: ClassVar[bool] = True  # False: planned from a model of its data; there is nothing that ranks could execute
    partitioned: ClassVar[bool] = False  # it plans with `Workload.partition`
    chunked: ClassVar[bool] = False  # it plans with `Workload.chunking`
    prepares: ClassVar[bool] = False  # something happens once, before the first epoch
    plans_incrementally: ClassVar[bool] = False  # it also plans `stretches`, so that an epoch need not be held
    solves: ClassVar[bool] = False  # planning takes what time it gets, so that a training run has to limit it

    @abstractmethod
    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan one epoch on `ranks` ranks. Raises UserError when the workload does not fit the strategy."""

    def sketch(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan a schedule of the same work quickly, for what a profile has to know of the plan: the plan itself, unless the strategy
        `solves`.

        Raises UserError as `plan`.
        """
        return self.plan(workload, ranks, costs)

    @abstractmethod
    def rows(self, workload: Workload, ranks: int) -> int:
        """Estimate the number of rows of a plan before any is made, hardly ever too low. Raises UserError as `plan`."""

    def stretches(self, workload: Workload, ranks: int, costs: CostModel, rows: int = ROWS) -> Iterator[Stretch]:
        """Plan the epoch as one stretch after another, of about `rows` rows and one iteration at least; for a strategy that
        `plans_incrementally`.

        Raises UserError as `plan`, ValueError for another strategy.
        """
        raise ValueError(f"strategy '{self.name}' plans all of an epoch at once")

    def refuses(self, hyper: Hyper) -> str:
        """Return why the strategy cannot train with these hyper-parameters: what it does, and the key that stands against it; '' where it
        can."""
        return ""

    def trained_work(self, workload: Workload, schedule: Schedule) -> TrainedWork:
        """Return what an epoch by this strategy's plan trains on, so that only equal work is compared by its time; by default unknown, and
        then the strategy is compared with no other."""
        return TrainedWork(0, self.name)

    def prepare(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan what happens once before the first epoch, a schedule of kind "preparation"; for a strategy that `prepares`.

        Raises UserError as `plan`, ValueError for another strategy.
        """
        raise ValueError(f"strategy '{self.name}' prepares nothing")
