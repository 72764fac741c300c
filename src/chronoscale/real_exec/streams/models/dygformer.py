"""DyGFormer (Yu et al.: Towards Better Dynamic Graph Learning: New Architecture and Unified Library, NeurIPS 2023)."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from chronoscale.real_exec.streams.models.base import StreamModel
from chronoscale.real_exec.streams.models.clock import Clock
from chronoscale.real_exec.streams.models.perceptron import Perceptron
from chronoscale.real_exec.streams.tree import Tree
from chronoscale.strategies.streams.kinds.dygformer import BLOCKS, WIDER, channels
from chronoscale.strategies.streams.models import StreamShape

PAIRS = 512  # scored at once without gradients


class Counts(nn.Module):
    """Channel of common neighbours (§4.1): how often a place's node stands in the own sequence and in the other, by a perceptron each,
    added; then the linear layer of its patch.

    A count is one of few: each is encoded once, at every place of a patch.
    """

    def __init__(self, places: int, patch: int, width: int) -> None:
        super().__init__()
        self.inner, self.outer, self.patches = nn.Linear(1, width), nn.Linear(width, width), nn.Linear(patch * width, width)
        self.patch, self.places = patch, places
        self.register_buffer("possible", torch.arange(places + 1.0)[:, None], False)

    def table(self) -> Tensor:
        """Return what each count of a place adds to its patch: float32 [patch * (places + 1), width], the counts of a patch's first place
        first."""
        encoded = self.outer(self.inner(self.possible).relu())
        of_places = self.patches.weight.view(-1, self.patch, encoded.shape[1])
        return torch.einsum("nc,wpc->pnw", encoded, of_places).reshape(-1, encoded.shape[1])

    def forward(self, names: Tensor, table: Tensor) -> Tensor:
        """Return the channel [N, 2, places / patch, width] of N pairs of sequences. names [N, 2, places]: different for different nodes, -1
        where there is none."""
        of_both = names[:, None].expand(-1, 2, -1, -1).flatten(2).contiguous()  # of both ends, to be counted in each sequence
        ordered = names.sort(2).values
        counts = torch.searchsorted(ordered, of_both, right=True) - torch.searchsorted(ordered, of_both)
        counts = (counts * (of_both >= 0)).unflatten(2, (2, -1)).transpose(1, 2)  # [N, 2 ends, 2 sequences, places]
        row = counts + (self.places + 1) * (torch.arange(self.places, device=names.device) % self.patch)
        bags = row.view(len(names), 2, 2, -1, self.patch).transpose(2, 3).reshape(-1, 2 * self.patch)
        added = functional.embedding_bag(bags, table, mode="sum") + self.patches.bias
        return added.view(len(names), 2, -1, added.shape[1])


class Block(nn.Module):
    """Block of the transformer (eq. 5), normalised before each part: x + attention(norm(x)), then x + perceptron(norm(x))."""

    def __init__(self, width: int, heads: int, share: float) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.attended = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.perceptron, self.heads, self.share = Perceptron(width, WIDER * width, share), heads, share

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens [N, T, W], each of which attends to all of its row, to tokens of the same shape."""
        query, key, value = (
            part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.query_key_value(self.before(tokens)).chunk(3, 2)
        )
        share = self.share if self.training else 0.0
        attended = functional.scaled_dot_product_attention(query, key, value, dropout_p=share)
        tokens = tokens + functional.dropout(self.attended(attended.transpose(1, 2).flatten(2)), self.share, self.training)
        return cast(Tensor, tokens + self.perceptron(self.between(tokens)))


