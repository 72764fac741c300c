"""Unit: a command of the second tier, and what came of it, kept in a file."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event, Timer

ROOT = Path(__file__).resolve().parents[2]
COUNTS = re.compile(r"(\d+) (passed|failed|error)")
NONE_CHOSEN = 5  # of pytest: no test of the file is of this stage
NO_DATA = "; set CHRONOSCALE_DATA to the folder that holds"  # of an error: real data is not at hand
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a unit; `code` is None where it was cut off."""

    stage: str
    name: str
    code: int | None
    passed: int
    failed: int
    cpu_s: float
    wall_s: float

    @property
    def sound(self) -> bool:
        return self.code == 0

    @property
    def verdict(self) -> str:
        """Return what is printed of it: 'skipped' where none of its tests was chosen, or real data that a study reads is not here."""
        return "cut off" if self.code is None else "FAILED" if self.code else "passed" if self.passed else "skipped"


@dataclass(frozen=True, slots=True)
class Unit:
    """`command`, run in the repository with `variables` beside those of this process."""

    stage: str
    name: str
    command: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.stage} {self.name}".rstrip()

    def _file(self, folder: Path, ending: str) -> Path:
        return folder / (re.sub(r"[^\w.-]+", "-", self.title) + ending)

    def earlier_result(self, folder: Path) -> Result | None:
        """Return the result of an earlier run, if it was sound."""
        file = self._file(folder, ".json")
        if not file.exists():
            return None
        result = Result(**json.loads(file.read_text()))
        return result if result.verdict == "passed" else None

    def run(self, folder: Path, ends: float) -> Result:
        """Run it, at most until `ends` (of time.monotonic); what it says and what came of it stay in the folder."""
        begun, log, over = time.monotonic(), self._file(folder, ".log"), Event()
        with log.open("wb") as output:
            environment = {**os.environ, **ONE_THREAD, **self.variables}
            process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

            def end() -> None:
                over.set()
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

            _at_work.add(process.pid)
            timer = Timer(max(min(ends - begun, 1e6), 0.0), end)
            timer.start()
            _, status, usage = os.wait4(process.pid, 0)
            timer.cancel()
            _at_work.discard(process.pid)
            process.returncode = os.waitstatus_to_exitcode(status)
        text = log.read_text(errors="replace")
        skipped = (process.returncode == NONE_CHOSEN and "pytest" in self.command) or (self.stage == "studies" and NO_DATA in text)
        code = 0 if skipped else process.returncode
        passed, failed = (0, 0) if skipped else _counted(text, code)
        cpu_s = usage.ru_utime + usage.ru_stime
        result = Result(self.stage, self.name, None if over.is_set() else code, passed, failed, cpu_s, time.monotonic() - begun)
        self._file(folder, ".json").write_text(json.dumps(asdict(result)))
        return result


_at_work: set[int] = set()  # process groups


def end_all() -> None:
    """End the units that are at work."""
    for group in tuple(_at_work):
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def _counted(output: str, code: int) -> tuple[int, int]:
    """Return how many passed and failed: as pytest's last line says, else the unit itself."""
    last = next((line for line in reversed(output.splitlines()) if COUNTS.search(line) and " in " in line), "")
    counts = {word: int(number) for number, word in COUNTS.findall(last)}
    failed = counts.get("failed", 0) + counts.get("error", 0)
    if not counts or (code and not failed):
        return int(code == 0), int(code != 0)
    return counts.get("passed", 0), failed
