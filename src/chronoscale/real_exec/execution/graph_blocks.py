"""Blocks of rows that one CUDA graph may hold, and how the rows of a pass were launched."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from chronoscale.real_exec.execution.losses import LossShare
from chronoscale.real_exec.execution.task import Task
from chronoscale.strategies.schedule import Lane, Op

NOT_CAPTURED = "programs of this kind are not captured"


class GraphBlocks(ABC):
    """The rows of one rank's program, split into blocks that can be captured as CUDA graphs; a program that allows that has a subclass.

    Rows of a block read no host memory but pinned memory that stays where it is, and give the same operations on the same memory whenever
    they run. shares: the list of loss shares that rows add to; nothing else of Python's state is there when a block has been replayed.
    """

    shares: list[LossShare]

    @abstractmethod
    def of(self, task: Task) -> int | None:
        """Return the number, within a pass, of the CUDA graph's block that a row belongs to; None for a row that is launched by itself."""

    @abstractmethod
    def shape(self, rows: Sequence[Task]) -> Hashable:
        """Return a key for a block of rows; blocks with equal keys are served by one captured CUDA graph."""

    def load_inputs(self, rows: Sequence[Task]) -> None:
        """Copy a block's own inputs to the memory that its shape's CUDA graph reads; by default there are none.

        Called before every replay, on the lane of computation. rows: the block's.
        """
        return None


@dataclass(frozen=True, slots=True)
class MergedRows:
    """A rank's rows with every CUDA graph's block replaced by one row, `Op.GRAPH`, in the place and with the number of the block's last
    row.

    tasks: the rows that are left. rows: the rows of each block, by that number. stands: for each row of a block, that number.
    """

    tasks: list[Task]
    rows: Mapping[int, Sequence[Task]] = field(default_factory=dict)
    stands: Mapping[int, int] = field(default_factory=dict)


def merge_rows(tasks: Sequence[Task], blocks: GraphBlocks) -> MergedRows:
    """Replace each block of a rank's rows that becomes a CUDA graph by one row on the lane of computation.

    Raises ValueError where a row that is launched by itself lies within a block and depends on it (it would wait for itself), and where a
    row of a block is the host's work (it would be done once, when the block is captured).
    """
    members: dict[int, list[Task]] = {}
    for task in tasks:
        if (number := blocks.of(task)) is not None:
            if task.hosted:
                raise ValueError(f"row {task.task} is the host's work, which no CUDA graph does")
            members.setdefault(number, []).append(task)
    rows = {block[-1].task: block for block in members.values()}
    stands = {task.task: last for last, block in rows.items() for task in block}
    merged = list[Task]()
    ended = set[int]()
    for task in tasks:
        block = rows.get(task.task, () if task.task in stands else (task,))
        needs = {stands.get(need, need) for member in block for need in member.deps} - {task.task}
        if any(need in rows and need not in ended for need in needs):
            raise ValueError(f"row {task.task} waits for a CUDA graph that has not ended before it")
        if block:
            entry = task._replace(op=Op.GRAPH, lane=Lane.COMPUTE) if task.task in stands else task
            merged.append(entry._replace(deps=tuple(sorted(needs))))
            ended.add(task.task)
    return MergedRows(merged, rows, stands)
