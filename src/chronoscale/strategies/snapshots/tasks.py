"""Tasks: what is predicted on snapshots, by name, and what models read for it; their losses are `real_exec.snapshots.objective`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.arrays import Float32, Int32
from chronoscale.datasets.snapshots.sequence import Snapshot
from chronoscale.errors import UserError, unknown

Degree = Callable[[Snapshot], Int32]
DEGREES: tuple[Degree, ...] = (Snapshot.in_degree, Snapshot.out_degree)


@dataclass(frozen=True, slots=True)
class SnapshotTask:
    """Prediction task on snapshots (`training.task`): which degrees d of every node are read and predicted, as log(1 + d).

    Without `read` features are a dataset's own, or generated ones, the same in all snapshots; without `predicted` each node's class is
    predicted, or, of `pairs`, whether there is an edge between two nodes.

    The decoder of pairs is bilinear: the model's readout maps a node's representation [H] to 2 H numbers, H of it as the source of an edge
    and H as its destination; an edge's score is their product over sqrt(H). So all that is trained lies in the readout, which runs node by
    node, is counted in the model's shape, and sees both directions of an edge apart.
    """

    name: str
    read: tuple[Degree, ...] = ()
    predicted: tuple[Degree, ...] = ()
    pairs: bool = False

    @property
    def varies(self) -> bool:
        """Whether every snapshot has input features of its own under this task."""
        return bool(self.read)

    @property
    def classifies(self) -> bool:
        """Whether the task predicts classes of nodes, not numbers."""
        return not (self.predicted or self.pairs)

    def inputs(self, asked: int) -> int:
        """Return how many input features a node has under this task: the task's own, or as many as the experiment asks for (`asked`)."""
        return len(self.read) or asked

    def outputs(self, classes: int, dataset: str, hidden: int) -> int:
        """Return how many numbers are predicted of a node under this task: degrees, one a class, or both ends of an edge, each as wide as
        the model (`hidden`). Raises UserError for a dataset without classes where they are predicted."""
        if self.classifies and not classes:
            raise UserError(f"training.task: '{self.name}' predicts classes of nodes, dataset '{dataset}' has none")
        return 2 * hidden if self.pairs else len(self.predicted) or classes

    def features(self, snapshot: Snapshot) -> Float32:
        """Return the input features that models read of a snapshot under this task, float32 [N, F]; for a task that `varies`."""
        return _logarithms(snapshot, self.read)

    def goal(self, snapshot: Snapshot) -> Float32:
        """Return the numbers that models shall predict of a snapshot under this task, float32 [N, outputs]; for a task that
        predicts degrees."""
        return _logarithms(snapshot, self.predicted)


def _logarithms(snapshot: Snapshot, degrees: tuple[Degree, ...]) -> Float32:
    """Return log(1 + degree) of every node, float32 [N, degrees]."""
    return np.stack([np.log1p(degree(snapshot)) for degree in degrees], axis=1).astype(np.float32)


TASKS: Mapping[str, SnapshotTask] = {
    task.name: task
    for task in (
        SnapshotTask("in-degree", predicted=DEGREES[:1]),
        SnapshotTask("degrees", DEGREES, DEGREES),
        SnapshotTask("classes"),
        SnapshotTask("links", pairs=True),
    )
}


def task_of(name: str) -> SnapshotTask:
    """Return a prediction task on snapshots by its name in experiments (`training.task`). Raises UserError for an unknown one, with the
    nearest."""
    if name not in TASKS:
        raise unknown("training.task", name, TASKS)
    return TASKS[name]
