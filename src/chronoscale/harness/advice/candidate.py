"""Candidate: one of the points that advice compares, and its name for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Candidate:
    """Point that `chronoscale advise` compares: a strategy on a number of GPUs of a cluster, with values for `advise.grid`.

    cluster: as the file names it. strategy: its name. settings: key of the experiment file -> value.
    """

    cluster: str
    strategy: str
    gpus: int
    settings: Mapping[str, Any]

    @property
    def group(self) -> tuple[str, str, str]:
        """Return the key that candidates of `chronoscale advise` share which differ only in their number of GPUs."""
        return self.cluster, self.strategy, repr(sorted(self.settings.items()))

    def __str__(self) -> str:
        return self.name_with(self.strategy, f"{self.gpus:,}")

    def name_with(self, strategies: str, gpus: str) -> str:
        """Return a name for this candidate and others that differ only in strategy and GPUs, for `chronoscale advise`'s messages.

        strategies, gpus: those of all of them, as text.
        """
        parts = [f"{strategies} on {gpus} GPU{'s' * (gpus != '1')} of {self.cluster}"]
        return ", ".join(parts + [f"{short_key(key, self.settings)} {value_text(value)}" for key, value in self.settings.items()])

    @property
    def columns(self) -> dict[str, Any]:
        """Return the cells that identify the candidate in `chronoscale advise`'s tables, by column."""
        settings = {short_key(key, self.settings): value_text(value) for key, value in self.settings.items()}
        return {"strategy": self.strategy, "gpus": self.gpus, "cluster": self.cluster, **settings}


def short_key(key: str, among: Mapping[str, Any]) -> str:
    """Return an experiment file's key for `chronoscale advise`'s tables: its last word, where no other key of `among` ends so; else all of
    it.
    """
    last = key.rpartition(".")[2]
    return last if sum(other.rpartition(".")[2] == last for other in among) == 1 else key


def value_text(value: Any) -> str:
    """Return a setting's value as an experiment file writes it, for `chronoscale advise`'s tables."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_text, value))}]"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
