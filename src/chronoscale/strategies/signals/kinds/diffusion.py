"""DCRNN and the single layer of it that PGT-I trains: recurrent networks with diffusion convolution."""

from __future__ import annotations

from chronoscale.errors import UserError
from chronoscale.strategies.signals.kinds.base import ForecasterKind, ForecasterWork, GraphOperations
from chronoscale.strategies.workload import ModelChoice, ModelShape


class DCRNN(ForecasterKind):
    """DCRNN, as planners count it (its code: `real_exec.signals.forecast.dcrnn`): an encoder and a decoder of diffusion GRU layers."""

    name = "dcrnn"
    source = "Li, Yu, Shahabi, Liu; ICLR 2018; encoder-decoder"
    spatial = "diffusion"
    temporal = "gru"
    stacks = True
    decodes = True

    def parameters(self, shape: ModelShape, nodes: int, window: int, horizon: int) -> int:
        terms = 2 * (shape.hops + 1) if shape.published else 1 + 2 * shape.hops
        hidden = shape.hidden

        def stack(inputs: int) -> int:
            """Return the parameters of recurrent layers: each has three gates on input and state."""
            return sum((terms * ((hidden if layer else inputs) + hidden) + 1) * 3 * hidden for layer in range(shape.layers))

        return stack(shape.inputs) + (stack(1) if self.decodes else 0) + hidden + 1

    def work(self, shape: ModelShape, graph: GraphOperations, window: int, horizon: int) -> ForecasterWork:
        wide, terms = shape.hidden, graph.terms

        def narrow(inputs: int) -> ForecasterWork:
            """Count the work on the first layer's input: diffused, saved, multiplied for three gates."""
            return graph.diffusion(inputs) + graph.elementwise(terms * inputs, terms * inputs) + graph.product(terms * inputs, 3 * wide)

        first = (
            graph.elementwise(wide, wide) + graph.elementwise(wide, wide) + graph.elementwise(wide, 3 * wide)
        )  # update gate, candidate, state
        later = graph.convolution(wide, 2 * wide) + graph.convolution(wide, wide)
        later += (
            graph.elementwise(2 * wide, 2 * wide)
            + graph.elementwise(wide, 2 * wide)
            + graph.elementwise(wide, wide)
            + graph.elementwise(wide, 3 * wide)
        )
        upper = graph.convolution(wide, 3 * wide) * (shape.layers - 1)
        encoder = (narrow(shape.inputs) + upper) * window + (first + later * (window - 1)) * shape.layers
        readout = graph.product(wide, 1) * horizon
        if not self.decodes:
            return encoder + readout
        return encoder + (narrow(1) + upper + later * shape.layers) * horizon + readout


class PgtDCRNN(DCRNN):
    """The model that PGT-I trains, as planners count it: one diffusion GRU layer, whose last states are read out."""

    name = "pgt-dcrnn"
    source = "PGT-I §3.1; the single recurrent layer of PyTorch Geometric Temporal's examples"
    stacks = False
    decodes = False

    def check(self, choice: ModelChoice, window: int, horizon: int) -> None:
        super().check(choice, window, horizon)
        if horizon > window:
            raise UserError(f"forecaster '{self.name}' predicts at most window = {window} steps, got horizon: {horizon}; use 'dcrnn'")
