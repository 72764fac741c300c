"""GraphMixer (Cong et al.: Do We Really Need Complicated Model Architectures For Temporal Networks?, ICLR 2023)."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from chronoscale.real_exec.streams.models.base import StreamModel
from chronoscale.real_exec.streams.models.clock import Clock
from chronoscale.real_exec.streams.models.perceptron import Perceptron
from chronoscale.real_exec.streams.tree import Tree
from chronoscale.strategies.streams.kinds.graphmixer import WIDER
from chronoscale.strategies.streams.models import StreamShape


class FixedClock(Clock):
    """Encoding of elapsed times that is not trained (GraphMixer §3.1): cos(w_i t), w_i = a^(-(i - 1) / a), a the root of the width."""

    def __init__(self, width: int, scale: str) -> None:
        super().__init__(width, scale)
        del self.frequency, self.phase
        base = width**0.5
        self.register_buffer("frequency", torch.from_numpy(base ** -(np.arange(width) / base)).float(), False)
        self.register_buffer("phase", torch.zeros(width), False)


class Mixer(nn.Module):
    """Layer of an MLP-Mixer (eq. 4): x + perceptron over slots of norm(x), then x + perceptron over channels of norm(x)."""

    def __init__(self, hidden: int, slots: int, share: float) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.slots, self.channels = Perceptron(slots, max(slots // 2, 1), share), Perceptron(hidden, WIDER * hidden, share)

    def forward(self, tokens: Tensor) -> Tensor:
        """Mix tokens [T, K, H]: map them to tokens of the same shape."""
        tokens = tokens + self.slots(self.before(tokens).transpose(1, 2)).transpose(1, 2)
        return cast(Tensor, tokens + self.channels(self.between(tokens)))


class GraphMixer(StreamModel):
    """Model `graphmixer` of event streams: what a root's K latest events tell, by an MLP-Mixer, beside what its neighbours are, on average.

    A token is an event, [features, cos(w t)] through a linear layer, t the time since it; the latest comes first, and zeros stand for an
    empty slot. After the mixer the mean is taken over all K (§3.1). The node's part is its own features and the mean of those of the
    sampled neighbours; the paper's mean is over all neighbours of the last T units of time, which are not sampled here (§3.2). Both, side
    by side, go through a linear layer, and the decoder's two layers score links (§3.3). On the scales `gaps` and `both`, tokens have the
    decibels of t beside its encoding, as slots of attention have. The paper's code normalises tokens once more, before their mean.
    """

    places: Tensor

    def __init__(self, shape: StreamShape, dropout: float) -> None:
        super().__init__(shape)
        hidden = shape.hidden
        self.clock = FixedClock(shape.time, shape.clock)
        self.token = nn.Linear(shape.slot + shape.time, hidden)
        self.mixer = Mixer(hidden, shape.slots, dropout)
        self.register_buffer("places", torch.arange(shape.slots), False)
        self.output = nn.Linear(hidden + shape.width(0), hidden)

    def standardise(self, mean: float, deviation: float) -> None:
        self.clock.set_unit(deviation)

    def layer(self, number: int, below: list[Tensor], tree: Tree) -> list[Tensor]:
        (target, source), hop = below, tree.hops[0]
        beside = [part for part in (hop.edge, self.clock.beside(hop.elapsed)) if part is not None]
        encoded = self.clock(hop.elapsed.flatten()).view(*hop.slot.shape, -1)
        empty, count = ~hop.there[:, :, None], hop.there.sum(1, keepdim=True)
        read = torch.cat([*beside, encoded], 2)
        order = (count - 1 - self.places).remainder(len(self.places))  # filled slots from the latest on, then empty ones
        tokens = self.token(read.gather(1, order[:, :, None].expand_as(read))).masked_fill(empty, 0)
        events = self.mixer(tokens).mean(1)
        rows = source.index_select(0, hop.slot.flatten()).view(*hop.slot.shape, -1).masked_fill(empty, 0)
        near = rows.sum(1) / count.clamp(min=1)
        return [self.output(torch.cat([events, target + near], 1))]
