"""Binding: from an item to the program that trains on its snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from chronoscale.datasets.snapshots.partition import Cut
from chronoscale.errors import UserError
from chronoscale.kept import read_array
from chronoscale.real_exec.context import Context
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.plans import Kind
from chronoscale.real_exec.program import Program
from chronoscale.real_exec.snapshots.cells.program import CellProgram
from chronoscale.real_exec.snapshots.material import shared
from chronoscale.real_exec.snapshots.model import learner_of
from chronoscale.real_exec.snapshots.plans import PublishedPlans
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.region import Part, Region, Whole
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import ModelChoice


def _groups(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Program:
    material = shared(item, choice, context)
    return SnapshotProgram(schedule, material, learner_of(choice, context, material.objective.outputs), item.hyper, context)


def _snapshots(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Program:
    return _cells(item, schedule, Whole(shared(item, choice, context)), choice, context)


def _parts(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Program:
    if not item.parts:
        raise UserError(f"schedule '{schedule.name}' runs on vertex parts, and its item names no partition")
    cut = Cut(read_array(Path(item.parts), np.int32, (None,), "partition"), schedule.ranks)
    return _cells(item, schedule, Part(shared(item, choice, context), cut, context.rank, context.device), choice, context)


def _cells(item: Item, schedule: Schedule, region: Region, choice: ModelChoice, context: Context) -> Program:
    return CellProgram(schedule, region, learner_of(choice, context, region.objective.outputs), item.hyper, context)


KINDS: Mapping[str, Kind] = {"groups": Kind(_groups, PublishedPlans), "snapshots": Kind(_snapshots), "parts": Kind(_parts)}
