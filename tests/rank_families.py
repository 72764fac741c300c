"""Experiments of each family on two ranks, small, with a plug-in that loses the second one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.datasets.streams.events import EventStream

Write = Callable[[str], Path]
# A plug-in, run on every rank: in the second epoch the second rank is lost in its first row, if the file `how` says so, which it removes.
LOSES = """
import os, resource, signal, threading, time
from pathlib import Path
import torch
from chronoscale.real_exec.ranks import positions
from chronoscale.strategies.schedule import COLLECTIVES

how, record_rows, one = Path("how"), positions.PositionPage.record_rows, threading.Lock()

def lose(way):
    if way == "raise":
        raise ValueError("odd")
    if way == "memory":
        resource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))
        torch.ones(1 << 28)
    if way == "leave out":
        time.sleep(1000)
    os.kill(os.getpid(), getattr(signal, way))
    time.sleep(1000)  # the signal may take its time

def losing(self, run):
    def step(task):
        way = None
        with one:
            if os.environ["RANK"] == "1" and "epoch 2" in self.read().text and how.exists():
                way = how.read_text()
                if way != "leave out" or task.op in COLLECTIVES:
                    how.unlink()
                    Path("lost").write_text(str(time.monotonic()))
                else:
                    way = None
        if way:
            lose(way)
        run(task)
    return record_rows(self, step)

if "RANK" in os.environ:  # the command loads the plug-in, too
    positions.PositionPage.record_rows = losing
"""
FAMILIES = {
    "snapshots": {
        "dataset": {"path": "graphs"},
        "model": {"name": "t-gcn", "hidden": 8, "inputs": 2},
        "training": {"task": "degrees"},  # one schedule, no control plane
        "groups": 4,
        "strategies": ["psg"],
    },
    "streams": {
        "dataset": {"path": "events"},
        "model": {"name": "tgn", "hidden": 8, "time": 4},
        "training": {"batch_size": 40, "fanout": [3], "shared": 0.2, "theta": 0.5},
        "strategies": ["memshare"],
    },
    "signals": {
        "dataset": {"path": "readings"},
        "model": {"name": "pgt-dcrnn", "hidden": 4},
        "training": {"batch_size": 2, "window": 4, "horizon": 3, "batches": 4},
        "strategies": ["dist-index"],
    },
}


def families_in(folder: Path) -> Write:
    """Write the datasets, and return a function that writes a family's experiment file."""
    (folder / "loses.py").write_text(LOSES)
    store.save(folder / "graphs", GrowthGraph.rmat(64, 300, 12, 0.1, 1).sequence())
    traffic = TrafficSignal(6, 120, seed=1)
    store.save_signal(folder / "readings", traffic, *traffic.graph(), "readings")
    rng, count = np.random.default_rng(0), 200
    src, dst = rng.integers(0, 12, count).astype(np.int32), (12 + rng.integers(0, 6, count)).astype(np.int32)
    store.save(folder / "events", EventStream(18, src, dst, np.sort(rng.integers(0, 5 * count, count)), None, name="small"))

    def write(family: str) -> Path:
        path = folder / f"{family}.yaml"
        common = {"modules": ["loses.py"], "ranks": [2], "epochs": 3, "hang_after": 2, "costs": "datasheet", "repeats": 1}
        path.write_text(json.dumps({**FAMILIES[family], **common}))
        return path

    return write
