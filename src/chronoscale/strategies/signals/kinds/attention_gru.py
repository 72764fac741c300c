"""A3T-GCN: T-GCN over the window, attention over its states."""

from __future__ import annotations

from chronoscale.strategies.signals.kinds.base import DENSE_NODES, ForecasterKind, ForecasterWork, GraphOperations
from chronoscale.strategies.workload import ModelShape


class A3TGCN(ForecasterKind):
    """A3T-GCN, as planners count it (its code: `real_exec.signals.forecast.a3t`): the paper's model, or the published cell."""

    name = "a3t-gcn"
    source = "Bai, Zhu, Song, Zhao et al., 2021 (arXiv 2006.11583)"
    spatial = "gcn"
    temporal = "gru"

    def parameters(self, shape: ModelShape, nodes: int, window: int, horizon: int) -> int:
        hidden = shape.hidden
        readout = (hidden + 1) * horizon
        if shape.published:
            return 3 * (shape.inputs + 2 * hidden + 2) * hidden + window + readout
        return (shape.inputs + hidden) * hidden + 3 * (2 * hidden + 1) * hidden + hidden + nodes + readout

    def work(self, shape: ModelShape, graph: GraphOperations, window: int, horizon: int) -> ForecasterWork:
        wide, inputs, nodes = shape.hidden, shape.inputs, graph.nodes
        read = _neighbour_sum(graph, inputs) + graph.elementwise(inputs, inputs)
        first = graph.elementwise(wide, wide) * 2 + graph.elementwise(wide, 3 * wide)
        context, readout = ForecasterWork(0, 3 * nodes * wide), graph.product(wide, horizon)
        if shape.published:
            gates = read + graph.product(inputs, 3 * wide)
            return (gates + first + context) * window + graph.elementwise(wide, wide) + readout
        convolved = graph.product(inputs, wide) + graph.elementwise(wide, wide) + _neighbour_sum(graph, wide) + graph.elementwise(wide)
        convolved += graph.product(wide, wide) + graph.elementwise(wide, wide)
        later = graph.product(wide, 3 * wide) + graph.elementwise(2 * wide, 2 * wide) + graph.elementwise(wide, 2 * wide)
        later += graph.elementwise(wide, wide) + graph.elementwise(wide, 3 * wide)
        score = graph.product(wide, 1) + graph.elementwise(1) + ForecasterWork(2 * nodes, nodes + 2, 1, nodes)
        every = read + convolved + graph.product(wide, 3 * wide) + score + context
        return every * window + first + later * (window - 1) + graph.elementwise(wide) + readout


def _neighbour_sum(graph: GraphOperations, width: int) -> ForecasterWork:
    """Count the work of a sum over each node's neighbours and itself, `width` values a node."""
    entries = graph.nodes**2 if graph.nodes <= DENSE_NODES else graph.edges + graph.nodes
    return ForecasterWork(2 * entries * width, 2 * graph.nodes * width, 0, entries)
