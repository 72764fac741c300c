"""Fact: one line of a dataset's description, with a text for people and a value for programs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chronoscale.datasets.account import Account

Value = int | float | str | list[str] | dict[str, float | int | str] | None


class Fact(NamedTuple):
    """Line of what `chronoscale data` commands print of a dataset: what it is about, and a value.

    text: for people, where that is more than the value with its digits grouped.
    """

    what: str
    value: Value
    text: str = ""

    @property
    def shown(self) -> str:
        """Value as people read it."""
        return self.text or _shown(self.value)


Facts = list[Fact]


def _shown(value: Value) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(part)}" for key, part in value.items())
    if isinstance(value, list):
        return ", ".join(value) or "nothing"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def spread(what: str, counts: np.ndarray[Any, Any]) -> Fact:
    """Return the line that `chronoscale data info` prints of counts, int [n] with n > 0: the least, the most and the mean. what: is
    counted.
    """
    least, most, mean = int(counts.min()), int(counts.max()), float(counts.mean())
    return Fact(what, {"least": least, "most": most, "mean": mean}, f"{least:,} .. {most:,}, mean {mean:,.0f}")


def facts_of(account: Account) -> Facts:
    """Return the lines that `chronoscale data` commands print of how a reader understood its file."""
    return [Fact(name, value) for name, value in account.items()]
