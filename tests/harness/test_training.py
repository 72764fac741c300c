"""Training in stages: the control plane's order, its fallbacks and failures, kill and resume, and how it is shown."""

import json
import re
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import command, killed_at, one_line
from one_rank import wait_for_planes
from planners import Slow, Uneasy, Wrong

from chronoscale.errors import MachineError, UserError
from chronoscale.harness.keys import families
from chronoscale.harness.runs import run_folder
from chronoscale.harness.runs.training_record import result
from chronoscale.harness.workflows import execution_registry
from chronoscale.harness.workflows.snapshots import control_plane as training
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.training.epoch_loop import train
from chronoscale.real_exec.training.epoch_record import epoch_records
from chronoscale.reports.charts.training import stages
from chronoscale.reports.training_run import WAITING, Activity, Epoch, TrainingRun
from chronoscale.strategies.registry import STRATEGIES


def stages_of(run: Path) -> list[str]:
    return list(dict.fromkeys(epoch.stage for epoch in result(run_folder.Run(run), 1).epochs))


def moved(folder: Path, to: str) -> Job:
    """A training's job in another folder, with its first plan alone."""
    job = Job.load(folder / "train.job.json")
    for part in ("plans", "epochs"):
        Path(to, part).mkdir(parents=True)
    (folder / "plans" / "000").rename(Path(to, "plans", "000"))
    return replace(job, out=to, items=(replace(job.items[0], schedule=f"{to}/plans/000/schedule.parquet"),))


class Ranks:
    """The data plane in this process, one epoch after another, until `enough` says so; no more than `epochs` of them."""

    def __init__(self, enough=lambda records: False):
        self.enough = enough

    def launch(self, job, ranks, folder, entry, is_stopped):
        job.save(folder / f"{job.name}.job.json")
        for until in range(1, job.repeats + 1):
            time.sleep(0.05)  # the core is the control plane's, which these tests wait for
            train(replace(job, repeats=until))
            if is_stopped() or self.enough(epoch_records(Path(job.out))):
                return


@pytest.fixture
def here(monkeypatch):
    """Let `train` use such ranks."""

    def use(enough=lambda records: False):
        monkeypatch.setattr(training, "launch", Ranks(enough).launch)

    return use


def last(number, strategy):
    """That many epochs of the strategy have been trained."""
    return lambda records: [record.strategy for record in records[-number:]] == [strategy] * number


