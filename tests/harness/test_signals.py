"""The command line on signals: good runs, mistakes in one line, lost ranks and workers."""

import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest
import torch
from command_line import command, one_line
from tiny_run import Held

from chronoscale.batching.signals.rivals.evaluation import score_signal_rivals
from chronoscale.batching.signals.standardisation import fit_scaler
from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets import store
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError
from chronoscale.harness.keys.experiment_files import check
from chronoscale.real_exec.execution.context import open_context
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.ranks.launch import wait
from chronoscale.real_exec.ranks.rank_group import RankGroup
from chronoscale.real_exec.signals.recipe import learner_of
from chronoscale.real_exec.training.best_epoch import load_best
from chronoscale.real_exec.training.checkpoint import restore
from chronoscale.real_exec.training.epoch_record import epoch_records
from chronoscale.strategies.registry import of

TRAINING = {"batch_size": 2, "window": 4, "horizon": 3, "batches": 4}
SMALL = {"model": {"name": "pgt-dcrnn", "hidden": 4}, "training": TRAINING, "ranks": [1], "repeats": 2, "warmup": 0}


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    """A folder to work in, with a signal of 6 sensors, one of them silent; and a function that writes experiment files."""
    monkeypatch.chdir(tmp_path)
    values = TrafficSignal(6, 120, seed=1).signal().values.copy()
    values[:, 5], values[3:9, 2] = 0, 0
    graph = TrafficSignal(6, 120, seed=1).graph()
    store.save("readings", Signal(values, *graph))
    store.save("marked", Signal(values, *graph).mark_missing(0))

    def write(stem: str = "small", **changes: object) -> Path:
        path = tmp_path / f"{stem}.yaml"
        path.write_text(json.dumps({"dataset": {"path": "marked"}, **SMALL, **changes}))
        return path

    return write


@pytest.mark.slow
@pytest.mark.parametrize("strategies", [["index", "dist-index"], pytest.param(["index", "ddp", "gen-dist-index"], marks=pytest.mark.slow)])
def test_the_loop_from_file_to_report(experiment, capsys, strategies):
    """Executed and replayed on two ranks, simulated on four; strategies that must agree validate alike."""
    command("validate", experiment(ranks=[2], strategies=strategies, gpus=[1, 4]), "--json")
    output = capsys.readouterr()
    rows = [row for row in json.loads(output.out) if row["op"] == "TOTAL"]
    assert {row["strategy"] for row in rows} == set(strategies)
    assert all(row["predicted_ms"] > 0 and row["measured_ms"] > 0 for row in rows)
    assert re.search(r"126 of 720 readings are missing \(17\.50%\), 1 of 6 sensors have none \(5\)", " ".join(output.err.split()))
    command("simulate", experiment(strategies=strategies, gpus=[1, 4]))
    command("report", "runs/small-validate-1", "runs/small-simulate-1", "--out", "page")
    assert "1 of 6 sensors have none" in Path("page/index.html").read_text()
    table = pd.read_csv("page/tables/executed-comparison.csv").set_index("strategy")
    executed = table[table["kind"] == "executed"]
    assert set(executed.index) == set(strategies) and (executed["prepare_s"] > 0).all()
    if "ddp" in strategies:
        assert executed["mae"]["index"] == executed["mae"]["ddp"]


@pytest.mark.slow
def test_every_strategy_is_simulated(experiment, capsys):
    every = [*of("signals")]
    command("simulate", experiment(strategies=every, gpus=[1, 4]), "--json")
    simulated = json.loads(capsys.readouterr().out)
    assert len(simulated) == 2 * len(every) and all(row["prepare_s"] > 0 for row in simulated)


