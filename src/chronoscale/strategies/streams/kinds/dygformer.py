"""DyGFormer: a transformer over the latest events of both ends of a pair, which knows which neighbours these have in common."""

from __future__ import annotations

from chronoscale.strategies.streams.kinds.base import PATCHES, StreamKind, StreamShape
from chronoscale.strategies.streams.kinds.operations import Count, Work, passes, product, total

BLOCKS = 2  # of the transformer
WIDER = 4  # the inner width of its perceptrons, in its own


class DyGFormer(StreamKind):
    """DyGFormer, as planners count it: a root's latest events are read into channels, and each scored pair of roots goes through a
    transformer."""

    name = "dygformer"
    source = "Yu et al.; NeurIPS 2023"
    spatial = PATCHES
    clock = True
    edges = True
    by_slot = True

    @property
    def attends(self) -> bool:
        return True

    def parameters(self, shape: StreamShape) -> int:
        channel, wide = shape.hidden, channels(shape) * shape.hidden
        counted = 2 * channel + (channel + 1) * channel + (shape.patch * channel + 1) * channel
        perceptron = 2 * WIDER * wide * wide + (WIDER + 1) * wide
        block = 3 * (wide + 1) * wide + (wide + 1) * wide + perceptron + 4 * wide
        return counted + BLOCKS * block + (wide + 1) * channel

    def layer_parameters(self, shape: StreamShape, layer: int) -> int:
        widths = (shape.width(layer), shape.time, *[shape.slot] * (shape.slot > 0))
        return sum((shape.patch * width + 1) * shape.hidden for width in widths)

    def layer(self, shape: StreamShape, layer: int, targets: Count, fanout: int, edges: Count | None = None) -> Work:
        widths = (shape.width(layer), shape.time, *[shape.slot] * (shape.slot > 0))
        places, patches = targets * shape.patches * shape.patch, targets * shape.patches
        read = total(passes(places * sum(widths), 4), passes(places * shape.time, 2), passes(places, 3))
        return total(read, *(product(patches, shape.patch * width, shape.hidden) for width in widths))

    def score(self, shape: StreamShape, pairs: Count, sources: Count) -> Work:
        channel, heads, places = shape.hidden, shape.heads, shape.patches * shape.patch
        wide, tokens, many = channels(shape) * channel, 2 * shape.patches, 2 * shape.patches * pairs
        table = total(
            product(places + 1, 1, channel), product(places + 1, channel, channel), product(shape.patch * (places + 1), channel, channel)
        )
        common = total(passes(pairs * 4 * places * places), passes(many * shape.patch * 2 * channel))
        attention = Work(4 * many * tokens * wide, 4 * many * wide + 2 * many * heads * tokens)
        perceptron = total(product(many, wide, WIDER * wide), product(many, WIDER * wide, wide), passes(many * wide, 2 * WIDER))
        block = total(product(many, wide, 3 * wide), attention, product(many, wide, wide), perceptron, passes(many * wide, 12))
        scores = super().score(shape, pairs, pairs)
        return total(table, common, *[block] * BLOCKS, passes(many * wide), product(2 * pairs, wide, channel), scores)


def channels(shape: StreamShape) -> int:
    """Return how many channels of `hidden` values a token has: of the node, of its event unless events have nothing, of the time, and of
    common neighbours."""
    return 3 + (shape.slot > 0)
