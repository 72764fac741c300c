"""Experiments on event streams, for tests of the command line: a small stream, files that name it, and what a training leaves."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from chronoscale.datasets import store
from chronoscale.datasets.streams.events import EventStream
from chronoscale.real_exec.training.epoch_record import epoch_records

MODEL = {"name": "tgn", "hidden": 8, "time": 4}
SMALL = {
    "model": MODEL,
    "training": {"batch_size": 20, "fanout": [3]},
    "ranks": [1],
    "repeats": 2,
    "warmup": 0,
    "strategies": ["tgl-unique"],
}
EVENTS = 300


def stream(events: int = EVENTS, **more: object) -> EventStream:
    """Events of 12 sources with 6 items, some of one time."""
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 12, events).astype(np.int32), (12 + rng.integers(0, 6, events)).astype(np.int32)
    return EventStream(18, src, dst, np.sort(rng.integers(0, 5 * events, events)), **more)  # type: ignore[arg-type]


def written(folder: Path) -> Callable[..., Path]:
    """Streams in `folder`, and a function that writes experiment files there."""
    rng, source = np.random.default_rng(1), stream().src
    features = (source[:, None] % 2 + 0.1 * rng.normal(size=(EVENTS, 2))).astype(np.float32)
    store.save(folder / "events", stream(features=features, labels=(source % 2).astype(np.int64)))
    store.save(folder / "plain", stream(name="plain"))
    store.save(folder / "short", stream(3))
    store.save(folder / "below", stream(name="below", labels=(source % 2 - 1).astype(np.int64)))

    def write(stem: str = "small", **changes: object) -> Path:
        path = folder / f"{stem}.yaml"
        path.write_text(json.dumps({"dataset": {"path": "events"}, **SMALL, "repeats": 2, "warmup": 0, **changes}))
        return path

    return write


def left(folder: Path) -> tuple[object, ...]:
    """What a training comes to: epochs, test, the best epoch's weights, memory and mails."""
    best = torch.load(folder / "best.pt", weights_only=True)
    tensors = {f"{part} {name}": value.tolist() for part in ("model", "state") for name, value in best[part].items()}
    epochs = [(record.losses, record.scores) for record in epoch_records(folder)]
    return epochs, json.loads((folder / "test.json").read_text()), json.loads((folder / "naive.json").read_text()), best["epoch"], tensors
