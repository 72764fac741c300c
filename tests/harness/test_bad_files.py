"""Bad inputs, a row each: what is changed in a file, and what the one line says. Nothing ends in a traceback."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny_run
import torch
from command_line import command, one_line

from chronoscale.datasets import store
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.errors import UserError, in_words
from chronoscale.harness.keys.experiment_files import load
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import find_runs, load_experiment
from chronoscale.harness.runs.training_record import FOLDER
from chronoscale.real_exec.signals.forecast.walks import transitions
from chronoscale.real_exec.training.checkpoint import restore
from chronoscale.records import AGAIN

GOOD = "dataset: growth_small\nmodel: {name: t-gcn, hidden: 8}\ngpus: [1]\n"
DEEP = "extra: " + 50 * "[" + 50 * "]" + "\n"

# What is added to GOOD (a key again: in its place), and what is said.
EXPERIMENTS = [
    ("groups: 3\nseed: 1\ngroups: 4\n", r"not valid YAML: line 6: key 'groups' stands twice, first in line 4"),
    ("training: {stride: 1, stride: 2}\n", r"line 4: key 'stride' stands twice, first in line 4"),
    (DEEP, r"not valid YAML: line 4: nested deeper than 32 levels"),
    ("seed: [1\n", r"not valid YAML: line 5: "),
    ("name: 2020-99-01\n", r"not valid YAML: month must be in 1..12"),
    ("seed: !!int x\n", r"not valid YAML: "),
    ("seed: !!python/name:os.system\n", r"not valid YAML: line 4: could not determine a constructor"),
    ("1: 2\n", r"expected text as a key, got 1"),
    ("model: {hidden: true}\n", r"model\.hidden: expected a whole number \(got true\)"),
    ("model: {hidden: 8.0}\n", r"model\.hidden: expected a whole number \(got 8\.0\)"),
    ("model: {hidden: '8'}\n", r"model\.hidden: expected a whole number \(got '8'\)"),
    ("model: {hidden: 1000000000}\n", r"model\.hidden: expected at most 65536 \(got 1000000000\)"),
    ("model: {layers: 100000000000000000000}\n", r"model\.layers: expected at most 2147483647"),
    ("model: [t-gcn]\n", r"model: expected keys and values \(got \['t-gcn'\]\)"),
    ("training: {learning_rate: fast}\n", r"training\.learning_rate: expected a number \(got 'fast'\)"),
    ("training: {learning_rate: .inf}\n", r"training\.learning_rate: expected a finite number"),
    ("training: {learning_rate: true}\n", r"training\.learning_rate: expected a number \(got true\)"),
    ("training: {groups_per_rank: true}\n", r"training\.groups_per_rank: expected a whole number \(got true\)"),
    ("training: {groups_per_rank: 3}\n", r"training\.groups_per_rank: expected 1 or 2 \(got 3\)"),
    ("training: {variant: exakt}\n", r"training\.variant: expected 'exact' or 'as-published' \(got 'exakt'\)"),
    ("training: {strid: 2}\n", r"unknown key 'training\.strid'; did you mean 'training\.stride'\?"),
    ("epoch: 2\n", r"unknown key 'epoch'; did you mean 'epochs'\?"),
    ("extrapolate: 1\n", r"extrapolate: expected true or false \(got 1\)"),
    ("ranks: 2\n", r"ranks: expected a list \(got 2\)"),
    ("ranks: [1, true]\n", r"ranks\.1: expected a whole number \(got true\)"),
    ("gpus: {1: 2}\n", r"gpus: expected a list"),
    ("strategies: psg\n", r"strategies: expected a list \(got 'psg'\)"),
    ("strategies: [3]\n", r"strategies\.0: expected text \(got 3\)"),
    ("name: 5\n", r"name: expected text \(got 5\)"),
    ("name: a/b\n", r"name: it becomes that of folders: letters, digits and \._- alone.*got 'a/b'"),
    ("seed: -1\n", r"seed: expected at least 0 \(got -1\)"),
    ("seed: 100000000000000000000\n", r"seed: expected at most 9223372036854775807"),
    ("dataset:\n", r"dataset: expected keys and values \(got nothing\)"),
    ("dataset: {}\n", r"dataset: give exactly one of name, path \(got \{\}\)"),
    ("dataset: {path: x, options: [a]}\n", r"dataset\.options: expected keys and values \(got \['a'\]\)"),
    ("dataset: {path: x, cut: {width: 0}}\n", r"dataset\.cut\.width: expected more than 0 \(got 0\)"),
    ("memory: much\n", r"memory: expected bytes or a size such as 2GB"),
]


@pytest.mark.parametrize(("change", "message"), EXPERIMENTS)
def test_an_experiment_file_that_says_something_else(tmp_path, change, message):
    lines = [line for line in GOOD.splitlines() if line.split(":")[0] not in {part.split(":")[0] for part in change.splitlines()[:1]}]
    path = tmp_path / "x.yaml"
    path.write_text("\n".join([*lines, *[""] * (3 - len(lines)), change]))
    with pytest.raises(UserError) as caught:
        load(path)
    line = str(caught.value)
    assert line.startswith(f"{path}: ") and re.search(message, line) and "\n" not in line
    assert not re.search(r"Input should|Field required|valid \w+ type|Experiment|SnapshotT", line)


def test_numbers_may_be_written_as_people_write_them(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(GOOD + "training: {learning_rate: 1e-3}\nmemory: 2e9\n")
    assert (load(path).training.learning_rate, load(path).memory) == (1e-3, 2_000_000_000)
    path.write_text(GOOD + "training: {learning_rate: 1}\n")
    assert load(path).training.learning_rate == 1.0


@pytest.mark.parametrize(
    ("stem", "name"), [("a b", "a-b"), ("später", "sp-ter"), (".hidden", "hidden"), ("a.b_c-1", "a.b_c-1"), ("…", "experiment")]
)
def test_a_run_is_called_after_its_file_whatever_that_is_called(tmp_path, stem, name):
    path = tmp_path / f"{stem}.yaml"
    path.write_text(GOOD)
    assert load(path).name == name


def test_a_cut_wider_than_time_itself(tmp_path, monkeypatch, capsys):
    """A width that no clock has: the snapshots that it makes are one, and too few."""
    monkeypatch.chdir(tmp_path)
    Path("events.txt").write_text("1 2 10\n1 3 11\n2 3 12\n")
    Path("x.yaml").write_text("dataset: {path: events.txt, cut: {width: 1e300}}\nmodel: t-gcn\n")
    command("simulate", "x.yaml", expect=2)
    assert "'events' has 1 snapshots; a group of 4 needs 5" in one_line(capsys)


def emptied(path: Path) -> None:
    path.write_text("{}")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def gone(path: Path) -> None:
    path.unlink()


def without(key: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != key}))


def put(text: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(text)


def array(*shape: int, dtype: str = "float64") -> Callable[[Path], None]:
    return lambda path: np.save(path, np.zeros(shape, dtype))


# A file of a run, what happens to it, and what a report of the run says: of files of the run as such, in place of a report.
RUNS = [
    ("status.json", emptied, r"not a readable status of a run \(command: required, and not there\)"),
    ("status.json", put('{"command": "bench", "digest": "x", "state": "done"}'), r"state: expected 'running' or 'complete' \(got 'done'\)"),
    ("status.json", put("[]"), r"expected keys and values"),
    ("status.json", gone, r"tiny-bench-1: not a run \(no status\.json\)"),
    ("resolved.json", cut, r"not a readable resolved of a run \(not JSON"),
    ("resolved.json", without("dataset"), r"dataset: required, and not there"),
    ("environment.json", put('{"device": 3}'), r"device: expected text \(got 3\)"),
    ("sim-00002-psg/point.json", emptied, r"not a readable point \(strategy: required"),
    ("sim-00002-psg/point.json", put("\x00"), r"not a readable point \(not JSON"),
    ("sim-00002-psg/trace.parquet", cut, r"not a readable trace"),
    ("sim-00002-psg/schedule.parquet", emptied, r"not a readable schedule"),
    ("ranks-1/psg-losses.npy", cut, r"not a readable losses"),
    ("ranks-1/psg-losses.npy", array(2, 2, dtype="int32"), r"expected float64 anyxany, got int32 2x2"),
    ("ranks-1/psg-losses.npy", array(2), r"expected float64 anyxany, got float64 2\)"),
    ("ranks-1/psg-scores.json", put("[{}]"), r"not a readable scores \(ValueError: expected 2 repeats, got 1\)"),
    ("ranks-1/psg-scores.json", put("[[1.0, 2.0, 0.1], []]"), r"0: expected keys and values \(got \[1\.0, 2\.0, 0\.1\]\)"),
    ("ranks-1/psg-scores.json", put('[{"mae": 1.0}, {"precision": 1.0}]'), r"1\.precision: 'precision' is no score; there are mae, rmse,"),
    ("ranks-1/psg-scores.json", put('[{"mae": "1"}, {}]'), r"0\.mae: expected a number \(got '1'\)"),
    ("replay-1/psg.parquet", cut, r"not a readable trace"),
    ("train/control.json", emptied, r"not a readable record of the control plane \(activities: required"),
    ("train/epochs/000001.json", cut, r"not a readable record of an epoch \(not JSON"),
    ("train/epochs/000001.json", without("losses"), r"losses: required, and not there"),
    ("train/epochs/000001.json", put("[1]"), r"expected keys and values"),
    ("train/epochs/000001.json", without("scores"), r"scores: required, and not there"),  # as of an earlier version, which had errors
    ("train/test.json", put("[1.0, 2.0, 0.1]"), r"not a readable test \(expected keys and values"),  # as of an earlier version
    ("train/test.json", put('{"precision": 1.0}'), r"'precision' is no score"),
    ("environment.json", cut, r"not a readable environment of a run \(not JSON"),
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing happened to."""
    return tiny_run.make(tmp_path_factory.mktemp("sound")).folder