class DyGFormer(StreamModel):
    """Model `dygformer` of event streams: it scores a pair of nodes by the latest events of both, and by which neighbours they share.

    A node's sequence is the node itself and the other ends of its K latest events, in their order; then empty places, which are zeros, up
    to a multiple of `patch`. A place has a node's features, an event's, the encoded time since then, and how often its node stands in both
    sequences; each of these channels of a patch goes through a linear layer to `hidden` values. All patches of both sequences go through
    two blocks of a transformer; the mean over an end's patches, through a linear layer, is its embedding in this pair (§4.1 to 4.3).

    As in its code, empty places are not masked, and places have no order but that in a patch; there, sequences are as long as the longest
    of a batch, here as K allows. What `layer` returns of a root is its sequence, from which `score` goes on: [patches * channels, then the
    names of its nodes in this batch, as numbers]. On the scales `gaps` and `both`, events have the decibels of elapsed time beside them.
    """

    def __init__(self, shape: StreamShape, dropout: float) -> None:
        super().__init__(shape)
        width, patch = shape.hidden, shape.patch
        wide = channels(shape) * width
        self.clock = Clock(shape.time, shape.clock)
        self.nodes = nn.Linear(patch * shape.width(0), width)
        self.events = nn.Linear(patch * shape.slot, width) if shape.slot else None
        self.times = nn.Linear(patch * shape.time, width)
        self.counts = Counts(shape.patches * patch, patch, width)
        self.blocks = nn.Sequential(*(Block(wide, shape.heads, dropout) for _ in range(BLOCKS)))
        self.output = nn.Linear(wide, width)

    def standardise(self, mean: float, deviation: float) -> None:
        self.clock.set_unit(deviation)

    def layer(self, number: int, below: list[Tensor], tree: Tree) -> list[Tensor]:
        (target, source), hop = below, tree.hops[0]
        empty = ~hop.there[:, :, None]
        rows = source.index_select(0, hop.slot.flatten()).view(*hop.slot.shape, -1).masked_fill(empty, 0)
        encoded = self.clock(hop.elapsed.flatten()).view(*hop.slot.shape, -1).masked_fill(empty, 0)
        own = self.clock.zero().expand(len(target), 1, -1)
        read = [self.nodes(self._patches(target[:, None], rows)), self.times(self._patches(own, encoded))]
        if self.events is not None:
            parts = [part for part in (hop.edge, self.clock.beside(hop.elapsed)) if part is not None]
            beside = torch.cat(parts, 2).masked_fill(empty, 0)
            read.append(self.events(self._patches(beside.new_zeros(len(target), 1, beside.shape[2]), beside)))
        root, near = tree.names or tree.levels
        names = torch.cat([root[:, None], near[hop.slot].masked_fill(~hop.there, -1)], 1)
        names = functional.pad(names, (0, self.counts.places - names.shape[1]), value=-1)
        return [torch.cat([torch.cat(read, 2).flatten(1), names.to(target.dtype)], 1)]

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        """Return logits [B, n] of links from sequences src [B, X] to each of dst [B, n, X], as `layer` returns them."""
        table, size = self.counts.table(), len(src) if torch.is_grad_enabled() else max(PAIRS // dst.shape[1], 1)
        parts = zip(src.split(size), dst.split(size), strict=True)
        return torch.cat([self._score(table, *part) for part in parts])

    def _score(self, table: Tensor, src: Tensor, dst: Tensor) -> Tensor:
        pairs = torch.stack([src[:, None].expand_as(dst), dst], 2).flatten(0, 1)
        read, names = pairs.split([pairs.shape[2] - self.counts.places, self.counts.places], 2)
        tokens = torch.cat([read.unflatten(2, (self.shape.patches, -1)), self.counts(names, table)], 3)
        embedded = self.output(self.blocks(tokens.flatten(1, 2)).view_as(tokens).mean(2))
        return super().score(embedded[:, 0], embedded[:, 1:]).view(dst.shape[:2])

    def _patches(self, own: Tensor, near: Tensor) -> Tensor:
        """Return values of all places, patch by patch [T, patches, patch * D], from the node's own [T, 1, D] and its neighbours'."""
        whole = torch.cat([own, near], 1)
        whole = functional.pad(whole, (0, 0, 0, self.counts.places - whole.shape[1]))
        return whole.view(len(whole), self.shape.patches, -1)
