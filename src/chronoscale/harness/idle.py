"""Idle: ranks that have nothing to train, where there are more of them than there is work."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from chronoscale.errors import ChronoscaleWarning

Idle = Mapping[tuple[str, int], int]  # by strategy and number of ranks: how many of them train nothing


def told(found: Idle) -> list[str]:
    """One line a number of ranks that has idle ones."""
    lines = []
    for ranks in sorted({ranks for (_, ranks), idle in found.items() if idle}):
        counts = {name: idle for (name, on), idle in found.items() if on == ranks and idle}
        many = ", ".join(f"{idle:,} of {ranks:,} ranks under {name}" for name, idle in counts.items())
        lines.append(f"more ranks than work: {many} train nothing and wait for the others")
    return lines


def warn(found: Idle) -> None:
    """The same as one warning: a number that is no speed of all ranks must not pass for one."""
    if lines := told(found):
        warnings.warn("; ".join(lines), ChronoscaleWarning, stacklevel=2)
