"""Strategy: turns a workload into a schedule. It runs nothing, and says of itself what it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.planning.stretch import ROWS, Stretch
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import Hyper, Workload

MOST = 30_000_000  # rows that are planned at once where a strategy bounds them: some 12 GB while they are built


class Strategy(ABC):
    """A subclass plans one epoch. Everything it decides (order, placement, forms, overlap) is in the rows it returns.

    name, title, source (paper and section): class attributes, or fields where several strategies differ in parameters alone.
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
        """One epoch on `ranks` ranks. Raises UserError when the workload does not fit the strategy."""

    def sketch(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """A schedule of the same work that is made at once: what a profile has to know of the plan. By default the plan; one that `solves`
        has another. Raises UserError as `plan`."""
        return self.plan(workload, ranks, costs)

    @abstractmethod
    def rows(self, workload: Workload, ranks: int) -> int:
        """About how many rows a plan has, and hardly fewer than it will have; reckoned before any is made. Raises UserError as `plan`."""

    def stretches(self, workload: Workload, ranks: int, costs: CostModel, rows: int = ROWS) -> Iterator[Stretch]:
        """The epoch of `plan` as one stretch after another, of a strategy that `streams`; each has about `rows` rows, and an iteration at
        least. Raises UserError as `plan`."""
        raise ValueError(f"strategy '{self.name}' plans all of an epoch at once")

    def refuses(self, hyper: Hyper) -> str:
        """Why it cannot train as `hyper` says: what it does, and the key that stands against it; '' where it can."""
        return ""

    def prepare(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """What happens once as a schedule of kind "preparation", of a strategy that `prepares`. Raises UserError as `plan`."""
        raise ValueError(f"strategy '{self.name}' prepares nothing")
