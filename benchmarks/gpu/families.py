"""Families: each kind of dynamic graph profiled on the device, and its strategies executed and replayed with that profile.

Parts profile, validate (snapshots), windows, streams and signals. All end with `chronoscale simulate` on a small cluster.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.datasets.streams.events import EventStream
from gpu.command import command
from gpu.device import present
from gpu.place import Place
from gpu.record import NO_DEVICE, Failed, NoDevice, Record

GPUS = 8  # of the small cluster
Experiment = dict[str, Any]


class Setting(NamedTuple):
    """A model's hidden width, and the generated snapshots that it is trained on: nodes, edges that ever exist, snapshots, repeats."""

    hidden: int
    nodes: int
    edges: int
    snapshots: int
    repeats: int

    @property
    def name(self) -> str:
        """The data set's name."""
        return f"growth-{self.nodes // 1000}k" if self.nodes >= 1000 else f"growth-{self.nodes}"

    def stored(self, folder: Path) -> Path:
        """Return the data set's folder; made where it is not there."""
        path = folder / f"{self.name}-{self.edges}-{self.snapshots}"
        if not path.exists():
            store.save(path, GrowthGraph.rmat(self.nodes, self.edges, self.snapshots, 0.05, 0).sequence())
        return path

    def experiment(self, data: Path, device: str) -> Experiment:
        """Return the experiment on a stored data set."""
        model = {"name": "wd-gcn", "hidden": self.hidden, "inputs": self.hidden}
        planned = {"strategies": ["psg", "real-type1", "real-reuse", "real-g+"], "ranks": [1], "repeats": self.repeats}
        return {"dataset": {"path": str(data)}, "model": model, **planned, "device": device}


# The first is done in a minute. The second has the width of REAL's Figure 15 and a third of the graph that `figure15` replays (300,000
# nodes, 1.9 M edges a snapshot), for want of minutes.
SETTINGS = (Setting(64, 2_000, 20_000, 16, 5), Setting(64, 100_000, 1_300_000, 12, 3))
REHEARSED = (Setting(16, 200, 1_200, 12, 2),)


def profile(place: Place, record: Record) -> None:
    """Run `chronoscale profile` on a small graph, then on a large one: the result has the last that was done. Raises as the command."""
    present(place)
    for setting in REHEARSED if place.rehearsal else SETTINGS:
        experiment = setting.experiment(setting.stored(place.work / "data"), place.device)
        record.put(
            **_fitted(place, record, emptied(place.work / "profile" / setting.name), setting.name, experiment), setting=setting._asdict()
        )


def costs_of(place: Place, folder: Path) -> tuple[Path, Setting]:
    """Return the cost model of the profile that ran, as a file in `folder`, and what it profiled. Raises Failed, NoDevice without one."""
    profile = place.found("profile")
    data = Record.read(profile) if profile else {}
    if data.get("status") == NO_DEVICE:
        raise NoDevice("no profile of one")
    if "costs" not in data or data.get("rehearsal") != place.rehearsal:
        raise Failed("there is no profile of this device: run PARTS=profile first")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "costs-1.json"
    path.write_text(json.dumps(data["costs"], indent=1))
    return path, Setting(**data["setting"])


def validate(place: Place, record: Record) -> None:
    """Run `chronoscale validate` with the profile. Raises Failed without one, and as the command does."""
    present(place)
    folder = emptied(place.work / "validate")
    costs, setting = costs_of(place, folder)
    record.put(setting=setting._asdict())
    _replayed(place, record, folder, setting.experiment(setting.stored(place.work / "data"), place.device), costs)


def windows(place: Place, record: Record) -> None:
    """FlareDTDG's sliding windows beside whole histories. Raises as `measure`."""
    setting = Setting(8, 200, 1_200, 14, 2) if place.rehearsal else Setting(64, 20_000, 300_000, 24, 3)
    model = {"name": "t-gcn", "hidden": setting.hidden, "inputs": setting.hidden}
    strategies = {"strategies": ["flaredtdg", "full-history"], "repeats": setting.repeats}
    measure(place, record, "windows", {"dataset": {"path": str(setting.stored(place.work / "data"))}, "model": model, **strategies})


