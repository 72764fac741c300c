"""Figure15: REAL's Figure 15 replayed with the profile, beside the datasheet's. Needs the profile and no device."""

from __future__ import annotations

import shutil
from typing import Any

import yaml

from gpu.command import command
from gpu.families import costs_of
from gpu.place import ROOT, Place
from gpu.record import Record

# Of a rehearsal: few groups, of the width that it has profiled.
SMALL = {"dataset": "growth_small", "model": {"name": "wd-gcn", "hidden": 16, "inputs": 16}, "gpus": [1, 2]}


def run(place: Place, record: Record) -> None:
    """Raises Failed without a profile, and as the command does. What is outside the profile's range, or on another device than its, is
    extrapolated, and its rows say so."""
    folder = place.work / "figure15"
    shutil.rmtree(folder, ignore_errors=True)
    published: dict[str, Any] = yaml.safe_load((ROOT / "examples/real_figure15.yaml").read_text())
    experiment = {**published, **(SMALL if place.rehearsal else {})}
    for costs in ("datasheet", str(costs_of(place, folder)[0])):
        rows = command(place, record, folder, "simulate", {**experiment, "costs": costs, "extrapolate": costs != "datasheet"})
        record.put(**{"datasheet" if costs == "datasheet" else "fitted": rows})
