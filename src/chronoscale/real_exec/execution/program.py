"""Program: the code that executes one rank's rows; each family of datasets has its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from chronoscale.datasets.scores import require_score
from chronoscale.real_exec.communication.collective import Collective
from chronoscale.real_exec.execution.graph_blocks import NOT_CAPTURED, GraphBlocks, LaunchSummary
from chronoscale.real_exec.execution.task import Task


@dataclass(frozen=True, slots=True, eq=False)
class EpochResult:
    """Results of a pass of training.

    losses: this rank's share of the loss of each iteration; the shares of all ranks sum to the loss. scores: of validation on all ranks, by
    key, the same on each rank; empty where nothing validates. counts: what all ranks have exchanged that no plan knows beforehand, by name.
    Raises ValueError for an unknown key of a score.
    """

    losses: Mapping[int, float] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in self.scores:
            require_score(key)


class Program(Protocol):
    """One rank's code for the rows of a schedule, `tasks`."""

    tasks: list[Task]
    collective: Collective

    @property
    def graph_blocks(self) -> GraphBlocks | str:
        """Return the blocks of rows that CUDA graphs may hold, or in words why there are none."""
        return NOT_CAPTURED

    @property
    def launched(self) -> LaunchSummary | None:
        """Return how the rows of the last pass were launched, where CUDA graphs were asked for."""
        return None

    @property
    def stands(self) -> Mapping[int, int]:
        """Return, for each row of the last pass that was inside a CUDA graph, the row that stands for the graph."""
        return {}

    def begin(self) -> None:
        """Prepare for a pass; called once, before its first row."""
        return None

    def run(self, task: Task) -> None:
        """Execute one row. Raises KeyError for an operation that the program does not have."""
        ...

    def check(self) -> None:
        """Raise NonFiniteValue, on all ranks alike, where the pass left a value that is not finite; called once, after its last row."""
        return None

    def inputs_finite(self, iteration: int) -> bool:
        """Return whether what this rank read for an iteration is finite; asked only when something was not."""
        return True

    def finish(self) -> EpochResult:
        """Return the results of a pass; called once, after its last row, or where it stopped."""
        ...

    def test_scores(self) -> Mapping[str, float]:
        """Return scores of the held-out test data, by key, the same on each rank; asked after the last pass of a job that is timed."""
        return {}
