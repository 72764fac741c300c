"""Training that comes to a number that is not finite, as the command line has it: one line, a mark in the run, no winner."""

import json
import re
from pathlib import Path

import pytest
from command_line import command, one_line

from chronoscale.datasets import store
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.errors import NotFiniteError, UserError
from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.runs.run_folder import Run


def test_training_stops_and_the_run_says_where(experiment, inline, capsys):
    """No epoch is kept that saw it, and a run that got through has no mark."""
    store.save("readings", TrafficSignal(6, 120, seed=1).signal())
    training = {"batch_size": 2, "window": 4, "horizon": 3, "batches": 4, "learning_rate": 1e30}
    changes = {"dataset": {"path": "readings"}, "model": {"name": "a3t-gcn", "hidden": 4}, "groups": None}
    command("train", experiment(training=training, strategies=["index"], epochs=3, **changes), expect=2)
    said = r"strategy 'index', rank 0, iteration 1, epoch 0: the loss is not finite; a smaller training.learning_rate may help"
    assert re.search(said, one_line(capsys))
    run = Run(Path("runs/small-train-1"))
    assert re.search(said, json.loads((run.folder / "status.json").read_text())["not_finite"]) and not run.complete
    assert not list((run.folder / "train" / "epochs").iterdir()) and not (run.folder / "train" / "test.json").exists()
    run.finish()
    assert run.complete and not run.not_finite


@pytest.mark.slow
def test_a_bench_crowns_nobody(experiment, inline, capsys):
    """Two strategies in one job: neither's numbers are kept."""
    changes = {"training": {"learning_rate": 1e30}, "strategies": ["psg", "real-reuse"], "repeats": 2, "ranks": [1]}
    for name in ("bench", "validate"):
        command(name, experiment(**changes), expect=2)
        assert re.search(r"strategy '[\w-]+', rank 0, iteration 1, pass 0: .* is not finite", one_line(capsys))
    assert not list(Path("runs").glob("*/ranks-*"))
    command("report", "runs/small-bench-1", "--out", "page", expect=2)
    assert "nothing finished to report" in one_line(capsys)


def test_what_was_kept_is_reported_with_the_mark(experiment, inline, capsys):
    command("bench", experiment(ranks=[1], repeats=1, strategies=["psg"]))
    run = Run(Path("runs/small-bench-1"))
    with pytest.raises(NotFiniteError), run.recording_not_finite():
        raise NotFiniteError("the loss is not finite")
    command("report", str(run.folder), "--out", "page")
    assert "stopped at a number that is not finite: the loss" in Path("page/index.html").read_text()


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize("key", ["training.learning_rate", "dataset.cut.width"])
def test_experiments_have_finite_numbers(key, value):
    data = {"dataset": {"name": "uci_messages"}}
    part, *rest = key.split(".")
    inner = data.setdefault(part, {})
    for name in rest[:-1]:
        inner = inner.setdefault(name, {})
    inner[rest[-1]] = value
    with pytest.raises(UserError, match=rf"{key}: expected a finite number"):
        check(data, "here")
