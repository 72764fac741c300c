"""Plans: the schedules that a training follows, and what binds the schedules of a kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from chronoscale.real_exec.context import Context
from chronoscale.real_exec.job import Item, Job
from chronoscale.real_exec.learner import Learner
from chronoscale.real_exec.program import Program
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import ModelChoice

TEST = "test.json"  # in a training's folder, where it has tested at its end: scores by key


class Plan(NamedTuple):
    """A schedule and what executes it; records of its epochs bear its number and the stage of training that it is for."""

    number: int
    stage: str
    schedule: Schedule
    program: Program


class Plans(Protocol):
    """What is trained, and by which plan at a time. All is called on every rank."""

    learner: Learner[Any]

    def at(self, epoch: int) -> Plan:
        """The plan of an epoch that is about to begin: the same object as before, or a new one."""
        ...

    def end(self) -> None:
        """After the last epoch, also where an earlier process has trained it."""
        ...


@dataclass(frozen=True, slots=True)
class Kind:
    """How schedules of one kind are executed, and trained by epoch after epoch where they can be."""

    bind: Callable[[Item, Schedule, ModelChoice, Context], Program]
    plans: Callable[[Job, Schedule, Context], Plans] | None = None
