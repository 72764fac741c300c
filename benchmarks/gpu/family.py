"""Family: one kind of dynamic graph profiled on the device, and its strategies executed and replayed with that profile."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from typing import Any

from gpu.command import command
from gpu.committed import replay
from gpu.device import present
from gpu.place import Place
from gpu.record import Record


def measure(place: Place, record: Record, name: str, experiment: Mapping[str, Any]) -> None:
    """`chronoscale profile`, whose cost model goes into the result whole, then `chronoscale validate` with it, and what it says of a
    small cluster. Raises Failed as they do."""
    present(place)
    folder = place.work / name
    shutil.rmtree(folder, ignore_errors=True)
    asked = {**experiment, "ranks": [1], "device": place.device}
    fits = command(place, record, folder, "profile", asked)
    (costs,) = (folder / "runs").glob("*/profile/costs-1.json")
    record.put(fits=fits, costs=json.loads(costs.read_text()), experiment=asked, file=file_name(record.data["machine"], name, asked))
    record.put(fidelity=command(place, record, folder, "validate", {**asked, "costs": str(costs)}))
    replay(place, record, folder, asked, costs)


def file_name(machine: Mapping[str, Any], name: str, experiment: Mapping[str, Any]) -> str:
    """Of the cost model, in src/chronoscale/real_exec/profiles."""
    device = "-".join("".join(c if c.isalnum() else " " for c in machine["device"].lower()).split())
    return f"{device}_{experiment['model']['name']}-{experiment['model']['hidden']}_{name}_x1.json"
