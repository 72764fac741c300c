"""Idle ranks: those that have nothing to train, where there are more of them than there is work."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from chronoscale.errors import ChronoscaleWarning

Idle = Mapping[tuple[str, int], int]  # by strategy and number of ranks: how many of them train nothing


def idle_sentences(idle: Idle) -> list[str]:
    """Return a sentence for each number of ranks on which some ranks of a run train nothing, since there is less work than ranks.

    idle: (strategy, number of ranks) -> how many of them train nothing.
    """
    lines = []
    for ranks in sorted({ranks for (_, ranks), count in idle.items() if count}):
        counts = {name: count for (name, on), count in idle.items() if on == ranks and count}
        shares = ", ".join(f"{count:,} of {ranks:,} ranks under {name}" for name, count in counts.items())
        lines.append(f"more ranks than work: {shares} train nothing and wait for the others")
    return lines


def warn_of_idle_ranks(idle: Idle) -> None:
    """Warn, after a command's run, of ranks that train nothing: its epoch times are no speed of all ranks.

    idle: (strategy, number of ranks) -> how many of them train nothing.
    """
    if lines := idle_sentences(idle):
        warnings.warn("; ".join(lines), ChronoscaleWarning, stacklevel=2)
