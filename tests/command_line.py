"""The command line, for tests."""

import subprocess
import sys

import pytest

from chronoscale.harness import cli


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


def outside(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    code = "from chronoscale.harness.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    return lines[0]
