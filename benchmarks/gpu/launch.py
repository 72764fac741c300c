"""Launch: epochs launched row by row beside the same as CUDA graphs: losses, times, and what the simulator says of both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gpu.command import command
from gpu.device import present
from gpu.families import REHEARSED, SETTINGS, emptied, signals_experiment
from gpu.place import Place
from gpu.record import Record, Wrong

CLOSE = 1e-4  # of the largest loss, as between the CPU and a device
# What is captured runs row by row once, and is captured in the second pass; plans are the same for both.
PASSES = {"ranks": [1], "warmup": 2, "repeats": 5, "costs": "datasheet"}


def run(place: Place, record: Record) -> None:
    """A small graph, whose kernels are short, and batches of readings. Raises Failed for losses that differ, for what was not captured, and
    as the commands do. A rehearsal launches both row by row: on a CPU nothing else is to be had."""
    present(place)
    wrong, folder = Wrong(), emptied(place.work / "launch")
    for name, experiment in experiments(place).items():
        for row in compared(place, record, folder / name, experiment):
            record.add("launches", {"family": name, **row})
            if row["difference"] > CLOSE:
                wrong.append(f"{name} {row['strategy']}: losses differ by {row['difference']:.1e}")
            if not place.rehearsal and not row["graphs"]:
                wrong.append(f"{name} {row['strategy']}: {row['why'] or 'no graphs'}")
    wrong.raise_any("differ or were not captured")


def experiments(place: Place) -> Mapping[str, dict[str, Any]]:
    """By family."""
    setting = (REHEARSED if place.rehearsal else SETTINGS)[0]
    snapshots = setting.experiment(setting.stored(place.work / "data"), place.device)
    return {
        "snapshots": {**snapshots, **PASSES, "strategies": ["psg", "real-type1", "real-reuse"]},
        "signals": {**signals_experiment(place), **PASSES, "device": place.device},
    }


def compared(place: Place, record: Record, folder: Path, experiment: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row a strategy: how far its losses are apart, ms of an epoch as it was executed and as it is simulated with a datasheet."""
    launches = ("eager", "eager" if place.rehearsal else "graph")
    measured, losses, launched = [], [], {}
    for number, launch in enumerate(launches):
        own = folder / f"{number}-{launch}"
        measured.append(_epochs(command(place, record, own, "bench", {**experiment, "launch": launch})))
        (ranks,) = (own / "runs").glob("*/ranks-1")
        losses.append({name: np.load(ranks / f"{name}-losses.npy") for name in experiment["strategies"]})
        launched = {name: _launched(ranks / f"{name}-launched.json") for name in experiment["strategies"]}
    simulation = {**experiment, "gpus": [1]}
    simulated = [
        _epochs(command(place, record, folder / f"simulated-{launch}", "simulate", {**simulation, "launch": launch}))
        for launch in ("eager", "graph")
    ]
    for name in experiment["strategies"]:
        eager, graph = (by_strategy[name] for by_strategy in losses)
        yield {
            "strategy": name,
            "difference": float(np.abs(eager - graph).max() / np.abs(eager).max()),
            "launched": launches,
            "measured_ms": [by_strategy[name] for by_strategy in measured],
            "simulated_ms": [by_strategy[name] for by_strategy in simulated],
            **launched[name],
        }


def _epochs(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {row["strategy"]: 1e3 * row["epoch_s"] for row in rows}


def _launched(path: Path) -> dict[str, Any]:
    """Of the last pass: graphs that ran, and why there were none."""
    last = json.loads(path.read_text())[-1] if path.exists() else {"graphs": 0, "why": ""}
    return {"graphs": last["graphs"], "why": last["why"]}
