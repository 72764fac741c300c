"""Tree: the sampled neighbourhood that a batch's roots are computed from, level by level, on the device."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Hop(NamedTuple):
    """One level of a batch's sampled neighbourhood on a rank's device: up to K earlier events (slots) of each of T target nodes.

    slot int64 [T, K]: row among the next level's targets, 0 for an empty slot; there bool [T, K]: filled slots, first, in the order of
    their events; elapsed float32 [T, K]: time of the target less that of the event; edge float32 [T, K, De]: features of the events.
    filled: number of filled slots. weight float32 [T, K], above 0: how many events a slot stands for; None: 1 each. An empty slot is not
    read, but has to be finite.
    """

    slot: Tensor
    there: Tensor
    elapsed: Tensor
    edge: Tensor | None = None
    filled: int = 0
    weight: Tensor | None = None


class Tree(NamedTuple):
    """Sampled neighbourhood of a batch's roots (nodes to embed), level by level, on a rank's device; models of windows have one for each
    window, oldest first.

    levels: L + 1 of int64 [T_k], T_k at least 1, the row of the batch's nodes that each target of the level is; level 0 are the roots.
    hops: L, of which hop k joins level k to level k + 1. names: L + 1 of int64 [T_k], equal for equal nodes; None: levels are, for a batch
    has each node once.
    """

    levels: list[Tensor]
    hops: list[Hop]
    names: list[Tensor] | None = None
