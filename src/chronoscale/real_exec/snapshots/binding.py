"""Binding: from an item to the program that trains on its snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from chronoscale.batching.snapshots.chunks import Chunks
from chronoscale.batching.snapshots.partition import VertexPartition
from chronoscale.errors import UserError
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.program import Program
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.snapshots.cells.program import CellProgram
from chronoscale.real_exec.snapshots.hybrid.program import HybridProgram
from chronoscale.real_exec.snapshots.material import Material, shared
from chronoscale.real_exec.snapshots.model import SnapshotModel, learner_of
from chronoscale.real_exec.snapshots.plans import PublishedPlans
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.region import Part, Region, Whole
from chronoscale.real_exec.snapshots.sampled.program import SampledProgram
from chronoscale.real_exec.snapshots.scored import Judging, Scored, Trainer, grouped, running, windowed
from chronoscale.real_exec.snapshots.steady import Bind, SteadyPlans
from chronoscale.real_exec.snapshots.windows.program import WindowProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.real_exec.training.plans import Follow, Kind
from chronoscale.records import read_array
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import ModelChoice


def _groups(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Trainer:
    material = shared(item, choice, context)
    return SnapshotProgram(schedule, material, learner_of(choice, context, material.objective.outputs), item.hyper, context)


def _snapshots(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Trainer:
    return _cells(item, schedule, Whole(shared(item, choice, context)), choice, context)


def _parts(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Trainer:
    if not item.parts:
        raise UserError(f"schedule '{schedule.name}' runs on vertex parts, and its item names no partition")
    cut = VertexPartition(read_array(Path(item.parts), np.int32, (None,), "partition"), schedule.ranks)
    return _cells(item, schedule, Part(shared(item, choice, context), cut, context.rank, context.device), choice, context)


def _cells(item: Item, schedule: Schedule, region: Region, choice: ModelChoice, context: Context) -> Trainer:
    return CellProgram(schedule, region, learner_of(choice, context, region.objective.outputs), item.hyper, context)


def _blocks(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Trainer:
    material = shared(item, choice, context)
    return WindowProgram(schedule, material, _chunks(item, schedule), _learner(choice, context, material), item.hyper, context)


def _hybrid(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Trainer:
    material = shared(item, choice, context)
    return HybridProgram(schedule, material, _chunks(item, schedule), _learner(choice, context, material), item.hyper, context)


def _sampled(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Trainer:
    material = shared(item, choice, context)
    return SampledProgram(schedule, material, _learner(choice, context, material), item.hyper, context)


def _chunks(item: Item, schedule: Schedule) -> Chunks:
    if not item.parts:
        raise UserError(f"schedule '{schedule.name}' runs on chunks, and its item names none")
    return Chunks(read_array(Path(item.parts), np.int32, (None,), "chunks"), item.hyper.recency.chunks)


def _learner(choice: ModelChoice, context: Context, material: Material) -> Learner[SnapshotModel]:
    return learner_of(choice, context, material.objective.outputs)


def _kind(bind: Bind, plans: Follow | None = None, judging: Judging = grouped) -> Kind:
    """Of schedules that `bind` executes, whose model `judging` scores on what is held out; trained by one schedule, or as `plans` say."""

    def tested(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Program:
        trainer = bind(item, schedule, choice, context)
        if not item.hyper.held.test:
            return trainer
        return Scored(trainer, judging(shared(item, choice, context), item.hyper, context, schedule), validates=False)

    return Kind(tested, plans or partial(SteadyPlans, bind, judging))


KINDS: Mapping[str, Kind] = {
    "groups": _kind(_groups, PublishedPlans),
    "snapshots": _kind(_snapshots),
    "parts": _kind(_parts),
    "blocks": _kind(_blocks, judging=running),
    "sampled": _kind(_sampled, judging=windowed),
    "hybrid": _kind(_hybrid, judging=windowed),
}