@pytest.fixture
def run(sound: Path, tmp_path: Path) -> Run:
    shutil.copytree(sound, tmp_path / "runs" / sound.name)
    return Run(tmp_path / "runs" / sound.name)


@pytest.mark.sample(14)
@pytest.mark.parametrize(("file", "happens", "message"), RUNS)
def test_a_damaged_file_of_a_run(run, tmp_path, capsys, file, happens, message):
    happens(run.folder / file)
    if "/" in file:
        command("report", run.folder, "--out", tmp_path / "report", "--json")
        report = json.loads(capsys.readouterr().out)
        (note,) = [note for note in report["notes"] if "is damaged" in note]
        assert note.startswith(f"{run.folder / file} is damaged, ") and note.endswith("; it is left out, and the rest is shown.")
        assert re.search(message, note) and AGAIN not in note and report["sections"]
        shown = Path(report["page"]).parent / "report.md"
        assert "psg" in shown.read_text() and note.split(" is damaged")[0] in shown.read_text().replace("\\", "")
        return
    command("report", run.folder, "--out", tmp_path / "report", expect=2)
    line = one_line(capsys)
    assert re.search(message, line) and str(run.folder) in line
    assert "not a run" in line or (str(run.folder / file) in line and line.endswith(("required, and not there", AGAIN)))


