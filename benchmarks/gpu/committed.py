"""Committed: whether a cost model that was fitted here could be handed on: what it says of a small cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu.command import command
from gpu.place import Place
from gpu.record import Failed, Record

GPUS = 8


def replay(place: Place, record: Record, folder: Path, experiment: Mapping[str, Any], costs: Path) -> None:
    """`chronoscale simulate` of the experiment with those costs on 8 GPUs, its rows into the result. Whatever leaves their range is
    extrapolated, and says so. Raises Failed as the command does, and for a strategy without an epoch."""
    simulated = {**experiment, "costs": str(costs), "gpus": [GPUS], "extrapolate": True}
    rows = command(place, record, folder, "simulate", simulated)
    record.put(simulated=rows)
    shown = {row["strategy"] for row in rows if row["ranks"] == GPUS and row["epoch_s"] and row["epoch_s"] > 0}
    if missing := [name for name in experiment["strategies"] if name not in shown]:
        raise Failed(f"the profile says nothing of {', '.join(missing)} on {GPUS} GPUs")