def test_readings_of_a_file_are_marked_and_dated(experiment, inline):
    """`missing`, `time_of_day` and `day_of_week` prepare a copy; without them the user's own folder is mapped."""
    data = {"path": "readings", "missing": 0, "time_of_day": 24, "day_of_week": 24}
    command("train", experiment(dataset=data, strategies=["index"], epochs=1))
    stored = store.load("runs/small-train-1/data/signal")
    assert isinstance(stored, Signal)
    assert (stored.num_channels, stored.calendar) == (3, 2) and stored.missing_count == 126 and stored.dead_sensors.tolist() == [5]
    steps = np.arange(len(stored))
    np.testing.assert_allclose(stored.values[:, 0, 1], steps % 24 / 24, atol=1e-6)
    np.testing.assert_allclose(stored.values[:, 0, 2], steps // 24 % 7 / 7, atol=1e-6)
    command("train", experiment("own", strategies=["index"], epochs=1))
    assert not Path("runs/own-train-1/data").exists()


def test_any_readings_train_and_profiles_are_enough_to_simulate(experiment, inline, capsys):
    """float64 as pandas' files have it, batches of one window; a profile's costs then replay on other GPUs."""
    whole = store.load("marked")
    assert isinstance(whole, Signal)
    store.save(Path("wide"), replace(whole, values=whole.values.astype(np.float64)))
    settings = {"dataset": {"path": "wide"}, "training": {**TRAINING, "batch_size": 1}, "strategies": ["gpu-index"]}
    command("bench", experiment(**settings), "--json")
    (row,) = json.loads(capsys.readouterr().out)
    assert row["mae"] > 0
    command("profile", experiment(**settings), "--json")
    capsys.readouterr()
    costs = Path("runs/small-profile-1/profile/costs-1.json")
    costs.write_text(json.dumps({**json.loads(costs.read_text()), "device": "NVIDIA A40"}))
    command("simulate", experiment(**settings, costs=str(costs), gpus=[1], extrapolate=True), "--json")
    (row,) = json.loads(capsys.readouterr().out)
    assert row["sources"] == "extrapolated" and row["prepare_s"] > 0


@pytest.mark.slow
def test_printed_counts_are_enough_to_simulate(experiment, capsys):
    file = experiment(dataset="pems", training={"variant": "as-published"}, strategies=["pgt", "dist-index"], gpus=[4])
    command("simulate", file, "--json")
    output = capsys.readouterr()
    assert [row["strategy"] for row in json.loads(output.out)] == ["dist-index"]
    assert re.search(r"pgt on 4 GPUs does not fit: out of host memory: 4 ranks of 694\.4 GB", " ".join(output.err.split()))
    assert "10 a sensor are assumed" in " ".join(output.err.split())
    command("bench", file, expect=2)
    assert "is not at hand" in one_line(capsys)
    one_kind = experiment(dataset="pems", training={"variant": "as-published"}, strategies=["pgt"], gpus=[4])
    command("simulate", one_kind, expect=2)  # nothing fits: the run has come to its end
    assert "pgt on 4 GPUs does not fit: out of host memory: 4 ranks of 694.4 GB" in one_line(capsys)
    assert json.loads((max(Path("runs").glob("*simulate*")) / "status.json").read_text())["state"] == "complete"


def test_defaults_follow_the_family():
    assert check({"dataset": "traffic_small", "model": "dcrnn"}, "here").cluster == "polaris"
    experiment = check({"dataset": "growth_small"}, "here")
    assert (experiment.cluster, experiment.training.horizon, experiment.strategies[0]) == ("h200", 1, "psg")


def test_plans_have_how_a_decoder_is_taught():
    for training, decay in (({}, 0.0), ({"teacher_decay": 2000}, 2000.0)):
        experiment = check({"dataset": "traffic_small", "model": "dcrnn", "training": training}, "here")
        assert experiment.hyper.teacher_decay == decay


def test_what_a_file_does_not_say_of_a_model_is_as_its_paper_has_it():
    for model, expected in {
        "stid": (32, 3, 0.15),
        "graph-wavenet": (32, 8, 0.3),
        "dcrnn": (64, 1, 0.0),
    }.items():
        for given in (model, {"name": model}):
            model = check({"dataset": "traffic_small", "model": given}, "here").model
            assert (model.hidden, model.layers, model.dropout) == expected
    model = check({"dataset": "traffic_small", "model": {"name": "stid", "hidden": 5, "dropout": 0}}, "here").model
    assert (model.hidden, model.layers, model.dropout, model.choice.times) == (5, 3, 0.0, 288)
    with pytest.raises(UserError, match=r"model\.dropout: expected less than 1 \(got 1\)"):
        check({"dataset": "traffic_small", "model": {"name": "stid", "dropout": 1}}, "here")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"name": "dcrnn", "dropout": 0.3}}, r"forecaster 'dcrnn' has no dropout, got dropout: 0\.3"),
        (
            {"training": {**TRAINING, "teacher_decay": 2000}},
            r"teacher_decay: 2000, and forecaster 'pgt-dcrnn' has no decoder to teach; leave the key out, or take one that has: dcrnn",
        ),
        ({"model": "dcrnn", "training": {"teacher_decay": -1}}, r"training\.teacher_decay: expected at least 0 \(got -1\)"),
        ({"model": {"name": "graph-wavenet", "layers": 1}}, r"layers: 1 read the last 2 of a window's 4 steps; layers: 2 read all"),
        ({"strategies": ["psg"]}, r"strategies: 'psg' is for snapshots, model 'pgt-dcrnn' trains on signals; valid: pgt, ddp"),
        ({"strategies": ["indx"]}, r"unknown strategy 'indx'; did you mean 'index'"),
        ({"model": "dcrn"}, r"unknown model 'dcrn'; did you mean 'dcrnn'"),
        ({"model": "wd-gcn", "training": {}}, r"'marked' is a signal, model 'wd-gcn' trains on snapshots"),
        ({"model": "wd-gcn"}, r"training\.batch_size: for signals alone, and model 'wd-gcn' trains on snapshots"),
        ({"groups": 3}, r"groups: for snapshots alone"),
        ({"training": {"window": 100, "horizon": 40}}, r"shorter than window 100 \+ horizon 40; .* training: \{window: 4, horizon: 2\}"),
        ({"training": {**TRAINING, "standardise": "series"}}, r"needs variant: as-published"),
        ({"dataset": {"path": "graphs"}}, r"graphs: no such file or folder"),
        ({"dataset": "growth_small"}, r"'growth_small' is not a signal"),
        ({"model": {"name": "pgt-dcrnn", "hidden": 4}, "training": {"window": 3, "horizon": 4}}, r"use 'dcrnn'"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(experiment, capsys, changes, message):
    usual = {"strategies": ["psg" if "wd-gcn" in changes.values() else "index"]}
    for name in ("bench", "train"):
        command(name, experiment(**{**usual, **changes}), expect=2)
        assert re.search(message, one_line(capsys))


@pytest.mark.parametrize("more", [{}, {"model": {"name": "dcrnn", "hidden": 4}, "training": {**TRAINING, "teacher_decay": 8}}])
def test_a_lost_training_goes_on_from_the_checkpoint(experiment, lose, capsys, more):
    """Taken up again, it ends at the weights of a run that nothing happened to; also where a decoder is taught by what is drawn."""
    file, whole = (experiment(stem, epochs=6, strategies=["dist-index"], **more) for stem in ("lost", "whole"))
    lose(2)
    command("train", file, expect=1)
    assert "rank 0 of 'train' was lost (SIGKILL); 2 of 6 epochs are kept" in one_line(capsys)
    assert json.loads(Path("runs/lost-train-1/status.json").read_text())["state"] == "running"
    command("train", file, "--json")
    (row,) = json.loads(capsys.readouterr().out)
    command("train", whole)
    folder, other = (Path(f"runs/{stem}-train-1/train") for stem in ("lost", "whole"))
    assert [(one.losses, one.scores) for one in epoch_records(folder)] == [(one.losses, one.scores) for one in epoch_records(other)]
    errors = [record.scores["mae"] for record in epoch_records(folder)]
    assert row["epochs"] == [0, 5] and (row["best_mae"], row["last_mae"]) == (min(errors), errors[-1]) and errors[-1] < errors[0]
    broken, sound = (torch.load(train / "checkpoint.pt", weights_only=True) for train in (folder, other))
    assert broken["epoch"] == sound["epoch"] == 6
    for name, value in sound["model"].items():
        np.testing.assert_array_equal(broken["model"][name], value)


@pytest.mark.slow
def test_a_lost_worker_of_the_data_engine_is_made_up_for(experiment, capsys, monkeypatch):
    """Dask starts another; windows that were lost are copied again, and losses are those of a run that nothing happened to. An error of one
    rank ends all at once."""
    file, whole = (experiment(stem, ranks=[2], epochs=number, strategies=["ddp"]) for stem, number in (("lost", 400), ("whole", 40)))
    command("train", whole)
    capsys.readouterr()
    folder = Path("runs/lost-train-1/train")

    def reach(number: int, ranks: RankGroup) -> None:
        while len(epoch_records(folder)) < number:
            os.kill(ranks.pids[0], 0)  # raises where it has ended
            time.sleep(0.01)

    def lose(ranks: RankGroup, *rest: Any) -> None:
        reach(2, ranks)
        families = [psutil.Process(pid).children(recursive=True) for pid in ranks.pids]
        engine = [one for family in families for one in family if "spawn_main" in " ".join(one.cmdline())]
        assert len(engine) == 2
        engine[0].kill()
        reach(len(epoch_records(folder)) + 3, ranks)
        (folder / ".checkpoint.pt").mkdir()  # rank 0 cannot write its checkpoint
        wait(ranks, *rest)

    monkeypatch.setattr("chronoscale.real_exec.ranks.launch.wait", lose)
    command("train", file, expect=1)
    assert re.search(r"is a folder, expected a file; \d+ of 400 epochs are kept, the same command goes on after them", one_line(capsys))
    records, sound = epoch_records(folder), epoch_records(Path("runs/whole-train-1/train"))
    assert len(records) <= len(sound), "the worker was lost too late to be compared"
    assert all(ours.losses == theirs.losses for ours, theirs in zip(records, sound, strict=False))


def test_training_ends_with_the_errors_of_the_test_windows(experiment, inline, capsys):
    """The trained model's, by hand on the last fifth of the windows, in the data's units; those of naive predictions beside them."""
    training = {**TRAINING, "learning_rate": 1e-30}  # so small that the naive predictions are better
    command("train", experiment(strategies=["index"], epochs=2, training=training), "--json")
    output = capsys.readouterr()
    (row,) = json.loads(output.out)
    scores = {line.pop("predictor"): line for line in row["test"]}
    assert list(scores) == ["pgt-dcrnn", "last value", "training mean", *list(scores)[3:-1], "ridge regression on the window"]
    folder = Path("runs/small-train-1/train")
    job, data = Job.load(folder / "train.job.json"), store.load("marked")
    windows = Windows(len(data), 4, 3)
    with open_context(job.settings) as context:
        learner = learner_of(job.items[0], job.model, context)
        assert restore(folder, Held(learner), context.device) == 2
    best = load_best(folder, learner.model, lambda state: None)
    scale, x = fit_scaler(data, windows), np.where(data.missing, np.nan, data.values)
    for period, part in (("validation", windows.validation), ("test", windows.test)):
        batch = torch.from_numpy(np.stack([x[s : s + 7] for s in part]))
        with torch.no_grad():
            inputs = ((batch[:, :4] - scale.mean[0]) / scale.deviation[0]).nan_to_num().float()
            wrong = (learner.model(inputs) * scale.deviation[0] + scale.mean[0] - batch[:, 4:, :, 0]).abs()
        for ahead, (step, error, truth) in enumerate(zip(row["horizon"], wrong.unbind(1), batch[:, 4:, :, 0].unbind(1), strict=True)):
            share = (error / truth.abs())[truth.abs() > 1e-3].nanmean()
            expected = [ahead + 1, float(error.nanmean()), float(error.square().nanmean().sqrt()), float(share)]
            assert [step[key] for key in ("step", *(f"{period}_{kind}" for kind in ("mae", "rmse", "mape")))] == pytest.approx(
                expected, rel=1e-4
            )
    assert scores["pgt-dcrnn"]["mae"] == pytest.approx(float(wrong.nanmean()), rel=1e-4)
    rivals = score_signal_rivals(data, windows)
    recorded = json.loads((folder / "rivals.json").read_text())
    assert [*recorded] == [one.name for one in rivals] == list(scores)[1:]
    for one in rivals:
        assert list(scores[one.name]) == ["mae", "rmse", "mape"] and scores[one.name] == pytest.approx(one.scores)
        assert recorded[one.name] == {"meaning": one.meaning, "steps": one.steps} and len(one.steps["mae"]) == 3
    assert f"Test period, with the model of epoch {best}, the best of 0..1: MAE {scores['pgt-dcrnn']['mae']:.4g}, RMSE" in " ".join(
        output.err.split()
    )
    strongest = min(rivals, key=lambda one: one.scores["mae"])
    for ahead, step in enumerate(row["horizon"]):
        at_step = {one.name: one.steps["mae"][ahead] for one in rivals}
        assert at_step[step["best_rival"]] == step["rival_mae"] == min(at_step.values())
    against = f"MAE {scores['pgt-dcrnn']['mae']:.4g} against {strongest.scores['mae']:.4g}."
    assert row["verdict"][:2] == [f"pgt-dcrnn does not beat the {strongest.name}: {against}", f"That predicts {strongest.meaning}."]
    command("train", experiment("shown", strategies=["index"], epochs=1))
    out = capsys.readouterr().out
    assert "test period, with the model of epoch 0" in out and re.search(r"last value +[\d.]+ +[\d.]+ +[\d.]+", out)
    assert "errors at each step ahead, with the model of epoch 0, the best of 0..0" in out and re.search(
        r"\n +3(( +[\d.]+){2} +[\d.]+%){2}  [a-z][^\n]* [\d.]+ *\n", out
    )
    command("report", "runs/shown-train-1", "--out", "page")
    assert "Errors at each step ahead" in Path("page/report.md").read_text()


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"milestones": [3, 2]}, r"training\.milestones: expected epochs in order, each once, above 0, got \[3, 2\]"),
        ({"milestones": [2, 2]}, r"training\.milestones: expected epochs in order"),
        ({"milestones": [0]}, r"training\.milestones: .* above 0"),
        (
            {"milestone_factor": 0.5},
            r"training\.milestone_factor: it multiplies the learning rate at training\.milestones, and there are none",
        ),
        ({"clip": float("inf")}, r"training\.clip: expected"),
    ],
)
def test_keys_of_the_optimiser_that_change_nothing_are_refused(training, message):
    with pytest.raises(UserError, match=message):
        check({**SMALL, "dataset": "los_loop", "epochs": 5, "training": {**TRAINING, **training}}, "x")


