"""Graph WaveNet: gated, dilated convolutions in time; diffusion, and a matrix that is learnt, between sensors."""

from __future__ import annotations

from types import MappingProxyType

from chronoscale.errors import UserError
from chronoscale.strategies.signals.kinds.base import ForecasterKind, ForecasterWork, GraphOperations
from chronoscale.strategies.workload import ModelChoice, ModelShape

DILATIONS = (1, 2)  # of a block's layers
EMBEDDING = 10  # values of a sensor, of which the matrix is made that is learnt
SKIP, END = 8, 16  # widths behind the layers, in hidden widths: 256 and 512 as published


def dilation(layer: int) -> int:
    """Return how many steps apart the two steps are that a layer (from 0) of Graph WaveNet reads."""
    return DILATIONS[layer % len(DILATIONS)]


def receptive_field(layers: int) -> int:
    """Return how many steps so many layers of Graph WaveNet read, the last one among them."""
    return 1 + sum(dilation(layer) for layer in range(layers))


class GraphWaveNet(ForecasterKind):
    """Graph WaveNet, as planners count it (its code: `real_exec.signals.forecast.graph_wavenet`)."""

    name = "graph-wavenet"
    source = "Wu, Pan, Long, Jiang, Zhang; IJCAI 2019 (arXiv 1906.00121)"
    spatial = "diffusion"
    temporal = "convolution"
    stacks = True
    published = MappingProxyType({"hidden": 32, "layers": 8, "dropout": 0.3})

    def least_layers(self, window: int) -> int:
        return next(layers for layers in range(1, window + 1) if receptive_field(layers) >= window)

    def spans(self, layers: int) -> int:
        return sum(1 + sum(dilation(later) for later in range(layer + 1, layers)) for layer in range(layers))

    def check(self, choice: ModelChoice, window: int, horizon: int) -> None:
        super().check(choice, window, horizon)
        read = receptive_field(choice.layers)
        if read < window:
            raise UserError(
                f"forecaster '{self.name}': layers: {choice.layers} read the last {read} of a window's {window} steps; layers: "
                f"{self.least_layers(window)} read all"
            )

    def parameters(self, shape: ModelShape, nodes: int, window: int, horizon: int) -> int:
        hidden, above = shape.hidden, shape.layers - 1
        skip, end, terms = SKIP * hidden, END * hidden, 1 + 3 * shape.hops
        layers = shape.layers * (2 * hidden + 1) * 2 * hidden + above * (terms * hidden + 3) * hidden
        ends = (shape.layers * hidden + 1) * skip + (skip + 1) * end + (end + 1) * horizon
        return (shape.inputs + 1) * hidden + layers + 2 * nodes * EMBEDDING + ends

    def work(self, shape: ModelShape, graph: GraphOperations, window: int, horizon: int) -> ForecasterWork:
        """Count the work of a forward pass, a window; of the matrix that is learnt, what is moved and kept once a batch."""
        hidden, hops, layers = shape.hidden, shape.hops, shape.layers
        square = graph.nodes**2
        total = (graph.elementwise(shape.inputs, shape.inputs) + graph.product(shape.inputs, hidden)) * receptive_field(layers)
        total += ForecasterWork(0, 0, 0, 5 * square, 2 * square)  # a product, its relu, the softmax of that
        gated = graph.elementwise(2 * hidden, 2 * hidden) + graph.product(2 * hidden, 2 * hidden)
        gated += graph.elementwise(hidden, hidden) * 2 + graph.elementwise(hidden, 2 * hidden)
        power = ForecasterWork(2 * square * hidden, 2 * graph.nodes * hidden, 0, square)
        learnt = power * hops + graph.elementwise(hidden) * (hops - 1) + graph.elementwise(hops * hidden, hops * hidden)
        mixed = learnt + graph.product(hops * hidden, hidden) + graph.convolution(hidden, hidden)
        mixed += graph.elementwise(hidden, 2 * hidden)  # the residual
        mixed += graph.elementwise(hidden, 2 * hidden) + ForecasterWork(0, graph.nodes * 2 * hidden)  # its normalisation
        if shape.dropout:
            mixed += graph.elementwise(hidden // 4, hidden) + ForecasterWork(0, graph.nodes * hidden)  # a mask has a byte a value
        total += gated * self.spans(layers) + mixed * (self.spans(layers) - 1)  # the last layer has one step, and no convolution
        read, skip, end = layers * hidden, SKIP * hidden, END * hidden
        ends = graph.elementwise(read, read) + graph.product(read, skip) + graph.elementwise(skip, skip)
        return total + ends + graph.product(skip, end) + graph.elementwise(end, end) + graph.product(end, horizon)
