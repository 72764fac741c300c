"""Cluster file with links as measured: the file that it began with, what was fitted in its place, and how far it is off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from chronoscale.simulator.network.measured.fit import TableError
from chronoscale.simulator.network.nccl import tuning
from chronoscale.strategies.cluster import Cluster, Link

DIGITS = 4  # of figures that were fitted


def cluster_text(contents: Mapping[str, Any], cluster: Cluster, errors: Iterable[TableError], sources: Iterable[str]) -> str:
    """Return the text of a simulated cluster's file.

    contents: the keys of the file that the fit began with, its device's figures among them. cluster: as fitted. errors: of each table.
    sources: lines that say where measurements are from.
    """
    device = {**contents["device"], "h2d": {**contents["device"]["h2d"], "efficiency": _rounded(cluster.device.h2d.efficiency)}}
    keys = {
        **contents,
        "origin": f"{contents['origin']}; links as measured",
        "device": device,
        "intra": _link(cluster.intra),
        "inter": _link(cluster.inter),
    }
    if changes := _changes(tuning().model_dump(mode="json"), (cluster.tuning or tuning()).model_dump(mode="json")):
        keys["nccl"] = changes
    head = ["Links fitted to:", *sources, "Medians of what the model is off, |predicted / measured - 1|:", *map(_error_line, errors)]
    return "".join(f"# {line}\n" for line in head) + yaml.safe_dump(keys, sort_keys=False, allow_unicode=True)


def _error_line(error: TableError) -> str:
    table, setup = error.table, error.table.setup
    parts = [
        f"{share:.1%} of {what}" for what, share in (("what was fitted", error.median(True)), ("what was held out", error.median(False)))
    ]
    shown = [part for part in parts if not part.startswith("nan")]
    return f"  {table.path.name}: {table.op.name} of {setup.nodes} x {setup.gpus}, {len(table)} sizes: {', '.join(shown)}"


def _link(link: Link) -> dict[str, float]:
    return {"bandwidth": link.bandwidth, "latency_s": _rounded(link.latency_s), "efficiency": _rounded(link.efficiency)}


def _changes(usual: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constants of `found` that are others than `usual`, at any depth."""
    changes: dict[str, Any] = {}
    for key, value in found.items():
        if isinstance(value, Mapping):
            if below := _changes(usual[key], value):
                changes[key] = below
        elif value != usual[key]:
            changes[key] = _rounded(value) if isinstance(value, float) else value
    return changes


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
