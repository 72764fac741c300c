"""The runner of `make gpu`: parts that are run, cut off, skipped, done before or told to end, and what they leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from gpu import runner  # noqa: E402
from gpu.parts import Part  # noqa: E402
from gpu.place import Place, sources  # noqa: E402
from gpu.runner import CUT_OFF, FAILED, NO_DEVICE, PASSED  # noqa: E402

BUILD = "import json, sys; open(sys.argv[1] + '/build.json', 'w').write(json.dumps({'device': 'a device'}))"
FAKES = {
    "build": BUILD,
    "slow": "import subprocess, sys; print('half of it', flush=True); subprocess.run(['sleep', '60'])",
    "alone": "",
    "wrong": "import sys; sys.exit('it is wrong')",
    "sound": "print('| a table |')",
}


def parts() -> dict[str, Part]:
    """Parts whose only command is a fake's code; the slow one has two, the second of which is never begun."""
    made = {name: Part(1, (("-c", code, "OUT"),), name != "alone") for name, code in FAKES.items()}
    return {**made, "slow": made["slow"]._replace(minutes=0.05, commands=made["slow"].commands * 2)}


@pytest.fixture
def faked(tmp_path, monkeypatch):
    """A place whose parts are fakes."""
    monkeypatch.setattr(runner, "PARTS", parts())
    return Place(tmp_path / "out", "cpu", tmp_path / "work")


def read(place: Place, part: str) -> dict[str, object]:
    return runner.read(place.out / part / runner.STATE)


def states(place: Place) -> dict[str, object]:
    return {path.parent.name: runner.read(path)["status"] for path in place.out.glob(f"*/{runner.STATE}")}


@pytest.mark.slow
def test_a_part_that_is_cut_off_or_fails_stops_no_other(faked):
    assert runner.run(["slow", "wrong", "sound"], faked) == 1
    assert states(faked) == {"build": PASSED, "slow": CUT_OFF, "wrong": FAILED, "sound": PASSED}
    assert read(faked, "slow")["why"] == "its time was over"
    assert (faked.out / "slow" / runner.TABLES).read_text() == "half of it\n"
    assert read(faked, "wrong")["why"].endswith("ended with code 1: it is wrong")
    sound = read(faked, "sound")
    assert sound["device"] == "cpu" and sound["name"] == "a device" and sound["sources"] == sources() and sound["minutes"] >= 0
    tables = (faked.out / runner.TABLES).read_text()
    assert "| slow | cut off |" in tables and "| a table |" in tables and runner.REHEARSAL in tables


def test_a_command_that_fails_stops_none_after_it(faked, monkeypatch):
    both = Part(1, (("-c", FAKES["wrong"]), ("-c", FAKES["sound"])), False)
    monkeypatch.setitem(runner.PARTS, "alone", both)
    assert runner.run(["alone"], faked) == 1
    assert states(faked) == {"alone": FAILED} and (faked.out / "alone" / runner.TABLES).read_text() == "| a table |\n"


@pytest.mark.slow
def test_what_was_done_is_not_done_again(faked, tmp_path, capsys):
    """Several commands add up, also where each has a folder of its own for its results."""
    assert runner.run(["sound"], faked) == 0
    capsys.readouterr()
    later = Place(tmp_path / "later", "cpu", faked.work)
    assert runner.run(["sound"], later) == 0
    assert "sound: done before" in capsys.readouterr().out and states(later) == {"build": PASSED, "sound": PASSED}
    assert runner.run(["sound"], later, fresh=True) == 0
    assert "sound: done before" not in capsys.readouterr().out
    for folder in (later.out / "sound", later.earlier("sound")):
        runner.json_file.write(folder / runner.STATE, {**read(later, "sound"), "sources": "others"})
    assert runner.run(["sound"], later) == 0
    assert "sound: done before" not in capsys.readouterr().out


def test_nothing_that_needs_a_build_runs_without_one(faked, monkeypatch):
    assert runner.run(["alone"], faked) == 0 and states(faked) == {"alone": PASSED}  # and none is made for what needs none
    monkeypatch.setitem(runner.PARTS, "build", Part(1, (("-c", FAKES["wrong"]),)))
    assert runner.run(["sound", "alone"], faked) == 1
    assert states(faked) == {"build": FAILED, "alone": PASSED}
    monkeypatch.setitem(runner.PARTS, "build", Part(1, (("-c", "import sys; sys.exit(3)"),)))
    assert runner.run(["sound"], faked) == 1
    assert states(faked)["build"] == NO_DEVICE


@pytest.mark.slow
def test_all_parts_share_the_minutes(faked, capsys, monkeypatch):
    """The slow part gets what is left, not its own minute, and what comes after it nothing."""
    monkeypatch.setitem(runner.PARTS, "slow", runner.PARTS["slow"]._replace(minutes=1))
    begun = time.monotonic()
    assert runner.run(["slow", "sound"], faked, minutes=0.1) == 1
    assert time.monotonic() - begun < 20 and states(faked) == {"build": PASSED, "slow": CUT_OFF}
    assert "sound: not run: the minutes were over" in capsys.readouterr().out


RUN = """
import test_gpu_runner
from gpu import __main__, runner
runner.PARTS = {name: part._replace(minutes=1) for name, part in test_gpu_runner.parts().items()}
__main__.PARTS = runner.PARTS
raise SystemExit(__main__.main())
"""


@pytest.fixture
def running(faked):
    """The runner in a process of its own, its slow part at work, and that part's processes."""
    path = os.pathsep.join(map(str, (ROOT / "tests", ROOT / "src", ROOT / "benchmarks")))
    where = ["--parts", "slow", "--out", str(faked.out), "--work", str(faked.work), "--device", "cpu"]
    command = [sys.executable, "-c", RUN, *where]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.DEVNULL)
    for _ in range(600):
        if (printed := faked.out / "slow" / runner.TABLES).exists() and printed.read_text():
            break
        time.sleep(0.1)
    below = psutil.Process(process.pid).children(recursive=True)
    assert len(below) >= 2
    yield process, below
    process.kill()
    process.wait()


@pytest.mark.slow
def test_a_terminated_run_writes_the_results_so_far(faked, running):
    process, below = running
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM
    assert not psutil.wait_procs(below, 5)[1]
    state = read(faked, "slow")
    assert state["status"] == CUT_OFF and state["why"] == "interrupted"
    assert runner.read(faked.earlier("slow") / runner.STATE) == state and "| slow | cut off |" in (faked.out / runner.TABLES).read_text()


@pytest.mark.slow
def test_parts_die_with_their_runner(running):
    process, below = running
    process.kill()
    assert not psutil.wait_procs(below, 10)[1]
