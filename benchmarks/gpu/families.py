"""Parts snapshots, windows, streams, signals: a family of dynamic graphs profiled on the device, executed and replayed with that profile,
and simulated on a small cluster. Part figure15: REAL's Figure 15 replayed with the profile of snapshots, beside the datasheet's.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from core import table
from setups.data import stored

from gpu.child import Failed, exit_code
from gpu.child import run as run_command
from gpu.place import ROOT, Place, part_arguments

EXPERIMENTS: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
SIMULATOR = ROOT / "src/chronoscale/simulator"
GPUS = 8  # of the small cluster
Rows = list[dict[str, Any]]


def command(place: Place, name: str, experiment: Mapping[str, Any], label: str) -> Rows:
    """Run `chronoscale NAME` on an experiment, print what it says as a table, and keep its rows as `LABEL.json`.

    Raises Failed where it does.
    """
    folder = place.work / place.out.name
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{label}.yaml"
    file.write_text(yaml.safe_dump(dict(experiment)))
    words = [sys.executable, "-m", "chronoscale", name, str(file), "--runs", str(folder / "runs"), "--json"]
    code, answer = run_command(words, place.environment(), folder)
    if code:
        raise Failed(f"chronoscale {name} ended with code {code}")
    rows: Rows = json.loads(answer)
    (place.out / f"{label}.json").write_text(json.dumps(rows))
    heads = [key for key, value in rows[0].items() if not isinstance(value, (list, dict))]
    print(f"\n{label}:\n\n{table.head(heads)}")
    for row in rows:
        print(table.line(f"{row[head]:.4g}" if isinstance(row[head], float) else row[head] for head in heads))
    sys.stdout.flush()
    return rows


def profiled(place: Place, part: str) -> None:
    """Profile, validate and simulate a family's experiment; its cost model is kept, named as in src/chronoscale/real_exec/profiles.

    Raises Failed as the commands do, and for a profile that says nothing of a strategy on a small cluster.
    """
    shutil.rmtree(place.work / place.out.name, ignore_errors=True)
    chosen = EXPERIMENTS[part]
    chosen = {**chosen, **(chosen["rehearsal"] if place.rehearsal else {}), "ranks": [1], "device": place.device}
    del chosen["rehearsal"]
    experiment = {**chosen, "dataset": {"path": str(stored(chosen["dataset"], place.work / "data"))}}
    command(place, "profile", experiment, "profile")
    (costs,) = (place.work / place.out.name / "runs").glob("*/profile/costs-1.json")
    device = "-".join("".join(c if c.isalnum() else " " for c in json.loads(costs.read_text())["device"].lower()).split())
    model = experiment["model"]
    shutil.copyfile(costs, place.out / f"{device}_{model['name']}-{model['hidden']}_{part}_x1.json")
    shutil.copyfile(costs, place.out / "costs.json")
    with_costs = {**experiment, "costs": str(costs)}
    command(place, "validate", with_costs, "validate")
    there = {**with_costs, "gpus": [GPUS], "cluster": own_cluster(place, costs), "extrapolate": True}
    require_epochs(command(place, "simulate", there, "simulate"), experiment["strategies"])


def own_cluster(place: Place, costs: Path, preset: str = "h200") -> str:
    """Write a cluster file of a preset's machines with the device that costs were fitted on in place of the H200; return its path.

    For simulations whose rows the costs time. What these do not say (memory, shares of bandwidth) stays the H200's.
    """
    device = yaml.safe_load((SIMULATOR / "devices/nvidia-h200.yaml").read_text())
    machines = yaml.safe_load((SIMULATOR / f"clusters/{preset}.yaml").read_text())
    device["name"] = json.loads(costs.read_text())["device"]
    path = place.work / place.out.name / "own-cluster.yaml"
    path.write_text(yaml.safe_dump({**machines, "device": device}))
    return str(path)


def require_epochs(rows: Rows, strategies: list[str]) -> None:
    """Raise Failed for a strategy without an epoch on the small cluster: its profile could not be handed on."""
    shown = {row["strategy"] for row in rows if row["ranks"] == GPUS and row["epoch_s"] and row["epoch_s"] > 0}
    if missing := [name for name in strategies if name not in shown]:
        raise Failed(f"the profile says nothing of {', '.join(missing)} on {GPUS} GPUs")


def figure15(place: Place) -> None:
    """Simulate Figure 15 with the datasheet and with the profile; what is outside the profile's range is extrapolated, and says so.

    Raises Failed without a profile.
    """
    costs = next(
        (path for folder in (place.out.parent / "snapshots", place.earlier("snapshots")) if (path := folder / "costs.json").exists()), None
    )
    if costs is None:
        raise Failed("there is no profile of this device: run PARTS=snapshots first")
    (place.work / place.out.name).mkdir(parents=True, exist_ok=True)
    published = yaml.safe_load((ROOT / "examples/real_figure15.yaml").read_text())
    experiment = {**published, **(EXPERIMENTS["figure15"]["rehearsal"] if place.rehearsal else {})}
    command(place, "simulate", {**experiment, "costs": "datasheet"}, "datasheet")
    command(
        place,
        "simulate",
        {**experiment, "costs": str(costs), "cluster": own_cluster(place, costs, published["cluster"]), "extrapolate": True},
        "profile",
    )


def main() -> None:
    """Run the part that is named."""
    place, (part,) = part_arguments()
    if part == "figure15":
        figure15(place)
    else:
        profiled(place, part)


if __name__ == "__main__":
    raise SystemExit(exit_code(main))
