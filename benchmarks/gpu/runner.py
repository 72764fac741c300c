"""Runner: the chosen parts in order, each in a process of its own with a time limit."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from gpu.child import tail
from gpu.parts import PARTS
from gpu.place import Place, sources
from gpu.record import CUT_OFF, FAILED, NO_DEVICE, PASSED, RUNNING, Record
from gpu.tables import write

ENTRY = ("-m", "gpu")  # of a part's process
RUNNER = "CHRONOSCALE_GPU_RUNNER"  # variable that tells a part the id of this process


def run(chosen: Sequence[str], place: Place, fresh: bool = False, minutes: float = math.inf) -> int:
    """Exit code: 0 where all chosen parts passed, now or before. `minutes`: what all may take together; the last gets what is left.

    The part build runs first where one that is chosen needs it, always: what is up to date costs it seconds. Without it none of those goes
    on, and where there is no GPU each says so. The others do not stop for each other. However this ends, but by SIGKILL, what was
    found is copied for later calls and the tables are made.
    """
    for folder in (place.out, place.kept("build").parent, place.packages):
        folder.mkdir(parents=True, exist_ok=True)
    ends, states, device = time.monotonic() + 60 * minutes, dict[str, str](), None
    wanted = [name for name in PARTS if name in chosen]
    try:
        if any(PARTS[name].needs_build for name in wanted):
            states["build"] = _one("build", place, ends)
            device = Record.read(place.result("build")).get("machine", {}).get("device")
        for name in (name for name in wanted if name != "build"):
            if PARTS[name].needs_build and states["build"] not in (PASSED, NO_DEVICE):
                states[name] = "not run: build did not pass"
            elif not fresh and device is not None and _done(name, place, device):
                states[name] = PASSED
                print(f"{name}: done before on this device with these sources (FRESH=1 runs it again)", flush=True)
            else:
                states[name] = _one(name, place, ends)
    finally:
        print(write(place))
        for name, state in states.items():
            print(f"{name}: {state}", flush=True)
    return int(any(states[name] != PASSED for name in wanted))


def _done(name: str, place: Place, device: str) -> bool:
    record = place.found(name)
    if record is None:
        return False
    data = Record.read(record)
    had = (data.get("status"), data.get("rehearsal"), data.get("sources"), data.get("machine", {}).get("device"))
    same = had == (PASSED, place.rehearsal, sources(), device)
    if same and record != place.result(name):
        shutil.copyfile(record, place.result(name))
    return same


def _one(name: str, place: Place, ends: float) -> str:
    """Run it; its state. `ends`: when all must have, of time.monotonic."""
    begun = time.monotonic()
    limit = min(60 * PARTS[name].minutes, ends - begun)
    if limit <= 0:
        return "not run: the minutes were over"
    print(f"{name}: at most {limit / 60:.3g} minutes", flush=True)
    for old in (place.result(name), place.log(name)):
        old.unlink(missing_ok=True)
    where = ["--out", str(place.out), "--device", place.device, "--work", str(place.work)]
    environment = {**place.environment(), RUNNER: str(os.getpid())}
    process = subprocess.Popen([sys.executable, *ENTRY, "--only", name, *where], env=environment, process_group=0)
    cut = "interrupted"
    try:
        process.wait(limit)
        cut = ""
    except subprocess.TimeoutExpired:
        cut = "its time was over"
    finally:  # also when this process is told to end
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        state = _closed(name, place, cut, process.returncode, (time.monotonic() - begun) / 60)
    return state


def _closed(name: str, place: Place, cut: str, code: int, minutes: float) -> str:
    """The state of a part that has ended, its result made whole. `cut`: why it was ended."""
    result, said = place.result(name), tail(place.log(name))
    record = Record(result, **(Record.read(result) if result.exists() else {"part": name, "status": RUNNING, "rehearsal": place.rehearsal}))
    if record.data["status"] == RUNNING:
        record.put(status=CUT_OFF if cut else FAILED, why=f"{cut or 'it died'}: code {code} after {minutes:.1f} minutes")
    record.put(minutes=round(minutes, 2), **({"log": said} if said else {}))
    state: str = record.data["status"]
    if state != NO_DEVICE:
        shutil.copyfile(result, place.kept(name))
    print(f"{name}: {state}, {minutes:.1f} minutes", flush=True)
    return state


def end_with_runner() -> None:
    """In a part's process: should its runner be killed, this process and all it started are, too. They would keep the device."""
    runner = int(os.environ.get(RUNNER, os.getppid()))

    def watch() -> None:
        while os.getppid() == runner:
            time.sleep(0.5)
        os.killpg(0, signal.SIGKILL)

    if RUNNER in os.environ:
        threading.Thread(target=watch, daemon=True).start()
