"""Profiled: `chronoscale profile` on the device; its cost model goes into the result whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from gpu.command import command
from gpu.device import present
from gpu.place import Place
from gpu.record import NO_DEVICE, Failed, NoDevice, Record
from gpu.setting import REHEARSED, SETTINGS, Setting


def run(place: Place, record: Record) -> None:
    """A small graph first, then a large one: the result has the last that was done. Raises Failed as the command does."""
    present(place)
    for setting in REHEARSED if place.rehearsal else SETTINGS:
        folder = place.work / "profile" / setting.name
        shutil.rmtree(folder, ignore_errors=True)
        rows = command(place, record, folder, "profile", setting.experiment(setting.stored(place.work / "data"), place.device))
        (costs,) = (folder / "runs").glob("*/profile/costs-1.json")
        named = {"setting": setting._asdict(), "file": file_name(record.data["machine"], setting)}
        record.put(fits=rows, costs=json.loads(costs.read_text()), **named)


def file_name(machine: dict[str, Any], setting: Setting) -> str:
    """In src/chronoscale/real_exec/profiles."""
    device = "-".join("".join(c if c.isalnum() else " " for c in machine["device"].lower()).split())
    return f"{device}_wd-gcn-{setting.hidden}_{setting.name}_x1.json"


def costs_of(place: Place, folder: Path) -> tuple[Path, Setting]:
    """The cost model of the profile that ran, as a file in `folder`, and what it profiled. Raises Failed, NoDevice without one."""
    found = place.found("profile")
    data = Record.read(found) if found else {}
    if data.get("status") == NO_DEVICE:
        raise NoDevice("no profile of one")
    if "costs" not in data or data.get("rehearsal") != place.rehearsal:
        raise Failed("there is no profile of this device: run PARTS=profile first")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "costs-1.json"
    path.write_text(json.dumps(data["costs"], indent=1))
    return path, Setting.of(data)
