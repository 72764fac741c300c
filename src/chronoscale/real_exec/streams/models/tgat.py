"""TGAT: temporal attention over features (Xu et al.: Inductive Representation Learning on Temporal Graphs, ICLR 2020)."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from chronoscale.real_exec.streams.models.attention import TemporalAttention
from chronoscale.real_exec.streams.models.base import StreamModel
from chronoscale.real_exec.streams.models.clock import Clock
from chronoscale.real_exec.streams.tree import Tree
from chronoscale.strategies.streams.models import StreamShape


class TGAT(StreamModel):
    """Model `tgat` of event streams: layers of temporal attention, which see one clock, as in its code; TGL has a clock for each layer.

    A neighbour's row of a deeper layer is that of the moment of its event (TGAT §3.2): whoever makes the tree sees to it. Features that are
    drawn at random stand for missing ones; the code has zeros there, and so sees nothing but times.
    """

    def __init__(self, shape: StreamShape, dropout: float) -> None:
        super().__init__(shape)
        self.clock = Clock(shape.time, shape.clock)
        self.layers = nn.ModuleList(
            TemporalAttention(shape.width(layer), shape.slot, shape.time, shape.hidden, shape.heads, dropout)
            for layer in range(shape.layers)
        )

    def standardise(self, mean: float, deviation: float) -> None:
        self.clock.set_unit(deviation)

    def layer(self, number: int, below: list[Tensor], tree: Tree) -> list[Tensor]:
        attend = cast(TemporalAttention, self.layers[number])
        levels = zip(below[:-1], below[1:], tree.hops, strict=False)
        return [attend(target, source, hop, self.clock, self.operators) for target, source, hop in levels]
