"""Inherited: hidden states that windows hand on (FlareDTDG §3.2), aligned by place alone.

A snapshot of a window has the rows of the one before it, and more, whose state before it no row of this window computes: it was computed
in the window before, by the same place. Each place keeps those rows of what it has computed; together that is one state a node.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Inherited:
    """Of one rank and epoch, on its device. `rows`: how many each place of a window has, the oldest first."""

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows
        self._kept: dict[tuple[int, int], list[Tensor]] = {}

    def forget(self) -> None:
        """A new segment of the sequence: states begin from zero."""
        self._kept.clear()

    def joined(self, step: int, layer: int, before: list[Tensor] | None) -> list[Tensor] | None:
        """The whole state before a snapshot: `before`, its first rows, come from this window; None where nothing has one yet."""
        first, last = self._range(step)
        kept = self._kept.get((step, layer))
        if first == last or (before is None and kept is None):
            return before
        if before is None:
            return kept  # the oldest of a window
        if kept is None:
            kept = [part.new_zeros(last - first, part.shape[1]) for part in before]
        return [torch.cat(pair) for pair in zip(before, kept, strict=True)]

    def keep(self, step: int, layer: int, after: list[Tensor]) -> None:
        """Of the state after a snapshot what the next window inherits at its place."""
        first, last = self._range(step)
        if first < last:
            self._kept[step, layer] = [part.detach()[first:last].clone() for part in after]

    def whole(self, layer: int, after: list[Tensor]) -> None:
        """Evolving weights, which are no rows: of the oldest."""
        self._kept[0, layer] = [part.detach() for part in after]

    def weights(self, layer: int) -> list[Tensor] | None:
        """As `whole` kept them."""
        return self._kept.get((0, layer))

    def _range(self, step: int) -> tuple[int, int]:
        """Rows of a place that the one before it has not."""
        before = self.rows[step - 1] if step else 0
        return min(before, self.rows[step]), self.rows[step]
