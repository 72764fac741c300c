"""Staged training: shipments, the data plane's switches and checkpoints, the control plane's order, kill and resume."""

import json
import re
import subprocess
import sys
import threading
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from planners import Dead, Noting, Slow, Uneasy, Wrong
from test_harness import command, experiment, one_line  # noqa: F401 (the fixture)

from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.statistics import statistics_of
from chronoscale.errors import MachineError, UserError
from chronoscale.harness import runs, training
from chronoscale.real_exec import staged
from chronoscale.real_exec.collective import Alone
from chronoscale.real_exec.launch import start, wait
from chronoscale.real_exec.program import SnapshotProgram
from chronoscale.real_exec.shipment import adopt, ship
from chronoscale.real_exec.staged import ENTRY, StagedJob, material_of, model_of, records
from chronoscale.reports.stages import WAITING, Activity, Epoch, Staged, drawing
from chronoscale.simulator import presets
from chronoscale.strategies.calibrated import Calibrated, factor
from chronoscale.strategies.costs import DatasheetCosts, Fit, FittedCosts
from chronoscale.strategies.forms import must_track, plain
from chronoscale.strategies.groups import deal
from chronoscale.strategies.limited import plan_within
from chronoscale.strategies.lowering import Reuse, lower
from chronoscale.strategies.models import model_shape
from chronoscale.strategies.registry import STRATEGIES, strategy
from chronoscale.strategies.rows import Form
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.trace import Source
from chronoscale.strategies.workload import Hyper, Workload

COSTS = DatasheetCosts(presets.cluster("h200").device)
GRAPHS = GrowthGraph.rmat(64, 300, 14, 0.1, 1).sequence().without_self_edges()
WORK = Workload("w", statistics_of(GRAPHS), model_shape("t-gcn", 8, 8), Hyper())


@pytest.fixture
def job(tmp_path) -> StagedJob:
    store.save(tmp_path / "data", GRAPHS)
    for part in ("plans", "epochs"):
        (tmp_path / "train" / part).mkdir(parents=True)
    folder, data = str(tmp_path / "train"), str(tmp_path / "data")
    return StagedJob("train", folder, data, Hyper(), 4, "t-gcn", 8, 1, 8, 1, 0.01, 5, "cpu")


def give(job: StagedJob, number: int, name: str, ranks: int = 1) -> None:
    folder = Path(job.folder) / "plans" / f"{number:03d}"
    draft = folder.with_name(f".{number:03d}")
    draft.mkdir()
    strategy(name).plan(WORK, ranks, COSTS).save(draft / "schedule.parquet")
    (draft / "plan.json").write_text(json.dumps({"stage": f"stage {number}"}))
    draft.rename(folder)


def losses(job: StagedJob) -> np.ndarray:
    return np.array([record.losses for record in records(Path(job.folder))])


def clear(job: StagedJob) -> None:
    for path in Path(job.folder).rglob("*"):
        if path.is_file() and "plans" not in path.parts:
            path.unlink()


@pytest.mark.parametrize(
    ("name", "layers", "form"), [("t-gcn", 1, "DELTA"), ("gat-lstm", 2, "DELTA"), ("wd-gcn", 2, "DELTA"), ("wd-gcn", 1, "MAP")]
)
def test_what_is_shipped_is_what_would_be_prepared(job, tmp_path, name, layers, form):
    job = replace(job, model=name, layers=layers)
    sent, received = material_of(job, False), material_of(job, False)
    work = replace(WORK, model=model_shape(name, 8, 8, layers))
    forms = plain(len(GRAPHS), Form[form], form == "MAP" or must_track(work))
    schedule = lower("x", work, deal(work.groups, 2, 2), Reuse(snapshots=True, groups=True), COSTS, forms)
    for rank in (0, 1):
        SnapshotProgram(schedule, rank, sent, model_of(job), job.hyper, torch.device("cpu"), Alone())
    held = {kind: set(list(stored)[:1]) for kind, stored in sent.stores().items()}
    ship(tmp_path / "forms", sent.stores(), held)
    adopt(tmp_path / "forms", received.stores(), pin=False)

    def flat(form):
        if isinstance(form, torch.Tensor) or not hasattr(form, "__dataclass_fields__"):
            return [form]
        return [leaf for name in form.__dataclass_fields__ for leaf in flat(getattr(form, name))]

    seen = 0
    for kind, stored in sent.stores().items():
        assert received.stores()[kind].keys() == stored.keys() - held[kind]
        for t, form in received.stores()[kind].items():
            assert type(form) is type(stored[t])
            for mine, theirs in zip(flat(form), flat(stored[t]), strict=True):
                seen += 1
                assert torch.equal(mine, theirs) and mine.dtype == theirs.dtype if isinstance(mine, torch.Tensor) else mine == theirs
    assert seen > 50
    (tmp_path / "forms" / "data.bin").write_bytes(b"short")
    with pytest.raises(UserError, match="forms: not a readable shipment"):
        adopt(tmp_path / "forms", material_of(job, False).stores(), pin=False)