def test_a_forecaster_is_that_of_its_best_epoch(experiment, inline, capsys):
    """Epoch 1 is worse than epoch 0, where steps are far too long: the test is epoch 0's, and patience ends the run; without validation the
    last epoch is tested, and patience has nothing to wait for."""
    training = {**TRAINING, "learning_rate": 3.0, "patience": 2}
    command("train", experiment(strategies=["index"], epochs=9, training=training))
    folder = Path("runs/small-train-1/train")
    values = [record.scores["mae"] for record in epoch_records(folder)]
    best = values.index(min(values))
    assert len(values) == best + 3 < 9 and json.loads((folder / "ended.json").read_text()) == {"epochs": best + 3, "best": best}
    words = " ".join(capsys.readouterr().err.split())
    assert f"Training ended after {best + 3} of 9 epochs: the 2 epochs after epoch {best} have no better MAE (training.patience)." in words
    command("train", experiment("once", strategies=["index"], epochs=best + 1, training={**training, "patience": 0}))
    assert Path("runs/once-train-1/train/test.json").read_text() == (folder / "test.json").read_text()
    unseen = {**training, "validation": False, "patience": 0}
    command("train", experiment("unseen", strategies=["index"], epochs=2, training=unseen))
    assert not Path("runs/unseen-train-1/train/best.pt").exists()
    assert json.loads(Path("runs/unseen-train-1/train/horizon.json").read_text()).keys() == {"validation", "test"}
    with pytest.raises(UserError, match=r"training\.patience: it waits for a better score of the validation"):
        check({**SMALL, "dataset": "los_loop", "training": {**unseen, "patience": 2}}, "x")


