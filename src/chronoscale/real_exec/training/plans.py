"""Plans: the schedules that a training follows; and `Kind`, what executes and trains schedules of one kind."""

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


class Plan(NamedTuple):
    """A schedule that an epoch of real training follows, and this rank's program that executes it.

    number, stage: written to the records of its epochs. timed: costs are fitted to the times of its rows.
    """

    number: int
    stage: str
    schedule: Schedule
    program: Program
    timed: bool = False


class Plans(Protocol):
    """The schedules that a training follows, one at a time, and what happens between its epochs. All methods are called on every rank."""

    learner: Learner[Any]

    def at(self, epoch: int) -> Plan:
        """Return the schedule and program of the epoch that is about to begin: the same object as before, or a new one."""
        ...

    def extra_state(self) -> Mapping[str, Tensor]:
        """Return what a checkpoint of the training holds besides model and optimiser: nothing, for most plans."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore on this rank the state that `extra_state` returned, before the next epoch.

        Raises KeyError or RuntimeError for another model's.
        """
        return None

    def after_epoch(self, scores: Sequence[Mapping[str, float]]) -> bool:
        """Do what follows a trained epoch, before it is recorded; return whether the training ends with it.

        scores: validation scores of all epochs so far, by key.
        """
        return False

    def best(self, scores: Sequence[Mapping[str, float]]) -> int | None:
        """Return the epoch whose model `end` tests, given the validation scores of all epochs; None where that is the last."""
        return None

    def end(self) -> None:
        """Finish the training after its last epoch: test the model. Also called where an earlier process has trained that epoch."""
        ...


MakePlans = Callable[[Job, Schedule, Context], Plans]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of schedules: `bind` makes the program that executes one on a rank, `plans` what trains by it epoch after epoch (None: nothing
    does).
    """

    bind: Callable[[Item, Schedule, ModelChoice, Context], Program]
    plans: MakePlans | None = None