def test_a_plan_is_taken_up_at_an_epochs_end_and_what_was_shipped_is_not_built_again(job, monkeypatch):
    give(job, 0, "psg")
    staged.train(replace(job, epochs=2))
    give(job, 1, "real-type1")
    material = material_of(job, False)
    schedule = strategy("real-type1").plan(WORK, 1, COSTS)
    SnapshotProgram(schedule, 0, material, model_of(job), job.hyper, torch.device("cpu"), Alone())
    ship(Path(job.folder) / "plans" / "001" / "forms", material.stores(), {})
    for room in ("_whole", "_change", "_map"):
        monkeypatch.setattr(f"chronoscale.real_exec.material.Material.{room}", lambda *_: pytest.fail("built, not mapped"))
    staged.train(job)
    found = records(Path(job.folder))
    assert [r.epoch for r in found] == [0, 1, 2, 3] and [r.plan for r in found] == [0, 0, 1, 1]
    assert [r.strategy for r in found] == ["psg", "psg", "real-type1", "real-type1"]


def test_interrupted_training_is_the_same_training(job):
    """Bit for bit: model and optimiser come back as they were."""
    give(job, 0, "psg")
    staged.train(job)
    whole = losses(job)
    assert whole.shape[0] == 4 and whole[-1].mean() < whole[0].mean()
    clear(job)
    for until in (1, 3, 4):
        staged.train(replace(job, epochs=until))
    np.testing.assert_array_equal(losses(job), whole)


def test_switching_the_form_does_not_change_the_losses(job):
    """psg and real-type1 place groups alike: losses go on as if nothing had happened."""
    give(job, 0, "psg")
    staged.train(job)
    whole = losses(job)
    clear(job)
    staged.train(replace(job, epochs=2))
    give(job, 1, "real-type1")
    staged.train(job)
    np.testing.assert_allclose(losses(job), whole, rtol=1e-5)
    assert not np.array_equal(losses(job)[2:], whole[2:])


def test_two_ranks_switch_together(job):
    give(job, 0, "psg", ranks=2)
    path = Path(job.folder) / "job.json"
    replace(job, epochs=60).save(path)
    worker = start(ENTRY, path, 2, 1)
    waiting = threading.Thread(target=wait, args=(worker, "train"))
    waiting.start()
    until = time.monotonic() + 60
    while len(records(Path(job.folder))) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    give(job, 1, "real-type1", ranks=2)
    waiting.join()
    found = records(Path(job.folder))
    plans = [record.plan for record in found]
    assert len(found) == 60 and plans == sorted(plans) and set(plans) == {0, 1} and plans.index(1) >= 3
    assert all(before.end_ns <= after.start_ns - after.switch_ns for before, after in pairwise(found))


def test_refusals(job):
    give(job, 0, "psg", ranks=2)
    with pytest.raises(UserError, match="is for 2 ranks, 1 are running"):
        staged.train(job)
    (Path(job.folder) / "checkpoint.pt").write_bytes(b"nothing")
    with pytest.raises(Exception, match=r"checkpoint\.pt: not a checkpoint"):
        staged.train(job)
    torch.save({"epoch": 1, "model": {}, "optimizer": {}}, Path(job.folder) / "checkpoint.pt")
    with pytest.raises(UserError, match="not a checkpoint of this model"):
        staged.train(job)