@pytest.mark.slow
def test_the_command_goes_through_all_stages(experiment, here, monkeypatch, capsys):
    """Stages in order, switches at epoch boundaries, nobody waits; table, figure and timeline say what happened."""
    published, publish = {}, training.ControlPlane.publish

    def note(self, number, schedule):
        publish(self, number, schedule)
        published[number] = time.time_ns()

    here(last(3, "real-g+-own"))
    monkeypatch.setattr(training.ControlPlane, "publish", note)
    command("train", experiment(epochs=100_000), "--strategy", "real-g+-own", "--json")
    rows = json.loads(capsys.readouterr().out)
    assert [row["stage"] for row in rows] == list(training.STAGES) and [row["strategy"] for row in rows] == [
        "psg",
        "real-type1",
        "real-g+-own",
    ]
    assert all(row["epoch_s"] > 0 for row in rows)
    done = result(run_folder.Run(Path("runs/small-train-1")), 1)
    assert [epoch.number for epoch in done.epochs] == list(range(len(done.epochs)))
    (note,) = done.notes  # real-g+-own pairs groups; Algorithm 1 as printed does not on one rank
    assert note.startswith("The learning rate of a step is 0.01 times its groups") and "0.02 in stage 'optimised'" in note
    assert [row["learning_rate"] for row in rows] == [0.01, 0.01, 0.02]
    whats = [activity.what for activity in done.activities]
    first = [WAITING, "fit", "choice of forms", "difference maps"]  # forms are chosen by what the first epochs took
    assert whats == [*first, WAITING, "fit", "scheduling by real-g+-own", "further forms"]
    # the optimised plan came after enough profiled epochs, was taken up at the next epoch's end, and none waited for it
    profiled, fitting = done.stages["profiling"], done.activities[5]
    assert len([epoch for epoch in profiled if epoch.end_ns <= fitting.start_ns]) >= training.PROFILED + 1
    assert done.stages["optimised"][0].start_ns >= done.activities[-1].end_ns and profiled[-2].end_ns <= published[2]
    command("report", "runs/small-train-1", "--out", "page")
    page = Path("page/index.html").read_text()
    assert "Stages of training" in page and Path("page/figures/stages-1.svg").exists() and "has no runs" not in page
    capsys.readouterr()
    command("trace", "runs/small-train-1", "--out", "traces", "--json")
    (file,) = json.loads(capsys.readouterr().out)
    events = json.loads(Path(file).read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {0, 1}
    assert len([event for event in events if event["name"].startswith("epoch ")]) == len(done.epochs)


@pytest.mark.slow
def test_losses_go_on_across_stages(experiment, here, capsys):
    """psg, then real-type1 twice: one placement throughout, so the losses are those of psg alone."""
    here(last(2, "real-type1"))
    changes = {"epochs": 100_000, "dataset": {"path": "graphs"}}
    command("train", experiment(**changes), "--strategy", "real-type1")
    mixed = epoch_records(Path("runs/small-train-1/train"))
    assert {record.stage for record in mixed} >= {"cold start", "profiling"}
    train(replace(moved(Path("runs/small-train-1/train"), "alone"), repeats=len(mixed)))
    records = epoch_records(Path("alone"))
    assert {record.strategy for record in records} == {"psg"}
    np.testing.assert_allclose([r.losses for r in mixed], [r.losses for r in records], rtol=1e-4)


@pytest.mark.slow
def test_epochs_never_wait_for_a_plan(experiment, here, monkeypatch, capsys):
    """A control plane that does nothing until training is over: all epochs run, in the first stage, and the run says so."""

    def idle(self):
        self.over.wait()
        self._continue()

    here()
    monkeypatch.setattr(training.ControlPlane, "_preprocess", idle)
    command("train", experiment(epochs=12), "--strategy", "real-g")
    done = result(run_folder.Run(Path("runs/small-train-1")), 1)
    assert len(done.epochs) == 12 and list(done.stages) == ["cold start"]
    (note,) = done.notes
    sentence = (
        "strategy 'real-g' has not trained a single epoch, 'psg' has trained the last: training ended after 12 epochs in stage 'cold start'"
    )
    assert note.startswith(sentence) and note.endswith("give it more epochs (--epochs, or epochs: in the file)")
    assert " ".join(capsys.readouterr().err.split()).count(sentence) == 1


def test_a_schedule_that_comes_too_late_is_not_passed_over(experiment, here, monkeypatch, capsys):
    """It is there, and no epoch was left to train by it: a row in the table and in JSON says so, and a sentence what to change."""
    publish = training.ControlPlane.publish

    def late(self, number, schedule):
        if number == 2:
            self.over.wait()
        publish(self, number, schedule)

    here(last(training.PROFILED + 2, "real-type1"))
    monkeypatch.setattr(training.ControlPlane, "publish", late)
    command("train", experiment(epochs=100_000), "--strategy", "real-g+", "--json")
    output = capsys.readouterr()
    rows = json.loads(output.out)
    assert [row["strategy"] for row in rows] == ["psg", "real-type1", "real-g+"]
    assert rows[-1]["stage"] == "optimised" and rows[-1]["epochs"] == [] and rows[-1]["last_loss"] is None
    assert "'real-g+' has not trained a single epoch, 'real-type1' has trained the last" in " ".join(output.err.split())


@pytest.mark.slow
def test_the_learning_rate_grows_with_the_groups_of_a_step(experiment, here, capsys):
    """In every stage; printed and in JSON, and left as it is where it is asked to be."""
    here(last(1, "blad"))  # deals as psg does; with two groups a rank and step from the start, here
    training_ = {"learning_rate": 0.01, "groups_per_rank": 2}
    command("train", experiment(epochs=100_000, training=training_), "--strategy", "blad", "--json")
    output = capsys.readouterr()
    assert {row["learning_rate"] for row in json.loads(output.out)} == {0.02}
    assert "0.01 times its groups on all ranks (REAL §7.4): at most 0.02 in stage 'cold start'" in " ".join(output.err.split())
    changed = {**training_, "scale_learning_rate": False}
    command("train", experiment("kept", epochs=100_000, training=changed), "--strategy", "blad", "--json")
    output = capsys.readouterr()
    assert {row["learning_rate"] for row in json.loads(output.out)} == {0.01} and "§7.4" not in output.err


@pytest.fixture(params=["here", pytest.param("in a process of its own", marks=pytest.mark.slow)])
def solved(request, monkeypatch):
    """A solver that is given no time, and one that has enough, without a process; and with it."""

    def use(seconds=None):
        if seconds is not None:
            monkeypatch.setattr(training, "MARGIN_S", seconds)
        if request.param == "here":
            plan = (lambda _, planner, *arguments: planner.plan(*arguments)) if seconds is None else lambda *_: None
            monkeypatch.setattr(training, "plan_within", plan)

    return use


def test_time_out_falls_back_to_the_greedy(experiment, here, solved, monkeypatch, capsys):
    here(last(1, training.GREEDY.name))
    solved(0.0)
    monkeypatch.setitem(STRATEGIES, "slow", Slow())
    command("train", experiment(epochs=100_000), "--strategy", "slow")
    done = result(run_folder.Run(Path("runs/small-train-1")), 1)
    sentence = f"{training.GREEDY.name} instead"
    assert re.search(r"slow had no schedule after [\d.e-]+ s \(2 epochs and 0 s\): " + re.escape(sentence), done.notes[0])
    assert done.epochs[-1].strategy == training.GREEDY.name and sentence in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_a_planners_warning_is_printed_once(experiment, here, solved, monkeypatch, capfd):
    """A warning of a planner, in a process of its own, too; a note that is no warning."""
    planner = Uneasy()
    here(last(1, planner.name))
    solved()
    monkeypatch.setitem(STRATEGIES, planner.name, planner)
    command("train", experiment(epochs=100_000), "--strategy", planner.name)
    done = result(run_folder.Run(Path("runs/small-train-1")), 1)
    output = " ".join(capfd.readouterr().err.split())
    assert done.notes == ("as planned",) and "as planned" not in output
    assert output.count("worse than it might be") == 1


def test_the_files_last_strategy_ends_the_training(experiment, here, monkeypatch, capsys):
    """Where it names any, and the command does not."""
    calls = []

    def note(experiment, run, rough):
        calls.append(experiment.strategies)
        raise UserError("")

    monkeypatch.setattr(type(execution_registry.EXECUTIONS["snapshots"]), "train", staticmethod(note))
    named = experiment("named", strategies=["psg", "real-g+"])
    command("train", named, expect=2)
    command("train", experiment("silent"), expect=2)
    command("train", named, "--strategy", "real-g", expect=2)
    assert calls == [("real-g+",), (families.FAMILIES["snapshots"].preferred,), ("real-g",)]


@pytest.mark.slow
def test_what_fails_in_the_control_plane(experiment, here, monkeypatch, capsys):
    """A schedule that cannot be made leaves training as it is, and is told; a defect ends it."""
    monkeypatch.setitem(STRATEGIES, "wrong", Wrong())
    folder = Path("runs/small-train-1/train")
    here(lambda records: (folder / "control.json").exists() and "no such thing" in (folder / "control.json").read_text())
    command("train", experiment(epochs=100_000), "--strategy", "wrong")
    done = result(run_folder.Run(folder.parent), 1)
    assert "stage 'optimised' was not reached, training went on with the schedule it had: no such thing" in done.notes[0]
    assert done.epochs[-1].strategy == "real-type1"
    here()
    monkeypatch.setattr(training.ControlPlane, "_preprocess", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        command("train", experiment(epochs=99_999), "--strategy", "real-g")


def test_a_control_plane_whose_ranks_are_lost_writes_nothing_more(experiment, monkeypatch, capsys):
    """The next training may write there by then."""
    begun, ended = threading.Event(), threading.Event()

    def build(self, schedule):
        begun.set()
        self.over.wait()

    def late(self):
        try:
            self.publish(1, training.COLD.plan(self.work, self.ranks, self.rough))
        finally:
            self._note("late")
            ended.set()

    def lost(*_: object, **__: object) -> None:
        assert begun.wait(60)
        raise MachineError("lost")

    monkeypatch.setattr(training.ControlPlane, "_preprocess", late)
    monkeypatch.setattr(training.ControlPlane, "_build", build)
    monkeypatch.setattr(training, "launch", lost)
    command("train", experiment(epochs=12), "--strategy", "real-g", expect=1)
    assert one_line(capsys).startswith("error: lost; 0 of 12 epochs are kept") and ended.wait(30)
    folder = Path("runs/small-train-1/train")
    assert not (folder / "control.json").exists()
    assert [path.name for path in (folder / "plans").iterdir() if not path.name.startswith(".")] == ["000"]


@pytest.mark.slow
def test_a_lost_training_goes_on(experiment, lose, capsys):
    file = experiment("lost", epochs=12)
    lose(5)
    command("train", file, "--strategy", "real-type1", expect=1)
    assert "rank 0 of 'train' was lost (SIGKILL)" in one_line(capsys)
    wait_for_planes()
    goes_on(file, "lost", capsys)


@pytest.mark.slow
def test_a_killed_training_resumes(experiment, inline, capsys):
    file, folder = experiment("killed", epochs=40), Path("runs/killed-train-1/train")
    killed_at(lambda: len(list(folder.glob("epochs/*.json"))) >= 5, "train", file, "--strategy", "real-type1")
    goes_on(file, "killed", capsys)


def goes_on(file, name, capsys):
    """The same command ends at the losses of a training that nothing happened to."""
    folder = Path(f"runs/{name}-train-1/train")
    before, epochs = epoch_records(folder), json.loads(file.read_text())["epochs"]
    assert 5 <= len(before) < epochs and not run_folder.Run(folder.parent).complete
    capsys.readouterr()
    command("train", file, "--strategy", "real-type1")
    assert f"taking up runs/{name}-train-1" in capsys.readouterr().err
    after = epoch_records(folder)
    assert len(after) == epochs and run_folder.Run(folder.parent).complete
    assert [r.start_ns for r in after[: len(before) - 1]] == [r.start_ns for r in before[:-1]]  # what was trained was not trained again
    train(moved(folder, "whole"))
    np.testing.assert_allclose([r.losses for r in after], [r.losses for r in epoch_records(Path("whole"))], rtol=1e-4)


def test_mistakes(experiment, capsys):
    for changes, message in (
        ({"strategy": "dgc"}, "strategy 'dgc' is simulated only"),
        ({"strategy": "real-gg"}, "did you mean 'real-g'"),
        ({"epochs": 0}, "epochs: "),
        ({"ranks": 0}, "ranks: expected"),
    ):
        options = [text for key, value in changes.items() for text in (f"--{key}", str(value))]
        command("train", experiment(), *options, expect=2)
        assert message in one_line(capsys)
    command("train", experiment(strategies=["psg", "dgc"]), expect=2)  # the file's last
    assert "simulated only" in one_line(capsys)
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
    done = TrainingRun("run", 2, tuple(epochs), activities, ("a note",))
    table = done.table().to_dict("records")
    assert [row["epochs"] for row in table] == ["0..1", "2..4"] and [row["epoch_s"] for row in table] == [0.09, 0.05]
    assert [row["control_s"] for row in table] == [0.1, 0.03] and [row["switch_s"] for row in table] == [0.005, 0.007]
    by_stage = stages(done, "stages-1")
    assert "a note" in by_stage.caption and "cold start: psg" in by_stage.svg and "difference maps" in by_stage.svg
    assert by_stage == stages(done, "stages-1")


def test_forms_are_chosen_by_what_the_first_epochs_took(experiment, here, monkeypatch, capsys):
    """Without a profile: costs fitted here, not a datasheet's; a datasheet's where it is asked for."""
    calls = []

    class Told:
        """Plans as real-type1 does, and keeps the costs that it is given."""

        refuses = staticmethod(training.PSG.refuses)

        def plan(self, work, ranks, costs):
            calls.append(costs.name)
            return training.PSG.plan(work, ranks, costs)

    monkeypatch.setattr(training, "REUSING", Told())
    for costs, message in (("auto", "fitted on "), ("datasheet", "NVIDIA H200 datasheet")):
        here(lambda records: records[-1].plan >= 1)
        command("train", experiment(costs, epochs=100_000, costs=costs), "--strategy", "psg")
        assert calls.pop().startswith(message) and not calls
