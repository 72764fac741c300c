"""Fact: what is said of a dataset, a line for people and a value for programs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chronoscale.datasets.account import Account

Value = int | float | str | list[str] | dict[str, float | int | str] | None


class Fact(NamedTuple):
    """`value` is what JSON has: a number is a number. `text` where people read something else than the value with its digits grouped."""

    what: str
    value: Value
    text: str = ""

    @property
    def shown(self) -> str:
        """For people."""
        return self.text or _shown(self.value)


Facts = list[Fact]


def _shown(value: Value) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(one)}" for key, one in value.items())
    if isinstance(value, list):
        return ", ".join(value) or "nothing"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def spread(what: str, counts: np.ndarray[Any, Any]) -> Fact:
    """Of counts [n], n > 0: the least, the most, the mean."""
    least, most, mean = int(counts.min()), int(counts.max()), float(counts.mean())
    return Fact(what, {"least": least, "most": most, "mean": mean}, f"{least:,} .. {most:,}, mean {mean:,.0f}")


def understood(account: Account) -> Facts:
    """What a reader has said of its file."""
    return [Fact(what, value) for what, value in account.items()]
