"""Window states: hidden states that windows inherit from the one before (FlareDTDG §3.2), aligned by place.

A snapshot of a window has the rows of the one before it, and more, whose state before it no row of this window computes: it was computed in
the window before, by the same place. Each place keeps those rows of what it has computed; together that is one state a node.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class WindowStates(Protocol):
    """Hidden states that FlareDTDG's sliding windows inherit from the one before (§3.2), on one rank in one epoch, by place in the
    window.
    """

    def forget(self) -> None:
        """Forget all inherited states: at a new segment of the sequence they are zero again."""
        ...

    def initial(self, step: int, layer: int, before: list[Tensor] | None) -> list[Tensor] | None:
        """Return the whole hidden state before the snapshot at a place (`step`) of a window: that of the place before it, and what is
        inherited.

        before: the first of these, from this window. None where there is neither.
        """
        ...

    def keep(self, step: int, layer: int, after: list[Tensor]) -> None:
        """Keep, on this rank, what the next window inherits of the hidden state after a snapshot.

        step: the snapshot's place in the window, the oldest first. after: the state's tensors after it, in `layer`.
        """
        ...


class PrefixStates(WindowStates):
    """Inherited states where the rows of a window's place are a prefix of those of newer places.

    rows: how many each place has, the oldest first.
    """

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows
        self._kept: dict[tuple[int, int], list[Tensor]] = {}

    def forget(self) -> None:
        self._kept.clear()

    def initial(self, step: int, layer: int, before: list[Tensor] | None) -> list[Tensor] | None:
        first, last = self._range(step)
        inherited = self._kept.get((step, layer))
        if first == last or (before is None and inherited is None):
            return None if before is None else [part[: self.rows[step]] for part in before]
        if before is None:
            return inherited  # the oldest of a window
        if inherited is None:
            inherited = [part.new_zeros(last - first, part.shape[1]) for part in before]
        return [torch.cat([part[:first], rest]) for part, rest in zip(before, inherited, strict=True)]

    def keep(self, step: int, layer: int, after: list[Tensor]) -> None:
        first, last = self._range(step)
        if first < last:
            self._kept[step, layer] = [part.detach()[first:last].clone() for part in after]

    def _range(self, step: int) -> tuple[int, int]:
        """Return the range of a place's rows that the place before it has not."""
        before = self.rows[step - 1] if step else 0
        return min(before, self.rows[step]), self.rows[step]


class WeightStates(WindowStates):
    """Inherited states that are evolving weights (EvolveGCN), not rows: the oldest snapshot of a window begins with the weights it had in
    the window before.
    """

    def __init__(self) -> None:
        self._kept: dict[int, list[Tensor]] = {}

    def forget(self) -> None:
        self._kept.clear()

    def initial(self, step: int, layer: int, before: list[Tensor] | None) -> list[Tensor] | None:
        return before if step else self._kept.get(layer)

    def keep(self, step: int, layer: int, after: list[Tensor]) -> None:
        if step == 0:
            self._kept[layer] = [part.detach() for part in after]


class ScatteredStates(WindowStates):
    """Inherited states where the rows of a window's place are no prefix: they are put where their nodes stand among all rows, and collected
    from there.

    ids int64: own rows that each place of a window has, the oldest first; nodes: number of all own rows.
    """

    def __init__(self, ids: list[Tensor], nodes: int) -> None:
        self._ids, self._nodes = ids, nodes
        self._fresh: list[Tensor] = []  # of each place, rows that the place before it has not
        for place, own in enumerate(ids):
            new = torch.ones(nodes, dtype=torch.bool, device=own.device)
            new[ids[place - 1] if place else own[:0]] = False
            self._fresh.append(torch.nonzero(new[own]).squeeze(1))  # once an epoch
        self._kept: dict[tuple[int, int], list[Tensor]] = {}

    def forget(self) -> None:
        self._kept.clear()

    def initial(self, step: int, layer: int, before: list[Tensor] | None) -> list[Tensor] | None:
        inherited = self._kept.get((step, layer))
        like = before if before is not None else inherited
        if like is None:
            return None
        whole = [part.new_zeros(self._nodes, part.shape[1]) for part in like]
        for ids, parts in ((self._ids[step][self._fresh[step]], inherited), (self._ids[step - 1], before)):
            if parts is not None:
                whole = [all_rows.index_copy(0, ids, part) for all_rows, part in zip(whole, parts, strict=True)]
        return [part.index_select(0, self._ids[step]) for part in whole]

    def keep(self, step: int, layer: int, after: list[Tensor]) -> None:
        self._kept[step, layer] = [part.detach()[self._fresh[step]] for part in after]
