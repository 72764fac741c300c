"""Commands of a part, and how a part ends that does not pass."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from gpu.place import ROOT

CUT_OFF, NO_DEVICE = 124, 3  # exit codes: after too many seconds; where there is no GPU


class Failed(Exception):
    """What a part's command ends with that did not pass; its text says why."""


class NoDevice(Failed):
    """There is no GPU."""


def exit_code(run: Callable[[], None]) -> int:
    """Call a part's function; print why it did not pass, and return the exit code."""
    try:
        run()
    except Failed as failed:
        print(f"{type(failed).__name__}: {failed}", file=sys.stderr)
        return NO_DEVICE if isinstance(failed, NoDevice) else 1
    return 0


def run(command: Sequence[str], environment: Mapping[str, str] | None, folder: Path, seconds: float | None = None) -> tuple[int, str]:
    """Run a command to its end, or for so many seconds.

    Returns the exit code, CUT_OFF where the seconds were over, and its standard output, which is in the folder as `answer.txt`, too. Its
    standard error is that of this process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    answer = folder / "answer.txt"
    with answer.open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = CUT_OFF
            for one in psutil.Process(process.pid).children(recursive=True):  # they would go on without it
                one.kill()
            process.kill()
            process.wait()
    return code, answer.read_text(errors="replace")
