"""A3T-GCN: T-GCN over the window, attention over its states."""

from __future__ import annotations

from chronoscale.strategies.signals.kinds.base import DENSE_NODES, ForecasterKind, ForecasterWork, GraphOperations
from chronoscale.strategies.workload import ModelShape


class A3TGCN(ForecasterKind):
    """A3T-GCN, as planners count it (its code: `real_exec.signals.forecast.a3t`)."""

    name = "a3t-gcn"
    source = "Zhu et al., 2020 (arXiv 2006.11583)"
    spatial = "gcn"
    temporal = "gru"

    def parameters(self, shape: ModelShape, nodes: int, window: int, horizon: int, published: bool) -> int:
        hidden = shape.hidden
        return 3 * (shape.inputs + 2 * hidden + 2) * hidden + window + (hidden + 1) * horizon

    def work(self, shape: ModelShape, graph: GraphOperations, window: int, horizon: int) -> ForecasterWork:
        wide, inputs, nodes = shape.hidden, shape.inputs, graph.nodes
        entries = nodes**2 if nodes <= DENSE_NODES else graph.edges + nodes
        gates = (
            ForecasterWork(2 * entries * inputs, 2 * nodes * inputs, 0, entries)
            + graph.elementwise(inputs, inputs)
            + graph.product(inputs, 3 * wide)
        )
        first = graph.elementwise(wide, wide) * 2 + graph.elementwise(wide, 3 * wide)
        later = graph.product(wide, 3 * wide) + graph.elementwise(2 * wide, 2 * wide) + graph.elementwise(wide, 2 * wide)
        later += graph.elementwise(wide, wide) + graph.elementwise(wide, 3 * wide)
        attention = ForecasterWork(0, 3 * nodes * wide) * window
        return gates * window + first + later * (window - 1) + attention + graph.elementwise(wide, wide) + graph.product(wide, horizon)
