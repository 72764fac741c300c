"""STID: embeddings of a node's window, of the node and of the time, through a perceptron."""

from __future__ import annotations

from types import MappingProxyType

from chronoscale.strategies.signals.kinds.base import ForecasterKind, ForecasterWork, GraphOperations
from chronoscale.strategies.workload import ModelShape


class STID(ForecasterKind):
    """STID, as planners count it (its code: `real_exec.signals.forecast.stid`); it reads no graph, of the calendar every step, and the last
    one by its tables. `hidden` is the width of each embedding, of which there are two and one for each channel of the calendar."""

    name = "stid"
    source = "Shao, Zhang, Wang, Wei, Xu; CIKM 2022 (arXiv 2208.05233)"
    clock = True
    stacks = True
    tables = True
    published = MappingProxyType({"hidden": 32, "layers": 3, "dropout": 0.15})

    def parameters(self, shape: ModelShape, nodes: int, window: int, horizon: int) -> int:
        hidden, wide = shape.hidden, (2 + shape.calendar) * shape.hidden
        embeddings = (window * shape.inputs + 1 + nodes + shape.calendar * shape.times) * hidden
        return embeddings + shape.layers * 2 * (wide + 1) * wide + (wide + 1) * horizon

    def work(self, shape: ModelShape, graph: GraphOperations, window: int, horizon: int) -> ForecasterWork:
        hidden, calendar, wide = shape.hidden, shape.calendar, (2 + shape.calendar) * shape.hidden
        read = window * shape.inputs
        series = graph.elementwise(read, read) + graph.product(read, hidden)
        times = graph.elementwise(2 * calendar, calendar) + ForecasterWork(0, graph.nodes * 2 * calendar * hidden)  # numbers, int64
        identities = graph.elementwise(wide, wide)  # beside each other
        drops = shape.dropout > 0
        layer = graph.product(wide, wide) * 2 + graph.elementwise(wide, wide) * (2 + drops) + graph.elementwise(drops * wide // 4)
        return series + times + identities + layer * shape.layers + graph.product(wide, horizon)
