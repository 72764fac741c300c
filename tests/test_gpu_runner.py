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

from gpu import child as children  # noqa: E402
from gpu import runner  # noqa: E402
from gpu.parts import PARTS  # noqa: E402
from gpu.place import Place, sources  # noqa: E402
from gpu.record import CUT_OFF, FAILED, PASSED, Record  # noqa: E402

# What a part's process does first: it asks no torch for the machine, which would take seconds a part.
MACHINE = "import sys, types\nsys.modules['gpu.machine'] = types.SimpleNamespace(machine=lambda device: {'device': device})\n"
ENTRY = (
    MACHINE
    + "from gpu.parts import PARTS, Part; from fakes import LIMITS\nPARTS.clear()\n"
    + (
        "PARTS.update({name: Part(f'fake_{name}', minutes, name != 'alone') for name, minutes in LIMITS.items()})\n"
        "from gpu.__main__ import main\nraise SystemExit(main())\n"
    )
)
FAKES = {
    "build": "def run(place, record): pass",
    "slow": "import time\nfrom gpu.child import run as ran\ndef run(place, record):\n record.add('rows', 1)\n"
    " ran(['sh', '-c', 'echo half of it; sleep 60'], place.log('slow'))",
    "alone": "def run(place, record): pass",
    "wrong": "from gpu.record import Failed\ndef run(place, record): raise Failed('it is wrong')",
    "sound": "def run(place, record): record.put(found=float('nan'))",
}


@pytest.fixture
def faked(tmp_path, monkeypatch):
    """A place whose parts are fakes, in processes of their own."""
    limits = {name: 0.15 if name == "slow" else 1 for name in FAKES}
    (tmp_path / "fakes.py").write_text(f"LIMITS = {limits}")
    for name, code in FAKES.items():
        (tmp_path / f"fake_{name}.py").write_text(code)
    (tmp_path / "entry.py").write_text(ENTRY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(runner, "ENTRY", (str(tmp_path / "entry.py"),))
    made = {name: PARTS["build"]._replace(minutes=minutes, needs_build=name != "alone") for name, minutes in limits.items()}
    monkeypatch.setattr(runner, "PARTS", made)
    monkeypatch.setattr(runner, "write", lambda place: "")
    return Place(tmp_path / "out", "cpu", tmp_path / "work")


def states(place: Place) -> dict[str, str]:
    return {path.stem: Record.read(path)["status"] for path in place.out.glob("*.json")}


@pytest.mark.slow
def test_a_part_that_is_cut_off_or_fails_stops_no_other(faked):
    assert runner.run(["slow", "wrong", "sound"], faked) == 1
    assert states(faked) == {"build": PASSED, "slow": CUT_OFF, "wrong": FAILED, "sound": PASSED}
    slow = Record.read(faked.result("slow"))
    assert slow["rows"] == [1] and slow["log"] == "half of it\n" and slow["why"].startswith("its time was over: code -9")
    assert Record.read(faked.result("wrong"))["why"] == "it is wrong"
    record = Record.read(faked.result("sound"))
    assert record["found"] is None and record["rehearsal"] is True and record["sources"] == sources() and record["minutes"] >= 0


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
    Record(later.result("sound"), **{**Record.read(later.result("sound")), "sources": "others"})
    assert runner.run(["sound"], later) == 0
    assert "sound: done before" not in capsys.readouterr().out


def test_nothing_that_needs_a_build_runs_without_one(faked, tmp_path, monkeypatch):
    assert runner.run(["alone"], faked) == 0 and states(faked) == {"alone": PASSED}  # and none is made for what needs none
    (tmp_path / "fake_build.py").write_text(FAKES["wrong"])
    assert runner.run(["sound", "alone"], faked) == 1
    assert states(faked) == {"build": FAILED, "alone": PASSED}


@pytest.mark.slow
def test_all_parts_share_the_minutes(faked, capsys, monkeypatch):
    """The build takes a few of the nine seconds: the slow part gets what is left, not its own minute, and what comes after it nothing."""
    monkeypatch.setitem(runner.PARTS, "slow", runner.PARTS["slow"]._replace(minutes=1))
    begun = time.monotonic()
    assert runner.run(["slow", "sound"], faked, minutes=0.15) == 1
    assert time.monotonic() - begun < 20 and states(faked) == {"build": PASSED, "slow": CUT_OFF}
    assert "sound: not run: the minutes were over" in capsys.readouterr().out


def test_a_part_may_die_before_it_says_anything(faked, tmp_path):
    (tmp_path / "entry.py").write_text("raise SystemExit(1)")
    assert runner.run(["sound"], faked) == 1
    assert states(faked) == {"build": FAILED} and "code 1" in Record.read(faked.result("build"))["why"]
    Record(faked.result("sound"), part="sound", status=PASSED)
    assert not runner._done("sound", faked, "a device")


RUN = """
import sys
from gpu import __main__, runner
from gpu.parts import PARTS, Part
from fakes import LIMITS
PARTS.clear()
PARTS.update({name: Part(f"fake_{name}", 1) for name in LIMITS})
runner.ENTRY = (sys.argv.pop(1),)
raise SystemExit(__main__.main())
"""


@pytest.fixture
def running(faked, tmp_path):
    """The runner in a process of its own, its slow part at work, and that part's processes."""
    path = os.pathsep.join(map(str, (tmp_path, ROOT / "src", ROOT / "benchmarks")))
    where = ["--parts", "slow", "--out", str(faked.out), "--work", str(faked.work), "--device", "cpu"]
    command = [sys.executable, "-c", RUN, str(tmp_path / "entry.py"), *where]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.DEVNULL)
    for _ in range(600):
        if children.tail(faked.log("slow")):
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
    record = Record.read(faked.result("slow"))
    assert record["status"] == CUT_OFF and record["why"].startswith("interrupted") and record["log"] == "half of it\n"
    assert Record.read(faked.kept("slow")) == record and "| slow | cut off |" in (faked.out / "tables.md").read_text()


@pytest.mark.slow
def test_parts_die_with_their_runner(running):
    process, below = running
    process.kill()
    assert not psutil.wait_procs(below, 10)[1]
