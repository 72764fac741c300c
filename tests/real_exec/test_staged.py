"""Staged training, the data plane: shipments, switches, checkpoints; planners that get so much time, costs from what was seen."""

import json
import shutil
import threading
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from baseline_cases import Changing
from planners import Dead

from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import MachineError, UserError
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.ranks.launch import start, wait
from chronoscale.real_exec.snapshots import material
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.material_files import map_material, write_material
from chronoscale.real_exec.snapshots.model import learner_of
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.published_plans import plan_folder
from chronoscale.real_exec.training.epoch_loop import ENTRY, train
from chronoscale.real_exec.training.epoch_record import epoch_records
from chronoscale.strategies.costing.calibrated import CalibratedCosts, scale_factor
from chronoscale.strategies.costs import Fit, FittedCosts
from chronoscale.strategies.planning.time_limit import plan_within
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.snapshots.forms import must_track, uniform_forms
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.snapshots.variants import Form
from chronoscale.strategies.trace import Source
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload

COSTS = Changing()  # a graph as small would come in full on a datasheet's GPU
GRAPHS = GrowthGraph.rmat(64, 300, 14, 0.1, 1).sequence().without_self_edges()
CONTEXT = Context(Settings(seed=5))
WORK = Workload("w", statistics_of(GRAPHS), model_shape("t-gcn", 8, 8), Hyper())


@pytest.fixture
def job(tmp_path) -> Job:
    store.save(tmp_path / "data", GRAPHS)
    for part in ("plans", "epochs"):
        (tmp_path / "train" / part).mkdir(parents=True)
    folder = tmp_path / "train"
    item = Item("train", str(plan_folder(folder, 0) / "schedule.parquet"), str(tmp_path / "data"), Hyper())
    return Job("train", (item,), str(folder), ModelChoice("t-gcn", 8, 1, 8), 4, settings=Settings(seed=5, device="cpu"))


def give(job: Job, number: int, name: str, ranks: int = 1) -> None:
    folder = plan_folder(Path(job.out), number)
    draft = folder.with_name(f".{number:03d}")
    draft.mkdir()
    strategy(name).plan(WORK, ranks, COSTS).save(draft / "schedule.parquet")
    (draft / "plan.json").write_text(json.dumps({"stage": f"stage {number}"}))
    draft.rename(folder)


def losses(job: Job) -> np.ndarray:
    return np.array([record.losses for record in epoch_records(Path(job.out))])


def material_of(job: Job) -> SnapshotMaterial:
    return material.material_of(job.items[0], job.model, CONTEXT)


def program_of(job: Job, schedule: Schedule, prepared: SnapshotMaterial, rank: int = 0) -> SnapshotProgram:
    return SnapshotProgram(schedule, prepared, learner_of(job.model, CONTEXT), job.items[0].hyper, replace(CONTEXT, rank=rank))


def clear(job: Job) -> None:
    for path in Path(job.out).rglob("*"):
        if path.is_file() and "plans" not in path.parts:
            path.unlink()


@pytest.mark.parametrize(
    ("name", "layers", "form"), [("t-gcn", 1, "DELTA"), ("gat-lstm", 2, "DELTA"), ("wd-gcn", 2, "DELTA"), ("wd-gcn", 1, "MAP")]
)
def test_what_is_shipped_is_what_would_be_prepared(job, tmp_path, name, layers, form):
    job = replace(job, model=replace(job.model, name=name, layers=layers))
    sent, received = material_of(job), material_of(job)
    work = replace(WORK, model=model_shape(name, 8, 8, layers))
    forms = uniform_forms(len(GRAPHS), Form[form], form == "MAP" or must_track(work))
    schedule = lower("x", work, deal(work.groups, 2, 2), Reuse(snapshots=True, groups=True), COSTS, forms)
    for rank in (0, 1):
        program_of(job, schedule, sent, rank)
    first_keys = {kind: set(list(stored)[:1]) for kind, stored in sent.stores().items()}
    write_material(tmp_path / "forms", sent.stores(), first_keys)
    map_material(tmp_path / "forms", received.stores(), pin=False)

    def flat(form):
        if isinstance(form, torch.Tensor) or not hasattr(form, "__dataclass_fields__"):
            return [form]
        return [leaf for name in form.__dataclass_fields__ for leaf in flat(getattr(form, name))]

    seen = 0
    for kind, stored in sent.stores().items():
        assert received.stores()[kind].keys() == stored.keys() - first_keys[kind]
        for t, form in received.stores()[kind].items():
            assert type(form) is type(stored[t])
            for mine, theirs in zip(flat(form), flat(stored[t]), strict=True):
                seen += 1
                assert torch.equal(mine, theirs) and mine.dtype == theirs.dtype if isinstance(mine, torch.Tensor) else mine == theirs
    assert seen > 50
    (tmp_path / "forms" / "data.bin").write_bytes(b"short")
    with pytest.raises(UserError, match="forms: not a readable shipment"):
        map_material(tmp_path / "forms", material_of(job).stores(), pin=False)


