"""The command line on models of event streams in users' files: trained, taken up, on two ranks, compared; what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from command_line import command, killed_at, one_line
from own_models import MEAN, TGN, written
from stream_case import stream

from chronoscale.datasets import store
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import load_experiment
from chronoscale.real_exec.training.checkpoint import CHECKPOINT
from chronoscale.real_exec.training.epoch_record import epoch_records

pytestmark = pytest.mark.filterwarnings("ignore::chronoscale.errors.ChronoscaleWarning")
Write = Callable[..., Path]
TRAINING = {"batch_size": 20, "fanout": [3], "ranked": 3}


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """A folder with a stream of 150 events and `tgn.py`, and a function that writes experiment files whose model is the file's."""
    monkeypatch.chdir(tmp_path)
    store.save(tmp_path / "events", stream(nodes=15, events=150))
    written(tmp_path, "TGN", TGN)

    def write(stem: str = "small", model: str = "tgn.py:TGN", **changes: object) -> Path:
        own = {"name": model, "hidden": 8, "time": 4}
        keys = {"dataset": {"path": "events"}, "model": own, "training": TRAINING, "strategies": ["tgl-unique"], "ranks": [1]}
        path = tmp_path / f"{stem}.yaml"
        path.write_text(json.dumps({**keys, "epochs": 2, "repeats": 1, "warmup": 0, **changes}))
        return path

    return write


def training(stem: str) -> Path:
    return Path("runs") / f"{stem}-train-1" / "train"


def left(stem: str) -> tuple[object, ...]:
    """What a training comes to: losses and scores, the test's, and the best epoch's weights, memory and mails."""
    best = torch.load(training(stem) / "best.pt", weights_only=True)
    tensors = {f"{part} {name}": value.tolist() for part in ("model", "state") for name, value in best[part].items()}
    epochs = [(record.losses, record.scores) for record in epoch_records(training(stem))]
    return epochs, (training(stem) / "test.json").read_text(), tensors


def test_a_run_that_was_lost_ends_as_one_that_was_not(
    experiment: Write, lose: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    file, whole = (experiment(stem, epochs=4) for stem in ("lost", "whole"))
    lose(2)
    command("train", file, expect=1)
    assert "2 of 4 epochs are kept, the same command goes on after them" in one_line(capsys)
    command("train", file)
    assert "taking up runs/lost-train-1" in capsys.readouterr().err
    command("train", whole)
    assert left("lost") == left("whole")


@pytest.mark.slow
def test_ranks_that_were_killed_end_as_ones_that_were_not(experiment: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """Two processes and their command, killed in the middle of an epoch."""
    file, whole = (experiment(stem, ranks=[2], epochs=12) for stem in ("killed", "whole"))
    killed_at(lambda: len(epoch_records(training("killed"))) >= 3, "train", file)
    assert 3 <= len(epoch_records(training("killed"))) < 12
    command("train", file)
    assert "taking up runs/killed-train-1" in capsys.readouterr().err
    command("train", whole)
    assert left("killed") == left("whole")


@pytest.mark.parametrize("strategy", ["tgl-unique", "tgl-dist"])
def test_ranks_are_one_with_a_larger_batch(experiment: Write, inline: None, strategy: str) -> None:
    """Virtual ranks: losses of every step, and the model; with a copy of the memory on each rank, and with parts of it."""
    for stem, ranks, size in (("one", 1, 20), ("two", 2, 10)):
        sizes = {**TRAINING, "batch_size": size, "learning_rate": 1e-3}
        command("train", experiment(stem, ranks=[ranks], virtual=True, training=sizes, strategies=[strategy]))
    one, two = (epoch_records(training(stem)) for stem in ("one", "two"))
    for mine, theirs in zip(one, two, strict=True):
        assert mine.losses == pytest.approx(theirs.losses, abs=1e-4) and len(mine.losses) == 6
    models = [torch.load(training(stem) / CHECKPOINT, weights_only=True)["model"] for stem in ("one", "two")]
    for name, value in models[0].items():
        assert float((value - models[1][name]).abs().mean()) < 1e-4, name


def test_it_goes_by_its_class_and_a_change_of_the_file_begins_a_new_run(
    experiment: Write, inline: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs are taken up while the file is what it was; what was trained stays readable without it."""
    file = experiment()
    command("train", file, "--json")
    assert '"TGN"' in capsys.readouterr().out
    run = Run(Path("runs/small-train-1"))
    assert str(Path("tgn.py").absolute()) in run.environment
    status = run.folder / "status.json"
    status.write_text(status.read_text().replace("complete", "running"))
    (run.folder / ".lock").unlink()  # which this process holds to its end
    other = Path("tgn.py").read_text() + "\n# another\n"
    Path("tgn.py").write_text(other)
    command("train", file)
    assert "taking up" not in capsys.readouterr().err and Path("runs/small-train-2").exists()
    Path("tgn.py").unlink()
    assert load_experiment(run).subject == "TGN on events"
    command("report", "runs/small-train-2", "--out", "page")
    page = Path("page/index.html").read_text()
    assert "TGN on events" in page and f"{Path('tgn.py').absolute()}:" not in page


def test_it_takes_part_in_compare(experiment: Write, inline: None, capsys: pytest.CaptureFixture[str]) -> None:
    file = experiment(strategies=["tgl", "tgl-unique"], epochs=1, repeats=1, compare={"seeds": 1, "rates": [0.001]})
    command("compare", file, "--json")
    result = json.loads(capsys.readouterr().out)
    assert {row["strategy"] for row in result["strategies"]} == {"tgl", "tgl-unique"} and "AP" in result["verdict"]


def test_simulation_wants_kernels_and_takes_fitted_costs(experiment: Write, inline: None, capsys: pytest.CaptureFixture[str]) -> None:
    file = experiment(repeats=2, gpus=[1])
    for words in (("simulate",), ("advise",)):
        command(*words, file, expect=2)
        assert "model: kernels of 'TGN' were not counted, and these costs need them; train, compare and validate do not" in one_line(capsys)
    command("validate", file, "--json")
    assert {row["strategy"] for row in json.loads(capsys.readouterr().out)} == {"tgl-unique"}


def test_what_is_wrong_is_said_when_the_experiment_is_read(
    experiment: Write, inline: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the class is not there; where it does not fit, once sizes are known; a number that is not finite while it trains."""
    command("train", experiment(model="tgn.py:Other"), expect=2)
    assert "small.yaml: " in (line := one_line(capsys)) and "tgn.py: no 'Other' in it; expected `class Other(torch.nn.Module)`" in line
    command("train", experiment(model="nowhere.py:Other"), expect=2)
    assert "nowhere.py: no such file" in one_line(capsys)
    written(tmp_path, "Mean", MEAN.replace("shape.hidden)", "7)"))
    command("train", experiment(model="mean.py:Mean"), expect=2)
    assert "mean.py: Mean.forward returned torch.float32 [3, 7], expected torch.float32 [3, 8], [rows, hidden]" in one_line(capsys)
    late = MEAN.replace("Mean", "Late").replace("self.merge(", "float('nan' if near.elapsed.max() > 2 else 1) * self.merge(")
    written(tmp_path, "Late", late)
    command("train", experiment(model="late.py:Late"), expect=2)
    assert "iteration 0, epoch 0: the loss is not finite" in one_line(capsys)
