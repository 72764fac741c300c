"""Candidate: one of the points that advice compares, and its name for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Candidate:
    """A strategy on a number of GPUs of a cluster, with values for the keys of `advise.grid`.

    cluster: as the file names it. strategy: as it calls itself.
    """

    cluster: str
    strategy: str
    gpus: int
    settings: Mapping[str, Any]

    @property
    def group(self) -> tuple[str, str, str]:
        """What candidates have in common that differ in their number of GPUs alone."""
        return self.cluster, self.strategy, repr(sorted(self.settings.items()))

    def __str__(self) -> str:
        return self.name_with(self.strategy, f"{self.gpus:,}")

    def name_with(self, strategies: str, gpus: str) -> str:
        """Return a name for this candidate and others that differ from it in these alone."""
        parts = [f"{strategies} on {gpus} GPU{'s' * (gpus != '1')} of {self.cluster}"]
        return ", ".join(parts + [f"{short_key(key, self.settings)} {value_text(value)}" for key, value in self.settings.items()])

    @property
    def columns(self) -> dict[str, Any]:
        """What tells one candidate from another, by column."""
        settings = {short_key(key, self.settings): value_text(value) for key, value in self.settings.items()}
        return {"strategy": self.strategy, "gpus": self.gpus, "cluster": self.cluster, **settings}


def short_key(key: str, among: Mapping[str, Any]) -> str:
    """Return the last word of a key, where it is the only one among others that ends so."""
    last = key.rpartition(".")[2]
    return last if sum(other.rpartition(".")[2] == last for other in among) == 1 else key


def value_text(value: Any) -> str:
    """Write a value as the experiment file has it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_text, value))}]"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