@pytest.mark.sample(2)
@pytest.mark.parametrize("file", ["sim-00002-psg/point.json", "sim-00002-psg/trace.parquet", "ranks-1/psg-r1.parquet"])
def test_a_file_that_is_gone_gets_a_line(run, tmp_path, file):
    gone(run.folder / file)
    command("report", run.folder, "--out", tmp_path / "report")
    assert "was asked for more than its folder holds; not there: psg on" in (tmp_path / "report/report.md").read_text()


def test_a_run_that_cannot_be_read_leaves_the_others(run, tmp_path, capsys):
    """Its status is damaged; of a file that was damaged in the other one, too, the report says so."""
    other = shutil.copytree(run.folder, tmp_path / "runs" / "other-bench-1")
    emptied(run.folder / "status.json")
    cut(other / "ranks-1/psg-losses.npy")
    command("report", run.folder, other, "--out", tmp_path / "report", "--json")
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert notes[0].startswith(f"{run.folder} is left out: {run.folder}/status.json: not a readable status")
    assert notes[1].startswith(f"{other}/ranks-1/psg-losses.npy is damaged, ")
    (lack,) = [note for note in notes if "more than its folder holds" in note]
    assert "psg on 1 rank (without psg-losses.npy)" in lack


@pytest.mark.parametrize("happens", [emptied, cut, put("{}"), put("[]")])
def test_damaged_runs_are_left_aside_by_others(run, happens):
    happens(run.folder / "status.json")
    with pytest.warns(match=r"left aside: .*status\.json: not a readable status of a run"):
        assert find_runs(run.folder.parent) == []