@pytest.mark.slow
def test_a_plan_is_taken_up_at_an_epochs_end_and_what_was_shipped_is_not_built_again(job, monkeypatch):
    give(job, 0, "psg")
    train(replace(job, repeats=2))
    give(job, 1, "real-type1")
    prepared = material_of(job)
    program_of(job, strategy("real-type1").plan(WORK, 1, COSTS), prepared)
    write_material(plan_folder(Path(job.out), 1) / "forms", prepared.stores(), {})
    for room in ("_whole", "_change", "_map"):
        monkeypatch.setattr(SnapshotMaterial, room, lambda *_: pytest.fail("built, not mapped"))
    train(job)
    result = epoch_records(Path(job.out))
    assert [r.epoch for r in result] == [0, 1, 2, 3] and [r.plan for r in result] == [0, 0, 1, 1]
    assert [r.strategy for r in result] == ["psg", "psg", "real-type1", "real-type1"]


def test_interrupted_training_is_the_same_training(job):
    """Bit for bit: model and optimiser come back as they were."""
    give(job, 0, "psg")
    train(job)
    whole = losses(job)
    assert whole.shape[0] == 4 and whole[-1].mean() < whole[0].mean()
    clear(job)
    for until in (1, 3, 4):
        train(replace(job, repeats=until))
    np.testing.assert_array_equal(losses(job), whole)


@pytest.mark.slow
def test_switching_the_form_does_not_change_the_losses(job):
    """psg and real-type1 place groups alike: losses go on as if nothing had happened."""
    give(job, 0, "psg")
    train(job)
    whole = losses(job)
    clear(job)
    train(replace(job, repeats=2))
    give(job, 1, "real-type1")
    train(job)
    np.testing.assert_allclose(losses(job), whole, rtol=1e-5)
    assert not np.array_equal(losses(job)[2:], whole[2:])


@pytest.mark.slow
def test_two_ranks_switch_together(job):
    give(job, 0, "psg", ranks=2)
    path = Path(job.out) / "job.json"
    replace(job, repeats=40).save(path)
    worker = start(ENTRY, path, 2, 1)
    waiting = threading.Thread(target=wait, args=(worker, "train"))
    waiting.start()
    while len(epoch_records(Path(job.out))) < 3 and waiting.is_alive():
        time.sleep(0.01)
    give(job, 1, "real-type1", ranks=2)
    waiting.join()
    result = epoch_records(Path(job.out))
    plans = [record.plan for record in result]
    assert len(result) == 40 and plans == sorted(plans) and set(plans) == {0, 1} and plans.index(1) >= 3
    assert all(before.end_ns <= after.start_ns - after.switch_ns for before, after in pairwise(result))


def test_refusals(job):
    give(job, 0, "psg", ranks=2)
    with pytest.raises(UserError, match="is for 2 ranks, 1 are running"):
        train(job)
    shutil.rmtree(plan_folder(Path(job.out), 0))
    give(job, 0, "psg")
    (Path(job.out) / "checkpoint.pt").write_bytes(b"nothing")
    with pytest.raises(Exception, match=r"checkpoint\.pt: not a readable checkpoint"):
        train(job)
    torch.save({"epoch": 1, "model": {}, "optimizer": {}}, Path(job.out) / "checkpoint.pt")
    with pytest.raises(UserError, match="not a readable checkpoint of this model"):
        train(job)


@pytest.mark.slow
def test_a_planner_gets_its_time_and_no_more():
    result = plan_within(60, strategy("real-g"), WORK, 2, COSTS)
    assert result is not None and (result.op == strategy("real-g").plan(WORK, 2, COSTS).op).all()
    with pytest.raises(UserError, match="at least one GPU"):
        plan_within(60, strategy("psg"), WORK, 0, COSTS)
    with pytest.raises(MachineError, match="the planner of 'dead' died"):
        plan_within(60, Dead(), WORK, 2, COSTS)


def test_calibrated_costs_use_what_was_seen_and_scale_the_rest():
    schedule = strategy("psg").plan(WORK, 1, COSTS)
    seen = Fit("AGGREGATE", 8, "bytes", (0.0, 77.0), {"bytes": 0}, {"bytes": 1 << 60}, 0.0, 9)
    ns = np.zeros(len(schedule), np.int64)
    for code in np.unique(schedule.op):
        rows = schedule.tasks(Op(code))
        ns[rows] = 3 * COSTS.predict(schedule, rows)[0]
    assert scale_factor([(schedule, ns)], COSTS) == pytest.approx(3)
    costs = CalibratedCosts(FittedCosts("here", (seen,), {}), COSTS, 3.0)
    result, source = costs.predict(schedule, schedule.tasks(Op.AGGREGATE))
    assert (result == 77).all() and source is Source.FITTED
    rows = schedule.tasks(Op.TEMPORAL)
    result, source = costs.predict(schedule, rows)
    assert (result == ns[rows]).all() and source is Source.EXTRAPOLATED
