"""tests/everything: units are run once for the same files, end in time, and tell whether they failed."""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from chronoscale.datasets import catalogue
from chronoscale.errors import UserError

FOLDER = Path(__file__).parent / "everything"


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """The program as a module; those beside it are imported as it does."""
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("unit", "stages"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    code = compile((FOLDER / "__main__.py").read_text(), str(FOLDER / "__main__.py"), "exec")
    names: dict[str, object] = {"__name__": "everything", "__file__": str(FOLDER / "__main__.py")}
    exec(code, names)
    yield type("Everything", (), {name: staticmethod(value) if callable(value) else value for name, value in names.items()})
    for name in ("unit", "stages"):
        sys.modules.pop(name, None)


def test_what_has_passed_is_not_run_again_and_what_failed_is(everything, tmp_path: Path) -> None:
    counter = tmp_path / "count"
    code = f"open({str(counter)!r}, 'a').write('x'); raise SystemExit({{}})"
    units = [everything.Unit("one", str(code_), (sys.executable, "-S", "-c", code.format(code_))) for code_ in (0, 3)]
    first, again = (everything.run(units, tmp_path / "kept", 1, math.inf) for _ in range(2))
    assert [result.code for result in first] == [result.code for result in again] == [0, 3]
    assert [(result.passed, result.failed) for result in first] == [(1, 0), (0, 1)]
    assert counter.read_text() == "xxx"
    assert [line.split()[:5] for line in everything.table(first).splitlines()[1:]] == [["one", "2", "1", "1", "0"]]


def test_a_study_without_its_data_is_skipped_and_tried_again(everything, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the catalogue says it; elsewhere, and for any other reason, it is a failure."""
    monkeypatch.setenv(catalogue.DATA_VARIABLE, str(tmp_path))
    with pytest.raises(UserError) as refused:
        catalogue.load("los_loop")
    lines = str(refused.value), "error: odd"
    units = [
        everything.Unit(stage, str(number), (sys.executable, "-S", "-c", f"print({line!r}); raise SystemExit(2)"))
        for number, line in enumerate(lines)
        for stage in ("studies", "slow")
    ]
    results = everything.run(units, tmp_path / "kept", 1, math.inf)
    assert [result.verdict for result in results] == ["skipped", "FAILED", "FAILED", "FAILED"]
    assert units[0].earlier_result(tmp_path / "kept") is None


def test_a_unit_at_work_when_the_minutes_are_over_is_cut_off(everything, tmp_path: Path) -> None:
    unit = everything.Unit("one", "long", (sys.executable, "-S", "-c", "import time; time.sleep(60)"))
    (result,) = everything.run([unit], tmp_path, 1, time.monotonic() + 0.2)
    assert result.code is None and not result.sound
    assert everything.run([unit], tmp_path, 1, 0.0) == []  # and it is not begun when they are


def test_an_interruption_ends_the_units_at_work(everything, tmp_path: Path) -> None:
    """The second unit interrupts who runs it as soon as the first has begun."""
    file = tmp_path / "pid"
    long = f"import os, time; open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    ends = f"""
import os, time
while not os.path.exists({str(file)!r}) or not os.path.getsize({str(file)!r}):
    time.sleep(0.01)
os.kill(os.getppid(), {int(signal.SIGUSR1)})
time.sleep(600)
"""
    units = [everything.Unit("one", name, (sys.executable, "-S", "-c", code)) for name, code in (("long", long), ("ends", ends))]
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)  # of SIGINT, pytest-xdist's workers hear nothing
    try:
        with pytest.raises(KeyboardInterrupt):
            everything.run(units, tmp_path / "kept", 2, math.inf)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not psutil.pid_exists(int(file.read_text()))


def test_the_seed_decides_the_order(everything) -> None:
    units = [everything.Unit("one", str(number), ("true",)) for number in range(20)]
    assert everything.drawn(units, "a") == everything.drawn(units[::-1], "a") != everything.drawn(units, "b")


@pytest.mark.parametrize(
    ("message", "code", "counts"),
    [
        ("7 passed, 2 failed in 3.2s", 1, (7, 2)),
        ("= 7 passed, 1 error in 3.2s =", 1, (7, 1)),
        ("3 passed in 1s\nkilled", -9, (0, 1)),
        ("all is well", 0, (1, 0)),
    ],
)
def test_what_passed_is_as_pytest_says(everything, message: str, code: int, counts: tuple[int, int]) -> None:
    assert sys.modules["unit"]._counted(message, code) == counts


def test_every_stage_but_the_studies_has_units(everything, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["stages"], "_files_of", lambda mark: [f"tests/test_{mark}.py"])
    units = [unit for name, stage in everything.STAGES.items() if name != "studies" for unit in stage()]
    assert {unit.stage for unit in units} == set(everything.STAGES) - {"studies"}
    assert len({unit.title for unit in units}) == len(units)


@pytest.mark.slow
def test_files_are_those_of_which_pytest_takes_a_test(everything) -> None:
    """By a mark, by a sample, and by drawn examples."""
    slow, drawn = (sys.modules["stages"]._files_of(mark) for mark in ("slow", "hypothesis"))
    assert {"tests/test_everything.py", "tests/real_exec/test_probe.py"} <= set(slow) and "tests/batching/test_layout.py" in drawn
    assert "tests/batching/test_layout.py" not in slow
