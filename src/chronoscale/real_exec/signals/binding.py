"""Binding: from an item to the program that trains on a signal's windows, and to the one that prepares for it."""

from __future__ import annotations

from collections.abc import Mapping

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.program import Program
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.signals.plans import SignalPlans
from chronoscale.real_exec.signals.program import PreparationProgram
from chronoscale.real_exec.signals.recipe import feed_of, learner_of, program_of
from chronoscale.real_exec.training.plans import Kind
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import ModelChoice


def _windows(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Program:
    return program_of(item, schedule, learner_of(item, choice, context), context)


def _preparation(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Program:
    return PreparationProgram(schedule, feed_of(item, schedule, context), context)


KINDS: Mapping[str, Kind] = {"windows": Kind(_windows, SignalPlans), "preparation": Kind(_preparation)}
