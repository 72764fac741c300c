"""The command line, for tests."""

import subprocess
import sys
import time
from collections.abc import Callable

import psutil
import pytest

from chronoscale.harness import cli
from chronoscale.harness.cli.sessions import executing, simulating, training  # noqa: F401 (what commands import is no single test's)

LINE = (sys.executable, "-c", "from chronoscale.harness.cli import main; main()")


def command(*arguments: object, expect: int = 0) -> None:
    """Run the command line in this process; compare its exit code."""
    before = sys.argv
    sys.argv = ["chronoscale", *map(str, arguments)]
    try:
        with pytest.raises(SystemExit) as left:
            cli.main()
    finally:
        sys.argv = before
    assert (left.value.code or 0) == expect


def killed_at(reached: Callable[[], bool], *arguments: object) -> None:
    """Run the command line in a process of its own and kill that with SIGKILL when `reached`; return when all that it started has ended."""
    process = subprocess.Popen([*LINE, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not reached():
        assert process.poll() is None, "it ended before"
        time.sleep(0.005)
    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    _, left = psutil.wait_procs(family, timeout=30)
    for each in left:
        each.kill()
    assert not left, "it left processes that go on"


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    return lines[0]
