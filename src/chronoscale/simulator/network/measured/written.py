"""Cluster file with links as measured: the file that it began with, what was fitted in its place, and how far it is off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from chronoscale.simulator.network.measured.fit import TableError
from chronoscale.simulator.network.nccl import constants_of, tuning
from chronoscale.strategies.cluster import Cluster, Link

DIGITS = 4  # of figures that were fitted


def cluster_text(
    contents: Mapping[str, Any], before: Cluster, cluster: Cluster, errors: Sequence[TableError], sources: Iterable[str]
) -> str:
    """Return the text of a simulated cluster's file: that which the fit began with, and in it what was fitted.

    contents: the keys of that file, its device's figures among them; before: its cluster. cluster: as fitted. errors: of each table.
    sources: lines that say where measurements are from.
    """
    device, links = dict(contents["device"]), ((name, getattr(before, name), getattr(cluster, name)) for name in ("intra", "inter"))
    changed = {name: _link(contents[name], link) for name, usual, link in links if link != usual}
    if cluster.device.h2d != before.device.h2d:
        device["h2d"] = _link(device["h2d"], cluster.device.h2d)
        changed["the device's h2d"] = {}
    keys = {**contents, "device": device, **{name: link for name, link in changed.items() if link}}
    constants = _changes(tuning().model_dump(mode="json"), constants_of(cluster).model_dump(mode="json"))
    if constants != (contents.get("nccl") or {}):
        keys["nccl"], changed["nccl"] = constants, {}
    keys["origin"] = f"{contents['origin']}; as measured: {', '.join(changed) or 'nothing'}"
    head = ["Fitted to:", *sources]
    if errors:
        head += ["Medians of what the model is off, |predicted / measured - 1|:", *map(_error_line, errors)]
    return "".join(f"# {line}\n" for line in head) + yaml.safe_dump(keys, sort_keys=False, allow_unicode=True)


def _error_line(error: TableError) -> str:
    table, setup = error.table, error.table.setup
    parts = [
        f"{share:.1%} of {what}" for what, share in (("what was fitted", error.median(True)), ("what was held out", error.median(False)))
    ]
    shown = [part for part in parts if not part.startswith("nan")]
    return f"  {table.path.name}: {table.op.name} of {setup.nodes} x {setup.gpus}, {len(table)} sizes: {', '.join(shown)}"


def _link(contents: Mapping[str, Any], link: Link) -> dict[str, Any]:
    return {**contents, "latency_s": _rounded(link.latency_s), "efficiency": _rounded(link.efficiency)}


def _changes(usual: Mapping[str, Any], constants: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of some constants that are others than `usual`, at any depth, rounded."""
    changes: dict[str, Any] = {}
    for key, value in constants.items():
        if isinstance(value, Mapping):
            if below := _changes(usual[key], value):
                changes[key] = below
        elif value != usual[key]:
            changes[key] = _rounded(value) if isinstance(value, float) else value
    return changes


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
