"""`job pack` and `job unpack`: what `bench` on several machines would send is there already."""

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from command_line import command, one_line
from rank_families import FAMILIES, Write, families_in

from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.errors import UserError
from chronoscale.harness.execute import execution
from chronoscale.harness.execute.jobs import add_data
from chronoscale.real_exec.job import Item, Job
from chronoscale.real_exec.ranks.bundle import Bundle, Cache
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.workload import ModelShape, Workload

OWN = {"snapshots": "psg.schedule.parquet", "streams": "parts.json", "signals": "dist-index.prepare.parquet"}  # of what is made for ranks


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """A folder to work in, a temporary folder in it, and a function that writes a family's experiment."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return families_in(tmp_path)


def lacking(file: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of the files that a machine with this cache would be sent by `bench`, which ends where ranks would start."""
    bundles = list[Bundle]()

    def launch(job: Job, *given: object) -> None:
        bundles.append(Bundle.pack(job)[0])
        raise UserError("that is all")

    monkeypatch.setattr(execution, "launch", launch)
    command("bench", file, expect=2)
    (bundle,) = bundles
    assert bundle.files
    lacks = cache.lacks(bundle)
    return {Path(each.path).name for each in bundle.files if each.sha256 in lacks}


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_travels_that_was_packed_and_unpacked(family: str, experiment: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    file, cache = experiment(family), Cache()
    everything = lacking(file, cache, monkeypatch)
    assert OWN[family] in everything
    command("job", "pack", file, "--into", "package")
    shutil.move("package", "carried")
    assert [path.name for path in Path("tmp").iterdir()] == [cache.folder.name]
    command("job", "unpack", "carried")
    assert lacking(file, cache, monkeypatch) == set() != everything


def test_an_item_names_its_partition(tmp_path: Path) -> None:
    """Whether or not its data are prepared."""
    work = Workload("x", SignalStatistics(100, 5, 1, 4), ModelShape("m", "gcn", "gru", 1, 1, 1, 1, 1))
    item = Item("psg", "schedule", "data", work.hyper)
    made = add_data(item, tmp_path, strategy("psg"), work, 2, "parts.npy")
    assert made == replace(item, parts="parts.npy") and not list(tmp_path.iterdir())


def test_a_schedule_that_waits_for_measured_costs_is_left_out(
    experiment: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = experiment("snapshots")
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), "costs": "auto", "strategies": ["psg", "real-g+"]}))
    command("job", "pack", file, "--into", "package")
    assert "no schedule of real-g+: plans wait for measured costs" in " ".join(capsys.readouterr().err.split())
    command("job", "unpack", "package")
    assert lacking(file, Cache(), monkeypatch) == {"real-g+.schedule.parquet"}


def test_what_is_missing_or_damaged_is_named_and_the_rest_is_there(
    experiment: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = experiment("signals")
    command("job", "pack", file, "--into", "package", "--json")
    rows = json.loads(capsys.readouterr().out)
    missing, damaged, *_ = rows
    assert all(Path("package/contents", row["sha256"]).stat().st_size == row["bytes"] for row in rows)
    Path("package/contents", missing["sha256"]).unlink()
    content = Path("package/contents", damaged["sha256"])
    content.write_bytes(content.read_bytes()[:-1] + b"\xff")
    command("job", "unpack", "package", expect=2)
    expected = f"package: {missing['file']} is missing, {damaged['file']} is damaged; copy the package again"
    assert expected in one_line(capsys)
    assert {path.name for path in Cache().folder.iterdir() if path.name[0] != "."} == {row["sha256"] for row in rows[2:]}


def test_what_is_no_package_or_no_new_folder_is_refused(experiment: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = experiment("signals")
    command("job", "unpack", "nowhere", expect=2)
    assert "nowhere/manifest.json: no such file" in one_line(capsys)
    Path("full").mkdir()
    Path("full", "mine").touch()
    command("job", "pack", file, "--into", "full", expect=2)
    assert "full: not an empty folder; name a new one" in one_line(capsys)
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), "ranks": [1]}))
    command("job", "pack", file, "--into", "new", expect=2)
    assert "ranks: nothing is sent to other machines for one rank" in one_line(capsys)
