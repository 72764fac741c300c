"""Signals: a forecaster of sensors' readings on the device, with windows by index (PGT-I), from the host's memory and from the device's."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from chronoscale.datasets import store
from chronoscale.datasets.generate.traffic import TrafficSignal
from gpu.family import measure
from gpu.place import Place
from gpu.record import Record


class Sizes(NamedTuple):
    """Of the generated readings, and of the model."""

    sensors: int = 1_000
    steps: int = 4_000
    batch: int = 32
    batches: int = 60
    hidden: int = 64
    repeats: int = 3


REHEARSED = Sizes(sensors=8, steps=300, batch=8, batches=8, hidden=8, repeats=2)


def run(place: Place, record: Record) -> None:
    """Raises Failed as `measure`."""
    measure(place, record, "signals", experiment(place.work / "data", REHEARSED if place.rehearsal else Sizes()))


def experiment(folder: Path, sizes: Sizes) -> dict[str, Any]:
    """As of a file; the readings are stored in `folder`."""
    return {
        "dataset": {"path": str(_stored(folder, sizes))},
        "model": {"name": "pgt-dcrnn", "hidden": sizes.hidden},
        "training": {"batch_size": sizes.batch, "window": 12, "horizon": 12, "batches": sizes.batches},
        "strategies": ["index", "gpu-index"],
        "repeats": sizes.repeats,
    }


def _stored(folder: Path, sizes: Sizes) -> Path:
    """The readings' folder, made where it is not there."""
    path = folder / f"readings-{sizes.sensors}-{sizes.steps}"
    if not path.exists():
        traffic = TrafficSignal(sizes.sensors, sizes.steps, seed=1)
        store.save_signal(path, traffic, *traffic.graph(), "readings")
    return path
