"""Binding: from an item to the program that trains on its snapshots, for each kind of schedule."""

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
from chronoscale.real_exec.job import Item, Job
from chronoscale.real_exec.snapshots.cells.program import CellProgram
from chronoscale.real_exec.snapshots.evaluated_plans import BindTrainer, FixedPlans
from chronoscale.real_exec.snapshots.hybrid.program import HybridProgram
from chronoscale.real_exec.snapshots.material import SnapshotMaterial, shared_material
from chronoscale.real_exec.snapshots.model import SnapshotModel, learner_of
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.published_plans import PublishedPlans, newest_plan
from chronoscale.real_exec.snapshots.region import PartRegion, Region, WholeRegion
from chronoscale.real_exec.snapshots.sampled.program import SampledProgram
from chronoscale.real_exec.snapshots.scoring import MakeScoredSplits, ScoredProgram, group_splits, running_splits, window_splits
from chronoscale.real_exec.snapshots.trainer import Trainer
from chronoscale.real_exec.snapshots.windows.program import WindowProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.real_exec.training.plans import Kind, MakePlans, Plans
from chronoscale.records import read_array
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import ModelChoice


def _groups(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Trainer:
    material = shared_material(item, choice, context)
    return SnapshotProgram(schedule, material, learner_of(choice, context, material.objective.outputs(choice.hidden)), item.hyper, context)


def _snapshots(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Trainer:
    return _cells(item, schedule, WholeRegion(shared_material(item, choice, context)), choice, context)


def _parts(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Trainer:
    if not item.parts:
        raise UserError(f"schedule '{schedule.name}' runs on vertex parts, and its item names no partition")
    cut = VertexPartition(read_array(Path(item.parts), np.int32, (None,), "partition"), schedule.ranks)
    return _cells(item, schedule, PartRegion(shared_material(item, choice, context), cut, context.rank, context.device), choice, context)


def _cells(item: Item, schedule: Schedule, region: Region, choice: ModelChoice, context: Context) -> Trainer:
    return CellProgram(schedule, region, learner_of(choice, context, region.objective.outputs(choice.hidden)), item.hyper, context)


def _blocks(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Trainer:
    material = shared_material(item, choice, context)
    return WindowProgram(schedule, material, _chunks(item, schedule), _learner(choice, context, material), item.hyper, context)


def _hybrid(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Trainer:
    material = shared_material(item, choice, context)
    return HybridProgram(schedule, material, _chunks(item, schedule), _learner(choice, context, material), item.hyper, context)


def _sampled(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Trainer:
    material = shared_material(item, choice, context)
    return SampledProgram(schedule, material, _learner(choice, context, material), item.hyper, context)


def _chunks(item: Item, schedule: Schedule) -> Chunks:
    if not item.parts:
        raise UserError(f"schedule '{schedule.name}' runs on chunks, and its item names none")
    return Chunks(read_array(Path(item.parts), np.int32, (None,), "chunks"), item.hyper.recency.chunks)


def _learner(choice: ModelChoice, context: Context, material: SnapshotMaterial) -> Learner[SnapshotModel]:
    return learner_of(choice, context, material.objective.outputs(choice.hidden))


def _kind(bind: BindTrainer, plans: MakePlans | None = None, make_splits: MakeScoredSplits = group_splits) -> Kind:
    """Return a kind whose schedules `bind` executes; `make_splits` scores its model; one schedule trains it, or what `plans` say."""

    def tested(item: Item, schedule: Schedule, choice: ModelChoice, context: Context) -> Program:
        trainer = bind(item, schedule, choice, context)
        if not item.hyper.held.test:
            return trainer
        return ScoredProgram(trainer, make_splits(shared_material(item, choice, context), item.hyper, context, schedule), validates=False)

    return Kind(tested, plans or partial(FixedPlans, bind, make_splits))


def _plans_of_groups(job: Job, schedule: Schedule, context: Context) -> Plans:
    """Follow the plans that are published in the job's folder (REAL's stages); without any, the schedule alone."""
    if newest_plan(Path(job.out)) >= 0:
        return PublishedPlans(job, schedule, context)
    return FixedPlans(_groups, group_splits, job, schedule, context)


KINDS: Mapping[str, Kind] = {
    "groups": _kind(_groups, _plans_of_groups),
    "snapshots": _kind(_snapshots),
    "parts": _kind(_parts),
    "blocks": _kind(_blocks, make_splits=running_splits),
    "sampled": _kind(_sampled, make_splits=window_splits),
    "hybrid": _kind(_hybrid, make_splits=window_splits),
}
