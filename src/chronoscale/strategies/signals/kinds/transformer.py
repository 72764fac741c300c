"""A transformer over nodes, after ST-LLM."""

from __future__ import annotations

from chronoscale.errors import UserError
from chronoscale.strategies.signals.kinds.base import ForecasterKind, ForecasterWork, GraphOperations
from chronoscale.strategies.workload import ModelChoice, ModelShape


class NodeTransformer(ForecasterKind):
    """Transformer whose tokens are nodes, as planners count it (its code: `real_exec.signals.forecast.transformer`); of the calendar it
    reads the last step."""

    name = "st-transformer"
    source = "after ST-LLM; Liu et al., 2024 (arXiv 2401.10134)"
    spatial = "attention"
    clock = True
    stacks = True

    def check(self, choice: ModelChoice, window: int, horizon: int) -> None:
        super().check(choice, window, horizon)
        if choice.hidden % choice.heads:
            raise UserError(f"forecaster '{self.name}': hidden must be a multiple of heads, got {choice.hidden} and {choice.heads}")

    def parameters(self, shape: ModelShape, nodes: int, window: int, horizon: int) -> int:
        hidden, calendar = shape.hidden, shape.calendar
        tokens = window * (shape.inputs - calendar) + 1 + nodes + calendar + 1
        return (tokens + shape.layers * (12 * hidden + 13) + 2) * hidden + (hidden + 1) * horizon

    def work(self, shape: ModelShape, graph: GraphOperations, window: int, horizon: int) -> ForecasterWork:
        """Count the work of a forward pass, a window; attention keeps no N x N matrix."""
        wide, nodes = shape.hidden, graph.nodes
        norm = graph.elementwise(wide + 2, wide)
        attention = ForecasterWork(4 * nodes**2 * wide, 3 * nodes * wide) + graph.elementwise(wide + shape.heads)
        block = (
            norm
            + graph.product(wide, 3 * wide)
            + graph.elementwise(3 * wide)
            + attention
            + graph.product(wide, wide)
            + graph.elementwise(wide, wide)
        )
        block += norm + graph.product(wide, 4 * wide) + graph.elementwise(4 * wide) + graph.elementwise(4 * wide, 4 * wide)
        block += graph.product(4 * wide, wide) + graph.elementwise(wide, wide)
        read = window * (shape.inputs - shape.calendar)
        tokens = graph.elementwise(read, read) + graph.product(read, wide) + graph.elementwise(wide, wide)
        clock = graph.product(shape.calendar, wide)
        return tokens + clock + block * shape.layers + norm + graph.product(wide, horizon)