def streams(place: Place, record: Record) -> None:
    """TGN on events with all features sent (tgl), with FAST's cache, and as MemShare trains. Raises as `measure`."""
    small = place.rehearsal
    nodes, events, features = (200, 3_000, 8) if small else (20_000, 200_000, 172)
    hidden = 8 if small else 100
    path = place.work / "data" / f"events-{events}"
    if not path.exists():  # both ends by a power law, one event a second on average
        draw, chance = np.random.default_rng(0), np.arange(1, nodes + 1) ** -0.8
        src, dst = (draw.choice(nodes, events, p=chance / chance.sum()).astype(np.int32) for _ in range(2))
        drawn = np.sort(draw.integers(0, events, events)), draw.standard_normal((events, features)).astype(np.float32)
        store.save(path, EventStream(nodes, src, dst, *drawn, name="events"))
    experiment = {
        "dataset": {"path": str(path)},
        "model": {"name": "tgn", "hidden": hidden, "time": hidden},
        "training": {"batch_size": 100 if small else 600, "fanout": [4 if small else 10], "shared": 0.1},
        "strategies": ["tgl", "fast", "memshare"],
        "repeats": 2 if small else 3,
    }
    measure(place, record, "streams", experiment)


def signals(place: Place, record: Record) -> None:
    """PGT-DCRNN with windows by index, from the host's memory and from the device's. Raises as `measure`."""
    measure(place, record, "signals", signals_experiment(place))


def signals_experiment(place: Place) -> Experiment:
    """Return a forecaster's experiment; the generated readings are stored where they are not yet."""
    small = place.rehearsal
    sensors, steps, batch, batches = (8, 300, 8, 8) if small else (1_000, 4_000, 32, 60)
    path = place.work / "data" / f"readings-{sensors}-{steps}"
    if not path.exists():
        traffic = TrafficSignal(sensors, steps, seed=1)
        store.save_signal(path, traffic, *traffic.graph(), "readings")
    return {
        "dataset": {"path": str(path)},
        "model": {"name": "pgt-dcrnn", "hidden": 8 if small else 64},
        "training": {"batch_size": batch, "window": 12, "horizon": 12, "batches": batches},
        "strategies": ["index", "gpu-index"],
        "repeats": 2 if small else 3,
    }


def measure(place: Place, record: Record, name: str, experiment: Mapping[str, Any]) -> None:
    """Run `chronoscale profile`, whose cost model goes into the result whole, then `validate` with it. Raises Failed as they do."""
    present(place)
    folder, asked = emptied(place.work / name), {**experiment, "ranks": [1], "device": place.device}
    record.put(**_fitted(place, record, folder, name, asked), experiment=asked)
    _replayed(place, record, folder, asked, _costs(folder))


def emptied(folder: Path) -> Path:
    """Return the folder, nothing left in it."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def _fitted(place: Place, record: Record, folder: Path, name: str, experiment: Experiment) -> dict[str, Any]:
    """Return the fits, the cost model, and the model's name in src/chronoscale/real_exec/profiles."""
    fits = command(place, record, folder, "profile", experiment)
    device = "-".join("".join(c if c.isalnum() else " " for c in record.data["machine"]["device"].lower()).split())
    file = f"{device}_{experiment['model']['name']}-{experiment['model']['hidden']}_{name}_x1.json"
    return {"fits": fits, "costs": json.loads(_costs(folder).read_text()), "file": file}


def _costs(folder: Path) -> Path:
    (costs,) = (folder / "runs").glob("*/profile/costs-1.json")
    return costs


def _replayed(place: Place, record: Record, folder: Path, experiment: Experiment, costs: Path) -> None:
    """Validate with a cost model, and see whether it could be handed on: what it says of a small cluster."""
    record.put(fidelity=command(place, record, folder, "validate", {**experiment, "costs": str(costs)}))
    replay(place, record, folder, experiment, costs)


def replay(place: Place, record: Record, folder: Path, experiment: Mapping[str, Any], costs: Path) -> None:
    """Run `chronoscale simulate` of the experiment with those costs on 8 GPUs, its rows into the result.

    Whatever leaves their range is extrapolated, and says so. Raises Failed as the command does, and for a strategy without an epoch.
    """
    rows = command(place, record, folder, "simulate", {**experiment, "costs": str(costs), "gpus": [GPUS], "extrapolate": True})
    record.put(simulated=rows)
    shown = {row["strategy"] for row in rows if row["ranks"] == GPUS and row["epoch_s"] and row["epoch_s"] > 0}
    if missing := [name for name in experiment["strategies"] if name not in shown]:
        raise Failed(f"the profile says nothing of {', '.join(missing)} on {GPUS} GPUs")
