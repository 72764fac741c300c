"""Windows: FlareDTDG's sliding windows on the device, beside whole histories."""

from __future__ import annotations

from gpu.family import measure
from gpu.place import Place
from gpu.record import Record
from gpu.setting import Setting

SETTING = Setting(64, 20_000, 300_000, 24, 3)
REHEARSED = Setting(8, 200, 1_200, 14, 2)


def run(place: Place, record: Record) -> None:
    """Raises Failed as `measure`."""
    setting = REHEARSED if place.rehearsal else SETTING
    experiment = {
        "dataset": {"path": str(setting.stored(place.work / "data"))},
        "model": {"name": "t-gcn", "hidden": setting.hidden, "inputs": setting.hidden},
        "strategies": ["flaredtdg", "full-history"],
        "repeats": setting.repeats,
    }
    measure(place, record, "windows", experiment)
