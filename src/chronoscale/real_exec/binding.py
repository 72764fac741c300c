"""Binding: the table from a schedule's kind to the program that executes it; every family (snapshots, signals, streams) adds its kinds."""

from __future__ import annotations

from collections.abc import Mapping

from chronoscale.errors import UserError
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import VirtualLanes, make_lanes
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.execution.program import Program
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.measurement.collectives import CollectiveProgram
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.real_exec.signals import binding as signals
from chronoscale.real_exec.snapshots import binding as snapshots
from chronoscale.real_exec.streams import binding as streams
from chronoscale.real_exec.training.plans import Kind
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import ModelChoice


def _collectives(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Program:
    return CollectiveProgram(schedule, context)


KINDS: Mapping[str, Kind] = {"collectives": Kind(_collectives), **snapshots.KINDS, **signals.KINDS, **streams.KINDS}


def kind_of(schedule: Schedule) -> Kind:
    """Return what executes and trains a schedule on a rank, found by the schedule's `kind` (`groups`, `windows`, `events`, …).

    Raises UserError for one that this version cannot execute.
    """
    if schedule.kind not in KINDS:
        raise UserError(f"schedule '{schedule.name}' is of kind '{schedule.kind}', which this version cannot execute")
    return KINDS[schedule.kind]


def bind_program(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Program:
    """Return the program that executes an item's schedule on this rank, its model untrained.

    item: the schedule's file, its dataset and hyper-parameters. context: device, rank and communication. Raises UserError as `kind_of` and
    the schedule's family do.
    """
    return kind_of(schedule).bind(item, schedule, choice, context)


def run_preparation(item: Item, choice: ModelChoice, context: Context) -> list[Pass]:
    """Execute the schedule that prepares an item's data (standardising a signal, for instance), once for all items with the same `prepare`.

    Called on every rank, before the item's own schedule is bound. Returns its measured pass; an empty list where there is no preparation,
    or an earlier item of the job has run it.
    """
    passes: list[Pass] = []

    def prepare() -> str:
        schedule = context.load_schedule(item.prepare)
        program = bind_program(item, schedule, choice, context)
        passes.append(
            execute(schedule, program, VirtualLanes() if context.virtual else make_lanes(context.device), device_name(context.device))
        )
        return item.prepare

    if item.prepare:
        context.share(("prepared", item.prepare), prepare)
    return passes
