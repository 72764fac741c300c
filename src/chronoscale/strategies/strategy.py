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
    """Planner, the base class of every training strategy: it turns a workload into the schedule of one epoch, and runs nothing. Order,
    placement on ranks, what is transferred and what overlaps are all in the rows of that schedule.

    name, title, source (paper and section), summary: class attributes, or fields where several strategies differ only in parameters.
    """

    name: str
    title: str
    source: str
    summary: str = ""  # what it does, one sentence
    ablates: str = ""  # the strategy of which it leaves out or changes a part, to show what that is worth
    family: ClassVar[str]  # of dynamic graphs that it plans for, as `Workload.family`
    kind: ClassVar[str]  # of its schedules, as `Schedule.kind`: what executes them
    executes: ClassVar[bool] = True  # False: planned from a model of its data; there is nothing that ranks could execute
    partitioned: ClassVar[bool] = False  # it plans with `Workload.partition`
    chunked: ClassVar[bool] = False  # it plans with `Workload.chunking`
    prepares: ClassVar[bool] = False  # something happens once, before the first epoch
    plans_incrementally: ClassVar[bool] = False  # it also plans `stretches`, so that an epoch need not be held
    solves: ClassVar[bool] = False  # planning takes what time it gets, so that a training run has to limit it

    @property
    def reads(self) -> frozenset[str] | None:
        """Keys of an experiment file, among those that only some strategies read, that this one reads, such as "training.cache_ratio"; None
        where that is unknown, so that it may be any."""
        return None

    @abstractmethod
    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan one training epoch on `ranks` ranks. costs: durations, for planners that choose by them. Raises UserError when the workload
        does not fit the strategy."""

    def sketch(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan a schedule with the same kinds of work quickly, from which a profile learns what to measure: the plan itself, unless the
        strategy `solves` (searches for a good plan for as long as it may).

        Raises UserError as `plan`.
        """
        return self.plan(workload, ranks, costs)

    @abstractmethod
    def rows(self, workload: Workload, ranks: int) -> int:
        """Estimate how many rows a plan will have before it is made, hardly ever too low, so that plans too large for memory are refused.
        Raises UserError as `plan`."""

    def stretches(self, workload: Workload, ranks: int, costs: CostModel, rows: int = ROWS) -> Iterator[Stretch]:
        """Plan the epoch piece by piece, so that long schedules need not be held at once: yield consecutive parts of about `rows` rows,
        each of one iteration at least; for a strategy that `plans_incrementally`.

        Raises UserError as `plan`, ValueError for another strategy.
        """
        raise ValueError(f"strategy '{self.name}' plans all of an epoch at once")

    def refuses(self, hyper: Hyper) -> str:
        """Return why the strategy cannot train with these hyper-parameters (what it does, and the key that stands against it), for a
        message to the user; '' where it can."""
        return ""

    def trained_work(self, workload: Workload, schedule: Schedule) -> TrainedWork:
        """Return what an epoch by this strategy's plan trains on, so that only equal work is compared by its time; by default unknown, and
        then the strategy is compared with no other."""
        return TrainedWork(0, self.name)

    def prepare(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan what happens once before the first epoch, such as copying the data set to devices, as a schedule of kind "preparation"; for
        a strategy that `prepares`.

        Raises UserError as `plan`, ValueError for another strategy.
        """
        raise ValueError(f"strategy '{self.name}' prepares nothing")
