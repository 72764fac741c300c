"""Validated: strategies executed on the device, and the same schedules replayed with the profile."""

from __future__ import annotations

import shutil

from gpu.command import command
from gpu.committed import replay
from gpu.device import present
from gpu.place import Place
from gpu.profiled import costs_of
from gpu.record import Record


def run(place: Place, record: Record) -> None:
    """Raises Failed without a profile, and as the command does."""
    present(place)
    folder = place.work / "validate"
    shutil.rmtree(folder, ignore_errors=True)
    costs, setting = costs_of(place, folder)
    experiment = {**setting.experiment(setting.stored(place.work / "data"), place.device), "costs": str(costs)}
    record.put(fidelity=command(place, record, folder, "validate", experiment), setting=setting._asdict())
    replay(place, record, folder, experiment, costs)
