"""Program: binds (dataset, model, operation) to code. Collectives alone are bound here, families in their folders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from chronoscale.datasets.scores import require_score
from chronoscale.real_exec.execution.blocks import NOT_CAPTURED, Blocks, Launched
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.notes import Note
from chronoscale.real_exec.execution.task import Task, tasks_of
from chronoscale.real_exec.ranks.collective import Collective
from chronoscale.strategies.schedule import Schedule


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
            require_score(key)


class Program(Protocol):
    """One rank's code for the rows of a schedule."""

    tasks: list[Task]
    collective: Collective

    @property
    def blocks(self) -> Blocks | str:
        """Its rows as blocks that a CUDA graph may hold, or in words why there are none."""
        return NOT_CAPTURED

    @property
    def launched(self) -> Launched | None:
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

    def sound(self, iteration: int) -> bool:
        """Whether what this rank read for an iteration is finite; asked when something was not."""
        return True

    def finish(self) -> EpochResult:
        """Called once after the last row of a pass, or where it stopped: what it came to."""
        ...

    def tested(self) -> Mapping[str, float]:
        """Scores of what is held out to test with, by key and the same on each rank; asked after the last pass of a job that is timed. Most
        programs have none."""
        return {}


class Losses:
    """A rank's shares of the losses of a pass; they stay on the device until it has ended."""

    def __init__(self) -> None:
        self.notes: list[Note] = []

    def add(self, iteration: int, share: Tensor) -> None:
        """A scalar, added to the iteration's others."""
        self.notes.append(Note(iteration, share.detach()))

    def finish(self) -> dict[int, float]:
        """Sums by iteration; the next pass starts from none."""
        shares: defaultdict[int, list[Tensor]] = defaultdict(list)
        for note in self.notes:
            shares[note.iteration].append(note.value)
        self.notes.clear()
        return {iteration: float(torch.stack(added).sum()) for iteration, added in shares.items()}


class CollectiveProgram(Program):
    """Executes schedules of collectives alone, to measure them."""

    def __init__(self, schedule: Schedule, context: Context) -> None:
        self.tasks, self.collective = tasks_of(schedule, context.rank), context.collective
        self._values = {task.bytes: torch.zeros(task.bytes // 4, device=context.device) for task in self.tasks}

    def run(self, task: Task) -> None:
        """All-reduce of `task.bytes` bytes of fp32."""
        self.collective.all_reduce(self._values[task.bytes])

    def finish(self) -> EpochResult:
        """Nothing is trained."""
        return EpochResult()
