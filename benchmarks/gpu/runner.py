"""Runner: the chosen parts in order, each in a process of its own with a time limit."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from gpu.parts import PARTS
from gpu.place import Place, sources
from gpu.record import CUT_OFF, FAILED, NO_DEVICE, PASSED, RUNNING, Record
from gpu.tables import write

ENTRY = ("-m", "gpu")  # of a part's process


def run(chosen: Sequence[str], place: Place, fresh: bool = False) -> int:
    """Exit code: 0 where all chosen parts passed, now or before. The part build runs first and always: what is up to date costs it seconds;
    without it no part goes on, and where there is no GPU each says so. The others do not stop for each other."""
    for folder in (place.out, place.kept("build").parent, place.packages):
        folder.mkdir(parents=True, exist_ok=True)
    states: dict[str, str] = {"build": _one("build", place)}
    device = Record.read(place.result("build"))["machine"]["device"]
    for name in (name for name in PARTS if name in chosen and name != "build"):
        if states["build"] not in (PASSED, NO_DEVICE):
            states[name] = "not run: build did not pass"
        elif not fresh and _done(name, place, device):
            states[name] = PASSED
            print(f"{name}: done before on this device with these sources (FRESH=1 runs it again)", flush=True)
        else:
            states[name] = _one(name, place)
    print(write(place))
    for name, state in states.items():
        print(f"{name}: {state}")
    return int(any(state != PASSED for state in states.values()))


def _done(name: str, place: Place, device: str) -> bool:
    found = place.found(name)
    if found is None:
        return False
    data = Record.read(found)
    same = (data["status"], data["rehearsal"], data["sources"], data["machine"]["device"]) == (PASSED, place.rehearsal, sources(), device)
    if same and found != place.result(name):
        shutil.copyfile(found, place.result(name))
    return same


def _one(name: str, place: Place) -> str:
    """Run it; its state."""
    part, begun = PARTS[name], time.monotonic()
    print(f"{name}: at most {part.minutes:g} minutes", flush=True)
    place.result(name).unlink(missing_ok=True)
    where = ["--out", str(place.out), "--device", place.device, "--work", str(place.work)]
    command = [sys.executable, *ENTRY, "--only", name, *where]
    process = subprocess.Popen(command, env=place.environment(), process_group=0)
    cut = False
    try:
        process.wait(part.minutes * 60)
    except subprocess.TimeoutExpired:
        cut = True
    finally:  # also when this process is interrupted
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    minutes = (time.monotonic() - begun) / 60
    data = Record.read(place.result(name)) if place.result(name).exists() else {"part": name, "status": FAILED}
    record = Record(place.result(name), **data)
    if data["status"] == RUNNING:
        record.put(status=CUT_OFF if cut else FAILED, why=f"ended with code {process.returncode} after {minutes:.1f} minutes")
    record.put(minutes=round(minutes, 2))
    state: str = record.data["status"]
    if state != NO_DEVICE:
        shutil.copyfile(place.result(name), place.kept(name))
    print(f"{name}: {state}, {minutes:.1f} minutes", flush=True)
    return state
