"""Strategy: turns a workload into a schedule. It runs nothing."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import Family, Workload


class Strategy(Protocol):
    """A subclass plans one epoch. Everything it decides (order, placement, forms, overlap) is in the rows it returns."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def source(self) -> str:
        """Paper and section."""
        ...

    @property
    def family(self) -> Family: ...

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """One epoch on `ranks` ranks. Raises UserError when the workload does not fit the strategy."""
        ...


@runtime_checkable
class Prepares(Protocol):
    """A strategy with work to do before the first epoch, once."""

    def prepare(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """That work as a schedule of kind "preparation". Raises UserError when the workload does not fit the strategy."""
        ...
