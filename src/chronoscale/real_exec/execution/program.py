"""Program: binds (dataset, model, operation) to code. Collectives alone are bound here, families in their folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from chronoscale.datasets.scores import known
from chronoscale.real_exec.communication.collective import Collective
from chronoscale.real_exec.execution.graph_blocks import NOT_CAPTURED, GraphBlocks, LaunchSummary
from chronoscale.real_exec.execution.task import Task


@dataclass(frozen=True, slots=True, eq=False)
class EpochResult:
    """`losses`: this rank's share of the loss of each iteration; shares of all ranks sum to the loss.

    scores: of what validated on all ranks, by key and the same on each rank; none where nothing did. counts: of what all ranks exchanged
    that no plan knows, by name. Raises ValueError for another key of a score.
    """

    losses: Mapping[int, float] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in self.scores:
            known(key)


class Program(Protocol):
    """One rank's code for the rows of a schedule."""

    tasks: list[Task]
    collective: Collective

    @property
    def graph_blocks(self) -> GraphBlocks | str:
        """Its rows as blocks that a CUDA graph may hold, or in words why there are none."""
        return NOT_CAPTURED

    @property
    def launched(self) -> LaunchSummary | None:
        """How the rows of the last pass were launched, where graphs were asked for."""
        return None

    @property
    def stands(self) -> Mapping[int, int]:
        """Of the last pass, for each row that was in a CUDA graph the row that stands for all of it."""
        return {}

    def begin(self) -> None:
        """Called once before the first row of a pass; most programs have nothing to do."""
        return None

    def run(self, task: Task) -> None:
        """Execute one row."""
        ...

    def check(self) -> None:
        """Called once after the last row of a pass. Raises Unsound where its training left what is not finite, on all ranks alike."""
        return None

    def inputs_finite(self, iteration: int) -> bool:
        """Whether what this rank read for an iteration is finite; asked when something was not."""
        return True

    def finish(self) -> EpochResult:
        """Called once after the last row of a pass, or where it stopped: what it came to."""
        ...

    def test_scores(self) -> Mapping[str, float]:
        """Scores of what is held out to test with, by key and the same on each rank; asked after the last pass of a job that is timed. Most
        programs have none."""
        return {}