def test_a_planner_gets_its_time_and_no_more():
    found = plan_within(60, strategy("real-g"), WORK, 2, COSTS)
    assert found is not None and (found.op == strategy("real-g").plan(WORK, 2, COSTS).op).all()
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
    assert factor([(schedule, ns)], COSTS) == pytest.approx(3)
    costs = Calibrated(FittedCosts("here", (seen,), {}), COSTS, 3.0)
    found, source = costs.predict(schedule, schedule.tasks(Op.AGGREGATE))
    assert (found == 77).all() and source is Source.FITTED
    rows = schedule.tasks(Op.TEMPORAL)
    found, source = costs.predict(schedule, rows)
    assert (found == ns[rows]).all() and source is Source.EXTRAPOLATED


def stages_of(run: Path) -> list[str]:
    return list(dict.fromkeys(epoch.stage for epoch in training.result(runs.Run(run)).epochs))


class Ranks:
    """The data plane in this process, one epoch after another, until `enough` says so; no more than `epochs` of them."""

    def __init__(self, enough=lambda found: False):
        self.enough, self.killed = enough, False

    def start(self, entry, path, ranks, threads):
        self.job = StagedJob.load(path)
        return self

    def wait(self, worker, name):
        for until in range(1, self.job.epochs + 1):
            staged.train(replace(self.job, epochs=until))
            if self.killed or self.enough(records(Path(self.job.folder))):
                return

    def stop(self, worker):
        self.killed = True


@pytest.fixture
def here(monkeypatch):
    """Let `train` use such ranks."""

    def use(enough=lambda found: False):
        ranks = Ranks(enough)
        for name in ("start", "wait", "stop"):
            monkeypatch.setattr(training, name, getattr(ranks, name))

    return use


def last(number, strategy):
    """That many epochs of the strategy have been trained."""
    return lambda found: [record.strategy for record in found[-number:]] == [strategy] * number