@pytest.mark.parametrize("reader", ["st-transformer", "stid"])
def test_a_model_finds_the_clock_among_the_channels(experiment, inline, capsys, reader):
    """Two values and the time of day: what stands in any of them changes the test error; without a clock nothing starts."""
    rng = np.random.default_rng(0)
    values = np.concatenate([store.load("readings").values, rng.normal(size=(120, 6, 1)).astype(np.float32)], 2)
    other, edges = values.copy(), np.zeros((2, 1), np.int32)
    other[:, :, 1] = rng.normal(size=(120, 6))
    model, values_by_day = {"name": reader, "hidden": 8}, {}
    for name, readings in (("pair", values), ("other", other)):
        store.save(name, Signal(readings, edges))
        for day in (24, 7):
            data = {"path": name, "time_of_day": day}
            command("train", experiment(f"{name}-{day}", dataset=data, model=model, strategies=["index"], epochs=1))
            stored = store.load(f"runs/{name}-{day}-train-1/data/signal")
            assert isinstance(stored, Signal) and (stored.num_channels, stored.calendar) == (3, 1)
            values_by_day[name, day] = Path(f"runs/{name}-{day}-train-1/train/test.json").read_text()
    assert len(set(values_by_day.values())) == 4
    capsys.readouterr()
    for name in ("train", "bench"):
        command(name, experiment("none", dataset={"path": "pair"}, model=model, strategies=["index"]), expect=2)
        assert re.search(rf"'{reader}' reads the time of day, and no channel .*: add one by dataset: {{time_of_day", one_line(capsys))
    command("train", experiment("own", dataset={"path": "pair", "calendar": 1}, model=model, strategies=["index"], epochs=1))
    capsys.readouterr()
    command("train", experiment("all", dataset={"path": "pair", "calendar": 2}, strategies=["index"], epochs=1), expect=2)
    assert "calendar: 2 of 2 channels; at least one is a value" in one_line(capsys)
