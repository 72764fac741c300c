"""Binding: from an item to the program that trains on its events, for each kind of schedule."""

from __future__ import annotations

from collections.abc import Mapping

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.program import Program
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.streams.material import StreamMaterial
from chronoscale.real_exec.streams.plans import EventPlans
from chronoscale.real_exec.streams.program import EventProgram
from chronoscale.real_exec.streams.spread.plans import SpreadPlans
from chronoscale.real_exec.streams.spread.program import SpreadProgram
from chronoscale.real_exec.training.plans import Kind
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.streams.spread.sharing import Sharing
from chronoscale.strategies.workload import ModelChoice


def _events(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Program:
    material = StreamMaterial.of(item, choice, context)
    return EventProgram(schedule, material, material.learner(choice, context), item.hyper, context)


def _spread(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Program:
    material = StreamMaterial.of(item, choice, context)
    learner = material.learner(choice, context, Sharing.of(schedule).smooth)
    return SpreadProgram(schedule, material, learner, item.hyper, context)


KINDS: Mapping[str, Kind] = {"events": Kind(_events, EventPlans), "spread": Kind(_spread, SpreadPlans)}
