"""Sanitizer: compute-sanitizer's memcheck and racecheck on the hub cases. A rehearsal runs the cases without it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from gpu.device import present
from gpu.place import Place
from gpu.record import Failed, Record

TOOLS = ("memcheck", "racecheck")
SECONDS = 100  # of a tool
HIT = 9  # exit code of the sanitizer where it found something


def run(place: Place, record: Record) -> None:
    """Raises Failed for what a tool finds, and where it did not come to its summary."""
    present(place)
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if tool is None and not place.rehearsal:
        raise Failed("compute-sanitizer is not there")
    wrong = []
    for check in ["none"] if place.rehearsal else TOOLS:
        under = [] if place.rehearsal else [str(tool), "--tool", check, "--error-exitcode", str(HIT)]
        log = place.work / f"{check}.log"
        done = _watched([*under, sys.executable, "-m", "gpu.hubs", place.device], place, log)
        said = log.read_text(errors="replace")
        record.put(**{check: {"code": done, "cases": said.count(": error "), "log": said[-6000:]}})
        if why := complaint(done, said, bool(under)):
            wrong.append(f"{check}: {why}")
    if wrong:
        raise Failed("; ".join(wrong))


def complaint(code: int, said: str, watched: bool) -> str:
    """What is wrong with a run of the cases; '' for a sound one: every case was right, and the tool found nothing."""
    if code == 124:
        return f"cut off after {SECONDS} seconds"
    found = re.search(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", said)
    if watched and (found is None or not re.match(r"0 (errors|hazards)\b", found[1])):
        return found[1] if found else f"no summary, code {code}: {said.strip()[-300:]}"
    return "" if code == 0 and ": error " in said else f"code {code}: {said.strip()[-300:]}"


def _watched(command: list[str], place: Place, log: Path) -> int:
    """Exit code; 124 after SECONDS. Every tensor is an allocation of its own: in torch's cache nothing would be out of bounds."""
    env = {**place.environment(), "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    with log.open("w") as out:
        try:
            return subprocess.run(command, env=env, stdout=out, stderr=subprocess.STDOUT, timeout=SECONDS, check=False).returncode
        except subprocess.TimeoutExpired:
            return 124
