"""Commands of a part: they end with what has begun them, or after so many seconds."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil

from gpu.place import ROOT

CUT_OFF, NO_DEVICE = 124, 3  # exit codes: after too many seconds; where there is no GPU
PR_SET_PDEATHSIG = 1  # of prctl(2)


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


def begin(
    command: Sequence[str], out: IO[bytes], errors: IO[bytes], environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a command. It is killed when this process dies, which it would otherwise outlive."""

    def die_with_parent() -> None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=errors, preexec_fn=die_with_parent)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a command that still runs, and all that it has started."""
    if process.poll() is None:
        for one in (*psutil.Process(process.pid).children(recursive=True), process):
            one.kill()
        process.wait()


def run(command: Sequence[str], environment: Mapping[str, str] | None, folder: Path, seconds: float | None = None) -> tuple[int, str]:
    """Run a command to its end, or for so many seconds.

    Returns the exit code, CUT_OFF where the seconds were over, and its standard output, which is in the folder as `answer.txt`, too. Its
    standard error is that of this process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    answer = folder / "answer.txt"
    with answer.open("wb") as out:
        process = begin(command, out, sys.stderr.buffer, environment)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = CUT_OFF
        finally:
            end(process)
    return code, answer.read_text(errors="replace")
