"""Executed: schedules run on this machine for a study, outside of any run folder."""

from __future__ import annotations

import tempfile
from pathlib import Path

from chronoscale.datasets import store
from chronoscale.datasets.snapshots import SnapshotSequence
from chronoscale.harness.prepare import load_passes
from chronoscale.real_exec.interpreter import Pass
from chronoscale.real_exec.job import Item, Job
from chronoscale.real_exec.launch import launch
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import Hyper, ModelShape


def passes(
    schedule: Schedule,
    snapshots: SnapshotSequence,
    model: ModelShape,
    hyper: Hyper,
    repeats: int,
    warmup: int = 0,
    learning_rate: float = 0.01,
) -> list[Pass]:
    """`repeats` passes of one schedule on as many ranks as it has; training goes on from pass to pass.

    Raises UserError or MachineError with the worker's own line when it fails.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store.save(folder / "snapshots", snapshots)
        schedule.save(folder / "schedule.parquet")
        item = Item("pass", str(folder / "schedule.parquet"), str(folder / "snapshots"), hyper)
        job = Job(
            name="study",
            items=(item,),
            out=str(folder),
            model=model.name,
            hidden=model.hidden,
            layers=model.layers,
            inputs=model.inputs,
            repeats=repeats,
            warmup=warmup,
            threads=1,
            learning_rate=learning_rate,
            device="cpu",
        )
        launch(job, schedule.ranks, folder)
        return load_passes(folder, "pass", repeats)
