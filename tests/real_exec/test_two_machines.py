"""Two machines as two processes of a launcher, with ranks, folders and files of their own: what they learn is what one machine does.

Real network namespaces, and torchrun, are in test_machines.py; here the processes are threads of this one, and their ranks come from its
server.
"""

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from attached_cases import meet

from chronoscale.batching.snapshots.held_out import HeldOut
from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import MachineError
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.ranks import attached
from chronoscale.real_exec.ranks.attached_rank import run_attached
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.real_exec.snapshots.published_plans import plan_folder
from chronoscale.real_exec.training.epoch_loop import ENTRY
from chronoscale.real_exec.training.epoch_record import EpochRecord, epoch_records
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload

GRAPHS = GrowthGraph.rmat(64, 300, 14, 0.1, 1).sequence().without_self_edges()
WORK = Workload("w", statistics_of(GRAPHS), model_shape("t-gcn", 8, 8), Hyper(held=HeldOut(0.2, 0.3)))


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A training by a plan that lies in its folder, scored on snapshots that it does not train on."""
    store.save(tmp_path / "data", GRAPHS)
    folder = tmp_path / "train"
    (folder / "epochs").mkdir(parents=True)
    (plan := plan_folder(folder, 0)).mkdir(parents=True)
    strategy("psg").plan(WORK, 2, UNUSED).save(plan / "schedule.parquet")
    (plan / "plan.json").write_text(json.dumps({"stage": "cold start"}))
    item = Item("train", str(plan / "schedule.parquet"), str(tmp_path / "data"), WORK.hyper)
    return Job("train", (item,), str(folder), ModelChoice("t-gcn", 8, 1, 8), 3, settings=Settings(seed=5, device="cpu"))


@pytest.fixture
def two_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`launch` has the second machine attend until the test is over."""
    first, second = meet(tmp_path, monkeypatch, machines=2)
    monkeypatch.setattr(attached, "_own", first)
    with ThreadPoolExecutor() as threads:
        attending = threads.submit(second.attend, partial(run_attached, second.starter, lambda _: None), pytest.fail)
        yield
        first.close(0)
        assert attending.result() == 0
    assert not list((tmp_path / "tmp").glob("chronoscale-attached-*"))


def learnt(job: Job) -> list[tuple[tuple[float, ...], object]]:
    """Losses and scores of the epochs, and at the end of the test."""
    records: list[EpochRecord] = epoch_records(Path(job.out))
    return [*((record.losses, record.scores) for record in records), ((), json.loads((Path(job.out) / "test.json").read_text()))]


def test_a_training_is_that_of_one_machine(job: Job, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Ended after its first epoch, it goes on with the model, and the best one, that only the first machine has kept."""
    alone = replace(job, out=str(tmp_path / "alone"))
    shutil.copytree(job.out, alone.out)
    launch(alone, 2, Path(alone.out), entry=ENTRY)
    request.getfixturevalue("two_machines")
    launch(replace(job, repeats=1), 2, Path(job.out), entry=ENTRY)
    launch(job, 2, Path(job.out), entry=ENTRY)
    assert learnt(job) == learnt(alone) and len(learnt(job)) == 4
    traces = [Trace.load(file) for file in sorted((Path(job.out) / "epochs").glob("*.parquet"))]
    assert all(0 < trace.clock_ns < trace.span_ns for trace in traces)  # they were measured, though they are one


def test_ranks_are_ended_where_that_is_asked(job: Job, two_machines: None) -> None:
    """By both machines, and without an error."""
    folder = Path(job.out)
    launch(replace(job, repeats=10**6), 2, folder, entry=ENTRY, is_stopped=lambda: bool(epoch_records(folder)))
    assert len(epoch_records(folder)) < 10**6
    with pytest.raises(MachineError, match="no_such_entry"):
        launch(job, 2, folder, entry="no_such_entry")
