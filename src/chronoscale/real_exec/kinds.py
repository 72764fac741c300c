"""Kinds of schedules that this version executes, by name; `programs` says what executes each, and imports torch for it."""

from __future__ import annotations

EXECUTED = (
    "collectives",
    *("groups", "snapshots", "parts", "blocks", "sampled", "hybrid"),
    *("windows", "preparation"),
    *("events", "spread"),
)
