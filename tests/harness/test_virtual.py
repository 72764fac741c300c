"""`virtual: true`: training on ranks that one process executes has the losses and scores of processes, no times, and says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import command, one_line
from rank_families import FAMILIES, families_in

from chronoscale.errors import UserError
from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.publish.settings import executed
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import load_experiment
from chronoscale.real_exec.training.epoch_record import epoch_records

pytestmark = pytest.mark.filterwarnings("ignore::chronoscale.errors.ChronoscaleWarning")
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """A function: write the small experiment of a family, with changes."""
    monkeypatch.chdir(tmp_path)
    families = families_in(tmp_path)

    def changed(family: str, name: str = "x", **changes: Any) -> Path:
        given = json.loads(families(family).read_text()) | {"epochs": 2, "modules": [], "device": "cpu"}
        path = tmp_path / f"{name}.yaml"
        path.write_text(json.dumps(given | changes))
        return path

    return changed


def training(name: str) -> Path:
    return Path("runs") / f"{name}-train-1" / "train"


@pytest.mark.sample(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_training_is_that_of_processes(write: Write, capsys: pytest.CaptureFixture[str], family: str) -> None:
    """Losses and scores of every epoch, and of the test, on two ranks; no times."""
    for name in ("processes", "virtual"):
        command("train", write(family, name, virtual=name == "virtual"), "--json")
    printed = capsys.readouterr()
    assert "One process executed 2 virtual ranks in turn: losses, scores and model are those of 2 ranks; nothing was timed." in " ".join(
        printed.err.split()
    )
    real, virtual = (epoch_records(training(name)) for name in ("processes", "virtual"))
    for one, other in zip(real, virtual, strict=True):
        assert one.losses == other.losses and one.scores == other.scores and one.end_ns and not other.end_ns
    if (training("processes") / "test.json").exists():
        assert (training("processes") / "test.json").read_text() == (training("virtual") / "test.json").read_text()
    assert not list(training("virtual").glob("epochs/*.parquet")) and list(training("processes").glob("epochs/*.parquet"))
    assert not (training("virtual") / "timeline.json").exists()
    command("report", *(training(name).parent for name in ("processes", "virtual")))


def test_many_virtual_ranks_are_no_many_processes(
    write: Write, inline: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """REAL's strategies train by their own schedule from the first epoch on; the table has no times; processes are another setting."""
    processes: list[int] = []

    def start(entry: str, path: Path, ranks: int, threads: int) -> Path:
        processes.append(ranks)
        return path

    monkeypatch.setattr("chronoscale.real_exec.ranks.launch.start", start)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    command("train", write("snapshots", training={}, strategies=["real-g+"], ranks=[8], virtual=True))
    printed = capsys.readouterr()
    assert processes == [1]
    assert "trained 2 epochs on 8 virtual ranks" in printed.out and "share 1 core" not in printed.err
    assert "real-g+" in printed.out and "spread" not in printed.out and "parts of the epoch" not in printed.out
    assert [record.strategy for record in epoch_records(training("x"))] == ["real-g+"] * 2
    run = Run(training("x").parent)
    assert executed(run, load_experiment(run)).fact("virtual") == "true" and run.environment["virtual"] == "true"


def test_an_epoch_goes_on_where_it_was(write: Write, inline: None, lose: Callable[[int], None], capsys: pytest.CaptureFixture[str]) -> None:
    """Also where every rank has a file of its memory."""
    command("train", write("streams", "whole", virtual=True, epochs=3))
    lose(1)
    command("train", write("streams", "cut", virtual=True, epochs=3), expect=1)
    command("train", write("streams", "cut", virtual=True, epochs=3))
    whole, cut = (epoch_records(training(name)) for name in ("whole", "cut"))
    assert [record.losses for record in whole] == [record.losses for record in cut] and len(cut) == 3
    assert (training("whole") / "test.json").read_text() == (training("cut") / "test.json").read_text()


@pytest.mark.parametrize("name", ["bench", "profile", "validate"])
def test_what_measures_times_refuses(write: Write, capsys: pytest.CaptureFixture[str], name: str) -> None:
    command(name, write("streams", virtual=True), expect=2)
    assert one_line(capsys) == (
        f"error: virtual: true: {name} measures times, and those of virtual ranks mean nothing; leave it out, or `train`"
    )


@pytest.mark.parametrize("given", [{"device": "cuda"}, {"launch": "graph"}])
def test_a_gpu_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(UserError, match="virtual: true executes on the CPU; leave out device: cuda and launch: graph"):
        check({"dataset": "growth_small", "virtual": True, **given}, "x")


def test_what_follows_times_is_refused(write: Write, inline: None, capsys: pytest.CaptureFixture[str]) -> None:
    adapts = {**FAMILIES["streams"]["training"], "adaptive": True}  # type: ignore[dict-item]
    command("train", write("streams", training=adapts, virtual=True), expect=2)
    assert "training.adaptive: theta and alpha follow measured times, and those of virtual ranks mean nothing" in one_line(capsys)
