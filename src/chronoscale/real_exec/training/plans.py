"""Plans: the schedules that a training follows, and what binds the schedules of a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.program import Program
from chronoscale.real_exec.job import Item, Job
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import ModelChoice

ENDED = "ended.json"  # in a training's folder, once its last epoch is over: `Ended`
TEST = "test.json"  # in a training's folder, where it has tested at its end: scores by key


class Plan(NamedTuple):
    """A schedule and what executes it; records of its epochs bear its number and the stage of training that it is for. `timed`: costs are
    fitted to its rows."""

    number: int
    stage: str
    schedule: Schedule
    program: Program
    timed: bool = False


@dataclass(frozen=True, slots=True)
class TrainingEnd:
    """ENDED. epochs: how many were trained. best: the one whose model is tested, None where that is the last."""

    epochs: int
    best: int | None = None


class Plans(Protocol):
    """What is trained, and by which plan at a time. All is called on every rank."""

    learner: Learner[Any]

    def at(self, epoch: int) -> Plan:
        """The plan of an epoch that is about to begin: the same object as before, or a new one."""
        ...

    def kept(self) -> Mapping[str, Tensor]:
        """What a checkpoint holds beside model and optimiser; most plans go on from these alone."""
        return {}

    def restore(self, kept: Mapping[str, Tensor]) -> None:
        """What `kept` gave, before the next epoch. Raises KeyError or RuntimeError for another model's."""
        return None

    def after_epoch(self, scores: Sequence[Mapping[str, float]]) -> bool:
        """After each epoch, before it is recorded; `scores` of all so far. Whether training ends with it."""
        return False

    def best(self, scores: Sequence[Mapping[str, float]]) -> int | None:
        """The epoch whose model `end` tests, of those with these scores; None where that is the last."""
        return None

    def end(self) -> None:
        """After the last epoch, also where an earlier process has trained it."""
        ...


MakePlans = Callable[[Job, Schedule, Context], Plans]


@dataclass(frozen=True, slots=True)
class Kind:
    """How schedules of one kind are executed, and trained by epoch after epoch where they can be."""

    bind: Callable[[Item, Schedule, ModelChoice, Context], Program]
    plans: MakePlans | None = None
