"""Program: the code that executes one rank's rows; each family of datasets has its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from chronoscale.datasets.scores import require_score
from chronoscale.real_exec.communication.collective import Collective
from chronoscale.real_exec.execution.graph_blocks import NOT_CAPTURED, GraphBlocks
from chronoscale.real_exec.execution.launch_summary import LaunchSummary
from chronoscale.real_exec.execution.task import Task


@dataclass(frozen=True, slots=True, eq=False)
class EpochResult:
    """Results of a pass of training on one rank.

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
    """Code that executes one rank's rows of a schedule, `tasks`, for real: a model, its data and what an operation does with them."""

    tasks: list[Task]
    collective: Collective

    @property
    def graph_blocks(self) -> GraphBlocks | str:
        """Return the blocks of this rank's rows that CUDA graphs may hold, or in words why there are none."""
        return NOT_CAPTURED

    @property
    def launched(self) -> LaunchSummary | None:
        """Return how this rank's rows of the last pass were launched, where CUDA graphs were requested; else None."""
        return None

    @property
    def stands(self) -> Mapping[int, int]:
        """Return, for each row of the last pass that was inside a CUDA graph, the row that stands for the graph, by row numbers."""
        return {}

    def begin(self) -> None:
        """Prepare this rank for a pass; called once, before its first row."""
        return None

    def run(self, task: Task) -> None:
        """Execute one row of the schedule on this rank. Raises KeyError for an operation that the program does not have."""
        ...

    def check(self) -> None:
        """Check the numbers of a pass on this rank; called once, after its last row.

        Raises NonFiniteValue, on all ranks alike, where the pass left a value that is not finite.
        """
        return None

    def inputs_finite(self, iteration: int) -> bool:
        """Return whether the inputs that this rank read for an iteration are finite; called only after a result was not."""
        return True

    def finish(self) -> EpochResult:
        """Return this rank's results of a pass; called once, after its last row, or where it stopped."""
        ...

    def test_scores(self) -> Mapping[str, float]:
        """Return scores of the trained model on the held-out test data, by key, the same on each rank; called after the last pass of a job
        that is timed.
        """
        return {}
