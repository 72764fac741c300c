"""Runner: the chosen parts in order, their commands in processes of their own, within time limits."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from core import json_file

from gpu import child
from gpu.parts import PARTS
from gpu.place import ROOT, Place, commit, sources

PASSED, FAILED, RUNNING, CUT_OFF, NO_DEVICE = "passed", "failed", "running", "cut off", "no device"
STATE, TABLES, LOG = "state.json", "tables.md", "log.txt"  # files of a part
REHEARSAL = "**A rehearsal on a CPU, on small sizes: no figure here says anything of a GPU.**"


def run(chosen: Sequence[str], place: Place, fresh: bool = False, minutes: float = math.inf) -> int:
    """Run parts, and return the exit code: 0 where all chosen parts passed, now or before.

    The part build runs first where one that is chosen needs it, always: what is up to date costs it seconds. Without it none of those goes
    on. The others do not stop for each other. However this ends, but by SIGKILL, what was found is copied for later calls and the tables
    are put together.

    Args:
        fresh: Run again what passed before on this device with these sources.
        minutes: What all parts may take together; the last to run gets what is left.
    """
    ends, states, device = time.monotonic() + 60 * minutes, dict[str, str](), None
    wanted = [name for name in PARTS if name in chosen]
    place.packages.mkdir(parents=True, exist_ok=True)
    try:
        if any(PARTS[name].needs_build for name in wanted):
            states["build"] = _run_part("build", place, ends)
            device = read(place.out / "build" / "build.json").get("device")
        for name in (name for name in wanted if name != "build"):
            if PARTS[name].needs_build and states["build"] != PASSED:
                states[name] = NO_DEVICE if states["build"] == NO_DEVICE else "not run: build did not pass"
            elif not fresh and PARTS[name].needs_build and _was_done(name, place, device):
                states[name] = PASSED
                print(f"{name}: done before on this device with these sources (FRESH=1 runs it again)", flush=True)
            else:
                states[name] = _run_part(name, place, ends, device)
    finally:
        print(write_tables(place))
        for name, state in states.items():
            print(f"{name}: {state}", flush=True)
    return int(any(states[name] != PASSED for name in wanted))


def read(path: Path) -> dict[str, Any]:
    """Return what a JSON file holds; nothing where there is none."""
    return json.loads(path.read_text()) if path.exists() else {}


def write_tables(place: Place) -> str:
    """Put the states of all parts and what their commands printed into tables.md in `out`, and return it."""
    place.out.mkdir(parents=True, exist_ok=True)
    states = {name: read(place.out / name / STATE) for name in PARTS if (place.out / name / STATE).exists()}
    lines = list(_state_lines(states))
    for name, state in states.items():
        printed = place.out / name / TABLES
        lines += [f"\n## {name}\n", *([REHEARSAL] if state["device"] == "cpu" else []), printed.read_text() if printed.exists() else ""]
    (place.out / TABLES).write_text("\n".join(lines) + "\n")
    return (place.out / TABLES).read_text()


def _state_lines(states: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield "| part | state | minutes | of at most | commit | sources | why |\n|---|---|---|---|---|---|---|"
    for name, state in states.items():
        facts = (state["status"], state.get("minutes", "–"), PARTS[name].minutes, state["commit"] or "–", state["sources"], state["why"])
        yield f"| {name} | {' | '.join(map(str, facts))} |"


def _was_done(name: str, place: Place, device: str | None) -> bool:
    """Return whether a part passed before, in `out` or in another folder, from where its results are then copied."""
    for folder in (place.out / name, place.earlier(name)):
        state = read(folder / STATE)
        if (state.get("status"), state.get("sources"), state.get("name")) == (PASSED, sources(), device):
            if folder != place.out / name:
                shutil.copytree(folder, place.out / name, dirs_exist_ok=True)
            return True
    return False


def _run_part(name: str, place: Place, ends: float, device: str | None = None) -> str:
    """Run a part's commands, and return its state. `ends`: when all parts must have, by time.monotonic."""
    begun = time.monotonic()
    limit = min(60 * PARTS[name].minutes, ends - begun)
    if limit <= 0:
        return "not run: the minutes were over"
    print(f"{name}: at most {limit / 60:.3g} minutes", flush=True)
    folder = place.out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    state = {"status": RUNNING, "why": "", "device": place.device, "name": device, "sources": sources(), "commit": commit()}
    json_file.write(folder / STATE, state)
    state |= {"status": CUT_OFF, "why": "interrupted"}
    try:
        state["status"], state["why"] = _run_commands(name, place, folder, begun + limit)
    finally:  # also when this process is told to end
        state["minutes"] = round((time.monotonic() - begun) / 60, 2)
        json_file.write(folder / STATE, state)
        shutil.rmtree(place.earlier(name), ignore_errors=True)
        shutil.copytree(folder, place.earlier(name))
        print(f"{name}: {state['status']}, {state['minutes']} minutes", flush=True)
    return str(state["status"])


def _run_commands(name: str, place: Place, folder: Path, ends: float) -> tuple[str, str]:
    """Return a part's state, and why it did not pass. A command that fails stops none that comes after it."""
    environment, failures = {**place.environment(), "CHRONOSCALE_GPU_WORK": str(place.work)}, []
    for command in PARTS[name].commands:
        words = [word.replace("OUT", str(folder), 1).replace("DEVICE", place.device) for word in command]
        quick = ["--quick"] if command[0] == "benchmarks" and place.rehearsal else []
        with (folder / TABLES).open("ab") as out, (folder / LOG).open("ab") as errors:
            code = _run_command([sys.executable, *words, *quick], out, errors, environment, ends - time.monotonic())
        if code is None:
            return CUT_OFF, "its time was over"
        if code == child.NO_DEVICE:
            return NO_DEVICE, _last_line(folder)
        if code:
            failures.append(f"{' '.join(command[:2])} ended with code {code}: {_last_line(folder)}")
    return (FAILED, "; ".join(failures)) if failures else (PASSED, "")


def _run_command(command: Sequence[str], out: IO[bytes], errors: IO[bytes], environment: Mapping[str, str], seconds: float) -> int | None:
    """Run a command in a process group of its own, and return its exit code; None where the seconds were over, and it was killed.

    Should this process be killed, a shell that waits for the end of its own input kills the group, which would otherwise keep the device.
    """
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=errors, process_group=0)
    watch = ["sh", "-c", f"read _; kill -s KILL -- -{process.pid}"]
    watcher = subprocess.Popen(watch, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, process_group=0)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:  # also when this process is told to end
        watcher.kill()
        watcher.communicate()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _last_line(folder: Path) -> str:
    """Return the last line that a part wrote to standard error."""
    lines = (folder / LOG).read_text(errors="replace").split("\n")
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