def test_the_command_goes_through_all_stages(experiment, here, capsys):  # noqa: F811
    """Stages in order, switches at epoch boundaries, nobody waits; table, figure and timeline say what happened."""
    here(last(3, "real-g"))
    command("train", experiment(epochs=100_000), "--strategy", "real-g", "--json")
    rows = json.loads(capsys.readouterr().out)
    assert [row["stage"] for row in rows] == list(training.STAGES) and [row["strategy"] for row in rows] == ["psg", "real-type1", "real-g"]
    assert all(row["epoch_s"] > 0 for row in rows)
    done = training.result(runs.Run(Path("runs/small-train-1")))
    assert [epoch.number for epoch in done.epochs] == list(range(len(done.epochs))) and not done.notes
    whats = [activity.what for activity in done.activities]
    assert whats == ["choice of forms", "difference maps", WAITING, "fit", "scheduling by real-g", "further forms"]
    # the optimised plan came after enough profiled epochs, was taken up at the next epoch's end, and none waited for it
    profiled, fitting = done.stages["profiling"], done.activities[3]
    assert len([epoch for epoch in profiled if epoch.end_ns <= fitting.start_ns]) >= training.PROFILED + 1
    first = done.stages["optimised"][0]
    assert (
        first.start_ns >= done.activities[-1].end_ns
        and profiled[-1].start_ns - profiled[-1].switch_ns <= done.activities[-1].end_ns + 10**9
    )
    command("report", "runs/small-train-1", "--out", "page")
    page = Path("page/index.html").read_text()
    assert "Stages of training" in page and Path("page/figures/stages-1.svg").exists() and "has no runs" not in page
    capsys.readouterr()
    command("trace", "runs/small-train-1", "--out", "traces", "--json")
    (file,) = json.loads(capsys.readouterr().out)
    events = json.loads(Path(file).read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {0, 1}
    assert len([event for event in events if event["name"].startswith("epoch ")]) == len(done.epochs)


def test_losses_go_on_across_stages(experiment, here, capsys):  # noqa: F811
    """psg, then real-type1 twice: one placement throughout, so the losses are those of psg alone."""
    here(last(2, "real-type1"))
    changes = {"epochs": 100_000, "dataset": {"path": "graphs"}}
    command("train", experiment(**changes), "--strategy", "real-type1")
    mixed = records(Path("runs/small-train-1/train"))
    assert {record.stage for record in mixed} >= {"cold start", "profiling"}
    job = StagedJob.load(Path("runs/small-train-1/train/train.job.json"))
    for part in ("plans", "epochs"):
        Path("alone", part).mkdir(parents=True)
    Path("runs/small-train-1/train/plans/000").rename("alone/plans/000")
    staged.train(replace(job, folder="alone", epochs=len(mixed)))
    alone = records(Path("alone"))
    assert {record.strategy for record in alone} == {"psg"}
    np.testing.assert_allclose([r.losses for r in mixed], [r.losses for r in alone], rtol=1e-4)


def test_epochs_never_wait_for_a_plan(experiment, here, monkeypatch, capsys):  # noqa: F811
    """A control plane that does nothing until training is over: all epochs run, in the first stage, and the run says so."""

    def idle(self):
        self.over.wait()
        self._continue()

    here()
    monkeypatch.setattr(training.ControlPlane, "_preprocess", idle)
    command("train", experiment(epochs=12), "--strategy", "real-g")
    done = training.result(runs.Run(Path("runs/small-train-1")))
    assert len(done.epochs) == 12 and list(done.stages) == ["cold start"]
    assert done.notes == ("training ended in stage 'cold start', before the next one was ready",)


def test_time_out_falls_back_to_the_greedy(experiment, here, monkeypatch, capsys):  # noqa: F811
    here(last(1, training.GREEDY))
    monkeypatch.setattr(training, "MARGIN_S", 0.0)
    monkeypatch.setitem(STRATEGIES, "slow", Slow())
    monkeypatch.setattr(training, "SOLVED", frozenset({"slow"}))
    command("train", experiment(epochs=100_000), "--strategy", "slow")
    done = training.result(runs.Run(Path("runs/small-train-1")))
    said = f"{training.GREEDY} instead"
    assert re.search(r"slow had no schedule after [\d.e-]+ s \(2 epochs and 0 s\): " + re.escape(said), done.notes[0])
    assert done.epochs[-1].strategy == training.GREEDY and said in " ".join(capsys.readouterr().err.split())


def test_what_a_planner_says_is_said_once(experiment, here, monkeypatch, capfd):  # noqa: F811
    """A warning of a planner in a process of its own; a note that is no warning."""
    for planner in (Uneasy(), Noting()):
        here(last(1, planner.name))
        monkeypatch.setitem(STRATEGIES, planner.name, planner)
        monkeypatch.setattr(training, "SOLVED", frozenset({planner.name}))
        command("train", experiment(planner.name, epochs=100_000), "--strategy", planner.name)
        done = training.result(runs.Run(Path(f"runs/{planner.name}-train-1")))
        said = " ".join(capfd.readouterr().err.split())
        assert done.notes == ("as planned",) and "as planned" not in said
        assert said.count("worse than it might be") == (planner.name == "uneasy")


def test_the_files_last_strategy_ends_the_training(experiment, here, monkeypatch, capsys):  # noqa: F811
    """Where it names any, and the command does not."""
    asked = []
    monkeypatch.setattr(
        training, "train", lambda experiment, run: asked.append(experiment.strategies) or (_ for _ in ()).throw(UserError(""))
    )
    named = experiment("named", strategies=["psg", "real-g+"])
    command("train", named, expect=2)
    command("train", experiment("silent"), expect=2)
    command("train", named, "--strategy", "real-g", expect=2)
    assert asked == [("real-g+",), (training.PREFERRED,), ("real-g",)]


def test_what_fails_in_the_control_plane(experiment, here, monkeypatch, capsys):  # noqa: F811
    """A schedule that cannot be made leaves training as it is, and is told; a defect ends it."""
    monkeypatch.setitem(STRATEGIES, "wrong", Wrong())
    folder = Path("runs/small-train-1/train")
    here(lambda found: (folder / "control.json").exists() and "no such thing" in (folder / "control.json").read_text())
    command("train", experiment(epochs=100_000), "--strategy", "wrong")
    done = training.result(runs.Run(folder.parent))
    assert "stage 'optimised' was not reached, training went on with the schedule it had: no such thing" in done.notes[0]
    assert done.epochs[-1].strategy == "real-type1"
    here()
    monkeypatch.setattr(training.ControlPlane, "_preprocess", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        command("train", experiment(epochs=99_999), "--strategy", "real-g")


def test_a_killed_training_resumes(experiment, capsys):  # noqa: F811
    file = experiment("killed", epochs=40)
    arguments = ["train", str(file), "--strategy", "real-type1"]
    code = "from chronoscale.harness.cli import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=subprocess.DEVNULL)
    folder = Path("runs/killed-train-1/train")
    until = time.monotonic() + 60
    while len(list(folder.glob("epochs/*.json"))) < 5 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.002)
    family = [process, *psutil.Process(process.pid).children(recursive=True)]
    for member in family:
        member.kill()
    process.wait()
    before = records(folder)
    assert 5 <= len(before) < 40 and not runs.Run(folder.parent).complete
    capsys.readouterr()
    command(*arguments)
    assert "taking up runs/killed-train-1" in capsys.readouterr().err
    after = records(folder)
    assert len(after) == 40 and runs.Run(folder.parent).complete
    assert [r.start_ns for r in after[: len(before) - 1]] == [r.start_ns for r in before[:-1]]  # what was trained was not trained again
    job = StagedJob.load(folder / "train.job.json")
    for part in ("plans", "epochs"):
        Path("whole", part).mkdir(parents=True)
    (folder / "plans" / "000").rename("whole/plans/000")
    staged.train(replace(job, folder="whole"))
    np.testing.assert_allclose([r.losses for r in after], [r.losses for r in records(Path("whole"))], rtol=1e-4)


def test_mistakes(experiment, capsys):  # noqa: F811
    for changes, said in (
        ({"strategy": "dgc"}, "strategy 'dgc' is simulated only"),
        ({"strategy": "esdg"}, "strategy 'esdg' spreads groups over ranks"),
        ({"strategy": "distdgl"}, "strategy 'distdgl' spreads groups over ranks"),
        ({"strategy": "real-gg"}, "did you mean 'real-g'"),
        ({"epochs": 0}, "epochs: "),
        ({"ranks": 0}, "ranks: expected"),
    ):
        options = [text for key, value in changes.items() for text in (f"--{key}", str(value))]
        command("train", experiment(), *options, expect=2)
        assert said in one_line(capsys)
    for last, said in (("dgc", "simulated only"), ("esdg", "spreads groups over ranks")):
        command("train", experiment(strategies=["psg", last]), expect=2)  # the file's last
        assert said in one_line(capsys)
    command("train", experiment(memory="30kB"), expect=2)
    assert re.search(r"strategy 'psg' on 1 rank: out of memory: rank 0 needs .* at task \d+", one_line(capsys))
    assert not list(Path("runs").glob("*/train/epochs/*"))


def test_the_table_and_the_figure():
    ms = 1_000_000
    epochs = [Epoch(i, "cold start", "psg", 5 * ms * (i == 0), 100 * i * ms, (100 * i + 90) * ms, 2.0 - i) for i in range(2)]
    epochs += [Epoch(i, "profiling", "real-type1", 7 * ms * (i == 2), 100 * i * ms, (100 * i + 50) * ms, 0.5) for i in (2, 3, 4)]
    activities = (
        Activity("difference maps", 50 * ms, 150 * ms),
        Activity(WAITING, 150 * ms, 400 * ms),
        Activity("fit", 420 * ms, 600 * ms),
    )
    done = Staged("run", 2, tuple(epochs), activities, ("a note",))
    table = done.table().to_dict("records")
    assert [row["epochs"] for row in table] == ["0..1", "2..4"] and [row["epoch_s"] for row in table] == [0.09, 0.05]
    assert [row["control_s"] for row in table] == [0.1, 0.03] and [row["switch_s"] for row in table] == [0.005, 0.007]
    found = drawing(done, "stages-1")
    assert "a note" in found.caption and "cold start: psg" in found.svg and "difference maps" in found.svg
    assert found == drawing(done, "stages-1")
