"""Kinds of schedules that this version executes, by name.

The table of what executes each is `real_exec.binding`; that imports torch, this does not.
"""

from __future__ import annotations

EXECUTED = (
    "collectives",
    *("groups", "snapshots", "parts", "blocks", "sampled", "hybrid"),
    *("windows", "preparation"),
    *("events", "spread"),
)
