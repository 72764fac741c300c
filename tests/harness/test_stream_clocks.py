"""Clocks of models on event streams, from the command line: the unit that is told, what a run begins with, what is warned of."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import command
from stream_experiments import MODEL, left, stream, written

from chronoscale.datasets import store
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import load_experiment


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    """A folder to work in, with streams, and a function that writes experiment files."""
    monkeypatch.chdir(tmp_path)
    return written(tmp_path)


def test_a_run_keeps_the_clock_that_it_was_begun_with(experiment, lose, capsys):
    """Begun when published clocks were the default, it goes on so; one of a file that asked for them does not, once that is deleted."""
    published = {"epochs": 3, "model": {**MODEL, "clock": "linear"}}
    lose(1)
    command("train", experiment("old", **published), expect=1)
    plain, folders = experiment("old", epochs=3), [Path(f"runs/old-train-{number}") for number in (1, 2)]
    command("train", plain)
    assert [load_experiment(Run(folder)).model.clock for folder in folders] == ["linear", "gaps"]
    (folders[0] / "experiment.yaml").write_text(plain.read_text())  # as it was left when the file needed not ask
    capsys.readouterr()
    command("train", plain)
    assert "taking up runs/old-train-1" in capsys.readouterr().err
    command("train", experiment("whole", **published))
    assert left(folders[0] / "train") == left(Path("runs/whole-train-1/train"))


def test_a_run_from_before_there_were_clocks_has_the_published_one(experiment, inline):
    command("train", experiment(epochs=1))
    run = Run(Path("runs/small-train-1"))
    resolved = json.loads((run.folder / "resolved.json").read_text())
    del resolved["model"]["clock"]
    run.write("resolved.json", resolved)
    assert load_experiment(run).model.clock == "linear"


def test_a_run_from_before_weights_had_a_cap_has_none(experiment, inline):
    command("train", experiment(epochs=1))
    run = Run(Path("runs/small-train-1"))
    resolved = json.loads((run.folder / "resolved.json").read_text())
    training = resolved["training"]
    assert (training.pop("weight_cap"), training.pop("at_least_one")) == (4.0, True)
    run.write("resolved.json", resolved)
    assert (load_experiment(run).training.weight_cap, load_experiment(run).training.at_least_one) == (0.0, False)


def test_the_unit_of_a_clock_is_told_and_kept(experiment, inline, capsys):
    command("train", experiment(epochs=1))
    (note,) = json.loads(Path("runs/small-train-1/train/notes.json").read_text())
    best = torch.load("runs/small-train-1/train/best.pt", weights_only=True)["model"]
    events, gaps = stream(), []
    last: dict[int, int] = {}
    for e in range(210):
        for node in dict.fromkeys((int(events.src[e]), int(events.dst[e]))):
            gaps += [int(events.t[e]) - last[node]] if node in last else []
            last[node] = int(events.t[e])
    assert best["clock.unit"].item() == pytest.approx(np.std(gaps)) and f" units of {np.std(gaps):.6g}, " in note
    assert note in " ".join(capsys.readouterr().err.split())


def test_phases_beyond_float32_are_warned_of(experiment, inline, capsys):
    """A month in seconds turns a published clock, and not one on the scale of the stream's gaps."""
    store.save(Path("month"), replace(stream(), t=1_300_000_000 + 2000 * stream().t))
    for clock in ("linear", "gaps"):
        command("train", experiment(clock, epochs=1, dataset={"path": "month"}, model={**MODEL, "clock": clock}))
        warned = "float32 is off by 0.18" in " ".join(capsys.readouterr().err.split())
        assert warned == (clock == "linear")
