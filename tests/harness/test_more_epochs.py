"""Training that goes on to more epochs than its run was started with, against runs of so many at once."""

import json
from pathlib import Path

import pytest
from command_line import command, one_line
from one_rank import wait_for_planes
from stream_experiments import written

from chronoscale.real_exec.training.epoch_record import epoch_records

WINDOW = {"full": 1, "decayed": 2}
HELD = {"task": "in-degree", "validation": 0.2, "test": 0.2}


@pytest.fixture
def snapshots(experiment, inline):
    """A file of snapshots of which some are held out."""
    return experiment(strategies=["psg"], ranks=[1], groups=None, training=HELD)


def train(file: object, epochs: int, expect: int = 0) -> None:
    command("train", file, "--epochs", epochs, expect=expect)
    wait_for_planes()


def ended(name: str, number: int = 1) -> Path:
    """Folder of a training that a process, by now ended, ran."""
    folder = Path(f"runs/{name}-train-{number}")
    (folder / ".lock").unlink()
    return folder / "train"


def losses(folder: Path) -> list[tuple[float, ...]]:
    return [record.losses for record in epoch_records(folder)]


@pytest.mark.sample(2)
@pytest.mark.parametrize("strategy", ["psg", "real-g+", "flaredtdg"])
def test_snapshots_go_on(experiment, inline, capsys, strategy):
    """The same run, and what a run of so many has; one of fewer is a new one."""
    files = [
        experiment(stem, strategies=[strategy], ranks=[1], groups=None, training=HELD | (WINDOW if strategy == "flaredtdg" else {}))
        for stem in ("small", "whole")
    ]
    train(files[0], 2)
    ours = ended("small")
    train(files[0], 4)
    assert "taking up runs/small-train-1, which has fewer epochs" in capsys.readouterr().err
    train(files[1], 4)
    whole = ended("whole")
    for name in ("test.json", "ended.json"):
        assert (ours / name).read_text() == (whole / name).read_text()
    assert losses(ours) == losses(whole) and len(losses(ours)) == 4
    train(files[0], 3)
    assert len(losses(ended("small", 2))) == 3 and len(losses(ours)) == 4


def test_milestones_may_lie_beyond_the_last_epoch(experiment, inline):
    """One that a longer training reaches slows it from there on; a job knows those that it reaches."""
    for stem in ("small", "whole"):
        experiment(stem, strategies=["psg"], ranks=[1], groups=None, training=HELD | {"milestones": [3], "milestone_factor": 0.5})
    train("small.yaml", 2)
    assert json.loads((ended("small") / "train.job.json").read_text())["settings"]["milestones"] == []
    for stem in ("small", "whole"):
        train(f"{stem}.yaml", 5)
    ours, whole = (Path(f"runs/{name}-train-1/train") for name in ("small", "whole"))
    assert losses(ours) == losses(whole)
    rates = [next(iter(record.rates)) for record in epoch_records(ours)]
    assert rates == pytest.approx([rates[0]] * 3 + [rates[0] / 2] * 2)


@pytest.mark.parametrize("strategy", ["tgl-unique", "memshare"])
def test_streams_go_on(tmp_path, monkeypatch, inline, strategy):
    monkeypatch.chdir(tmp_path)
    write = written(tmp_path)
    files = {name: write(name, strategies=[strategy]) for name in ("small", "whole")}
    for name, epochs in (("small", 1), ("small", 3), ("whole", 3)):
        train(files[name], epochs)
        ended(name)
    ours, whole = (Path(f"runs/{name}-train-1/train") for name in files)
    assert losses(ours) == losses(whole) and (ours / "test.json").read_text() == (whole / "test.json").read_text()


def test_what_it_said_at_its_end_goes_with_the_first_epoch_more(snapshots, lose, capsys):
    """A test of fewer epochs is not shown beside more."""
    train(snapshots, 2)
    ours = ended("small")
    (file, *_) = (ours / "predicted").glob("*.0.npy")
    before = (ours / "test.json").read_text()
    lose(3)
    train(snapshots, 5, expect=1)
    assert len(losses(ours)) == 3 and not (ours / "test.json").exists() and not (ours / "ended.json").exists()
    capsys.readouterr()
    command("predict", "runs/small-train-1", expect=2)
    assert "training has not come to its end" in one_line(capsys)
    assert not file.exists()
    train(snapshots, 5)
    assert len(losses(ours)) == 5 and (ours / "test.json").read_text() != before and file.exists()


def test_an_end_takes_no_file_of_other_ranks(snapshots):
    """One that is tested again, perhaps on fewer ranks than when it was lost."""
    train(snapshots, 2)
    ours = ended("small")
    status = json.loads((ours.parent / "status.json").read_text())
    (ours.parent / "status.json").write_text(json.dumps({**status, "state": "running"}))
    (file, *_) = (ours / "predicted").glob("*.0.npy")
    other = file.with_name(file.name.replace(".0.", ".1."))
    other.write_bytes(b"of rank 1")
    (ours / "ended.json").unlink()
    train(snapshots, 2)
    assert (ours / "ended.json").exists() and file.exists() and not other.exists()


def test_what_was_left_incomplete_comes_first(snapshots, lose, capsys):
    """Before an older run of fewer epochs; nothing begins anew."""
    lose(1)
    train(snapshots, 4, expect=1)
    train(snapshots, 2)
    Path("runs/small-train-1").rename("aside")
    Path("runs/small-train-2").rename("runs/small-train-1")
    Path("aside").rename("runs/small-train-2")
    ended("small")
    capsys.readouterr()
    train(snapshots, 4)
    assert "taking up runs/small-train-2, which was left incomplete" in capsys.readouterr().err
    assert [len(losses(Path(f"runs/small-train-{number}/train"))) for number in (1, 2)] == [2, 4]
    assert json.loads(Path("runs/small-train-2/train/ended.json").read_text())["epochs"] == 4