def other(**changed: object) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        torch.save({**torch.load(path, weights_only=True), **changed}, path)

    return change


def wrong_moments(path: Path) -> None:
    saved = torch.load(path, weights_only=True)
    saved["optimizer"]["state"][0]["exp_avg"] = torch.zeros(3, 99)
    torch.save(saved, path)


@pytest.mark.parametrize(
    "happens",
    [emptied, cut, put(""), other(model={}), other(model=[]), other(optimizer={}), other(epoch="x"), other(epoch=-1), wrong_moments],
)
def test_a_damaged_checkpoint(run, happens):
    path = run.folder / FOLDER / "checkpoint.pt"
    happens(path)
    with pytest.raises(UserError) as caught:
        restore(run.folder / FOLDER, tiny_run.Held(tiny_run.learner(load_experiment(run))), torch.device("cpu"))
    line = str(caught.value)
    assert line.startswith(f"{path}: not a readable checkpoint of this model (") and "\n" not in line
    assert line.endswith("; delete it to train from the first epoch on")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.EROFS, "runs/x: the file system is read-only; choose a folder that can be written"),
        (errno.EACCES, "runs/x: no permission"),
        (errno.ENOSPC, "runs/x: the disk is full; free some space and give the same command again"),
        (errno.ENOTDIR, "runs/x: part of the path is a file, expected a folder"),
        (errno.EIO, f"runs/x: {os.strerror(errno.EIO)}"),
    ],
)
def test_errors_of_the_system_are_printed_in_words(experiment, monkeypatch, capsys, code, message):
    assert in_words(OSError(code, os.strerror(code), "runs/x")) == message
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: (_ for _ in ()).throw(OSError(code, os.strerror(code), "runs/x")))
    command("simulate", experiment(gpus=[1]), expect=1)
    assert one_line(capsys) == f"error: {message}"


def test_a_file_that_is_cut_short_is_a_full_disk(tmp_path) -> None:
    """NumPy says how many of the numbers it has written, and nothing of the disk."""
    words = "137786 requested and 59360 written"
    assert in_words(OSError(words)) == "the disk is full; free some space and give the same command again"
    assert in_words(OSError(f"{words} so far")) == f"{words} so far"


@pytest.mark.parametrize("published", [False, True])
def test_diffusion_on_a_graph_without_edges_goes_nowhere(published):
    for matrix in transitions(np.zeros((2, 0), np.int32), None, 4, published):
        assert matrix.shape == (4, 4) and matrix.nnz == 0


def test_a_profile_of_snapshots_without_edges_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    none = np.zeros(0, np.int32)
    store.save(tmp_path / "bare", SnapshotSequence(8, np.zeros(7, np.int64), none, none))
    Path("x.yaml").write_text("dataset: {path: bare}\nmodel: {name: t-gcn, hidden: 4}\nranks: [1]\ncosts: fitted\n")
    command("bench", "x.yaml", expect=2)
    assert "dataset 'bare' has no edges in the snapshots that are used: a profile has nothing to time" in one_line(capsys)


def test_work_that_64_bits_do_not_count(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model = "model: {name: wd-gcn, hidden: 65536, inputs: 65536}"
    Path("x.yaml").write_text(f"dataset: {{name: dygraph_small, scale: 4000000}}\n{model}\ngpus: [1]\nstrategies: [psg]\ngroups: 2\n")
    command("simulate", "x.yaml", expect=2)
    assert "strategy 'psg': the work of a task at these widths and counts does not fit into 64 bits" in one_line(capsys)
