"""Inherited: hidden states that windows hand on (FlareDTDG §3.2), aligned by place alone.

A snapshot of a window has the rows of the one before it, and more, whose state before it no row of this window computes: it was computed
in the window before, by the same place. Each place keeps those rows of what it has computed; together that is one state a node.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class States(Protocol):
    """Hidden states that windows hand on, of one rank and epoch."""

    def forget(self) -> None:
        """A new segment of the sequence: states begin from zero."""
        ...

    def joined(self, step: int, layer: int, before: list[Tensor] | None) -> list[Tensor] | None:
        """The whole state before a place's snapshot: `before`, as the place before it has left it in this window, and what is inherited;
        None where nothing has one yet."""
        ...

    def keep(self, step: int, layer: int, after: list[Tensor]) -> None:
        """Of the state after a snapshot what the next window inherits at its place."""
        ...


class Inherited(States):
    """Of one rank and epoch, on its device. `rows`: how many each place of a window has, the oldest first."""

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows
        self._kept: dict[tuple[int, int], list[Tensor]] = {}

    def forget(self) -> None:
        self._kept.clear()

    def joined(self, step: int, layer: int, before: list[Tensor] | None) -> list[Tensor] | None:
        first, last = self._range(step)
        kept = self._kept.get((step, layer))
        if first == last or (before is None and kept is None):
            return None if before is None else [part[: self.rows[step]] for part in before]
        if before is None:
            return kept  # the oldest of a window
        if kept is None:
            kept = [part.new_zeros(last - first, part.shape[1]) for part in before]
        return [torch.cat([part[:first], rest]) for part, rest in zip(before, kept, strict=True)]

    def keep(self, step: int, layer: int, after: list[Tensor]) -> None:
        first, last = self._range(step)
        if first < last:
            self._kept[step, layer] = [part.detach()[first:last].clone() for part in after]

    def _range(self, step: int) -> tuple[int, int]:
        """Rows of a place that the one before it has not."""
        before = self.rows[step - 1] if step else 0
        return min(before, self.rows[step]), self.rows[step]


class Weights(States):
    """Evolving weights, which are no rows: the oldest snapshot of a window begins with those that it had in the window before."""

    def __init__(self) -> None:
        self._kept: dict[int, list[Tensor]] = {}

    def forget(self) -> None:
        self._kept.clear()

    def joined(self, step: int, layer: int, before: list[Tensor] | None) -> list[Tensor] | None:
        return before if step else self._kept.get(layer)

    def keep(self, step: int, layer: int, after: list[Tensor]) -> None:
        if step == 0:
            self._kept[layer] = [part.detach() for part in after]
