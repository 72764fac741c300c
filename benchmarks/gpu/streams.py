"""Streams: TGN on events on the device, with all features sent (tgl), with FAST's cache, and as MemShare trains."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from chronoscale.datasets import store
from chronoscale.datasets.streams.events import EventStream
from gpu.family import measure
from gpu.place import Place
from gpu.record import Record


class Sizes(NamedTuple):
    """Of the generated stream, and of the model."""

    nodes: int = 20_000
    events: int = 200_000
    features: int = 172
    batch: int = 600
    fanout: int = 10
    hidden: int = 100
    repeats: int = 3


REHEARSED = Sizes(nodes=200, events=3_000, features=8, batch=100, fanout=4, hidden=8, repeats=2)


def run(place: Place, record: Record) -> None:
    """Raises Failed as `measure`."""
    sizes = REHEARSED if place.rehearsal else Sizes()
    experiment = {
        "dataset": {"path": str(_stored(place.work / "data", sizes))},
        "model": {"name": "tgn", "hidden": sizes.hidden, "time": sizes.hidden},
        "training": {"batch_size": sizes.batch, "fanout": [sizes.fanout], "shared": 0.1},
        "strategies": ["tgl", "fast", "memshare"],
        "repeats": sizes.repeats,
    }
    measure(place, record, "streams", experiment)


def _stored(folder: Path, sizes: Sizes) -> Path:
    """The stream's folder, made where it is not there: both ends by a power law, one event a second on average."""
    path = folder / f"events-{sizes.events}"
    if not path.exists():
        draw = np.random.default_rng(0)
        chance = np.arange(1, sizes.nodes + 1) ** -0.8
        src, dst = (draw.choice(sizes.nodes, sizes.events, p=chance / chance.sum()).astype(np.int32) for _ in range(2))
        t = np.sort(draw.integers(0, sizes.events, sizes.events))
        features = draw.standard_normal((sizes.events, sizes.features)).astype(np.float32)
        store.save(path, EventStream(sizes.nodes, src, dst, t, features, name="events"))
    return path
