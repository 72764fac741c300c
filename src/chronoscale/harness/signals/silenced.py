"""Silenced sensors, named for people."""

from __future__ import annotations

from chronoscale.datasets.signals.signal import Signal

SHOWN = 5  # sensors named


def silenced(found: Signal) -> str:
    """The first sensors without a reading, by their ids in the source where it has any; '' for none."""
    dead = found.dead_sensors
    first = (dead if found.node_ids is None else found.node_ids[dead])[:SHOWN].tolist()
    return ", ".join(map(str, first)) + (", …" if len(dead) > SHOWN else "")
