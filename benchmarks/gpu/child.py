"""Child: a command of a part's. What it says is in a file as it says it, and is there also when it is killed."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from gpu.place import ROOT

CUT_OFF = 124  # exit code after too many seconds


def run(
    command: Sequence[str], log: Path, env: Mapping[str, str] | None = None, seconds: float | None = None, apart: bool = False
) -> tuple[int, str]:
    """Exit code, CUT_OFF after `seconds`, and what the command said, which is added to `log`; with `apart` its standard output alone, which
    is then no part of the log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    answer = log.with_suffix(".out") if apart else log
    with log.open("ab") as errors, answer.open("wb" if apart else "ab") as out:
        begun = 0 if apart else answer.stat().st_size
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=out, stderr=errors)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = CUT_OFF
            for one in (*psutil.Process(process.pid).children(recursive=True), process):  # what it watches would go on without it
                one.kill()
            process.wait()
    with answer.open("rb") as said:
        said.seek(begun)
        return code, said.read().decode(errors="replace")


def tail(log: Path, characters: int = 8000) -> str:
    """The end of a log; '' where there is none."""
    return log.read_text(errors="replace")[-characters:] if log.exists() else ""
