"""GraphMixer: a perceptron over a node's latest events, and the mean of its latest neighbours."""

from __future__ import annotations

from chronoscale.strategies.streams.kinds.base import StreamKind, StreamShape
from chronoscale.strategies.streams.kinds.operations import Count, Work, passes, product, total

WIDER = 4  # the inner width of a perceptron over channels, in hidden widths; over slots it is half of them


class GraphMixer(StreamKind):
    """GraphMixer, as planners count it: an MLP-Mixer over the slots of a root's latest events, without a memory and without attention."""

    name = "graphmixer"
    source = "Cong et al.; ICLR 2023"
    spatial = "mixer"
    clock = True
    trains_clock = False
    edges = True
    by_slot = True

    @property
    def drops(self) -> bool:
        return True

    def layer_parameters(self, shape: StreamShape, layer: int) -> int:
        hidden, slots, width = shape.hidden, shape.slots, shape.width(layer)
        inner, wide = max(slots // 2, 1), WIDER * hidden
        mixers = 2 * slots * inner + slots + inner + 2 * hidden * wide + hidden + wide + 4 * hidden
        return (shape.slot + shape.time + 1) * hidden + mixers + (hidden + width + 1) * hidden

    def layer(self, shape: StreamShape, layer: int, targets: Count, fanout: int, edges: Count | None = None) -> Work:
        hidden, width, slots = shape.hidden, shape.width(layer), targets * fanout
        inner = max(fanout // 2, 1)
        read = total(passes(slots * shape.time, 4), passes(slots * (shape.time + shape.slot), 2), passes(slots * width, 3))
        tokens = total(product(slots, shape.slot + shape.time, hidden), passes(slots * hidden, 3))
        across = total(
            product(targets * hidden, fanout, inner), product(targets * hidden, inner, fanout), passes(targets * hidden * inner, 2)
        )
        along = total(product(slots, hidden, WIDER * hidden), product(slots, WIDER * hidden, hidden), passes(slots * hidden, 2 * WIDER))
        mixed = total(across, along, passes(slots * hidden, 12))
        return total(read, tokens, mixed, passes(slots * hidden), product(targets, hidden + width, hidden))
