"""Forecasters of signals by name: what they are made of, how large they are, and the work of their forward pass.

Their code is `real_exec.signals.forecast`. Work is counted as that code does it, per window; values are fp32.
N nodes, C channels, H hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from chronoscale.errors import UserError, unknown
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.workload import ModelChoice, ModelShape

Count = TypeVar("Count", int, Ints)

DENSE_NODES = 512  # up to here all diffusion steps are one dense matrix; above, sparse products step by step


class ForecasterModel(NamedTuple):
    """What a forecaster of signals consists of, in the table by which plans count its work: `spatial` diffusion, gcn or attention,
    `temporal` gru or none. source: its paper.

    All read every value at every step of a window; of the calendar every step, or, with `clock`, the last one, which they cannot do
    without.
    """

    spatial: str
    temporal: str
    source: str
    clock: bool = False


FORECASTERS: Mapping[str, ForecasterModel] = {
    "dcrnn": ForecasterModel("diffusion", "gru", "Li, Yu, Shahabi, Liu; ICLR 2018; encoder-decoder"),
    "pgt-dcrnn": ForecasterModel("diffusion", "gru", "PGT-I §3.1; the single recurrent layer of PyTorch Geometric Temporal's examples"),
    "a3t-gcn": ForecasterModel("gcn", "gru", "Zhu et al., 2020 (arXiv 2006.11583)"),
    "st-transformer": ForecasterModel("attention", "none", "after ST-LLM; Liu et al., 2024 (arXiv 2401.10134)", clock=True),
}


@dataclass(frozen=True, slots=True)
class ForecasterWork:
    """Counted work of a forecaster's forward pass, for cost models. For each window: `flops`, fp32 values `moved` through memory, values
    `saved` for the backward pass; once for a batch: values `fixed` that are read (weights, the graph)."""

    flops: int = 0
    moved: int = 0
    saved: int = 0
    fixed: int = 0

    def __add__(self, other: ForecasterWork) -> ForecasterWork:
        return ForecasterWork(self.flops + other.flops, self.moved + other.moved, self.saved + other.saved, self.fixed + other.fixed)

    def __mul__(self, times: int) -> ForecasterWork:
        return ForecasterWork(self.flops * times, self.moved * times, self.saved * times, self.fixed * times)


@dataclass(frozen=True, slots=True)
class GraphOperations:
    """Counts of the work of a forecaster's operations on a sensor graph, for cost models; each operation reads its operands from memory and
    writes its result once. hops: diffusion steps."""

    nodes: int
    edges: int
    hops: int

    @property
    def terms(self) -> int:
        """The number of diffusion terms: the signal itself, and each of its diffusions in both directions."""
        return 1 + 2 * self.hops

    def diffusion(self, width: int) -> ForecasterWork:
        """Count the work of `hops` diffusion steps in both directions, on `width` values a node."""
        dense = self.nodes <= DENSE_NODES
        entries = self.nodes**2 if dense else self.edges
        moved = width * self.nodes * (self.terms if dense else 4 * self.hops)
        return ForecasterWork(
            4 * self.hops * entries * width, moved, 0, 2 * self.hops * entries * (1 if dense else 3)
        )  # int64 column, value

    def product(self, inner: int, outer: int) -> ForecasterWork:
        """Count the work of all nodes' rows times a matrix [inner, outer], added to a result that is there."""
        return ForecasterWork(2 * self.nodes * inner * outer, self.nodes * (inner + 2 * outer), 0, inner * outer)

    def convolution(self, inner: int, outer: int) -> ForecasterWork:
        """Count the work of a diffusion convolution, `inner` to `outer` values a node; the backward pass needs only its input, which is
        counted where it is computed."""
        return self.diffusion(inner) + self.product(self.terms * inner, outer)

    def elementwise(self, width: int, read: int = 0) -> ForecasterWork:
        """Count the work of an elementwise result, `width` values a node, that is saved for the backward pass and computed from `read`
        values a node."""
        return ForecasterWork(0, self.nodes * (width + read), self.nodes * width)


def forecaster_shape(
    choice: ModelChoice, nodes: int, channels: int, window: int = 12, horizon: int = 12, variant: str = "exact", calendar: int = 0
) -> ModelShape:
    """Return the sizes of a forecaster of signals, for planning. channels: values of a sensor a step, of which the last `calendar` tell the
    time; window, horizon: steps read and predicted; variant: "exact" or "as-published", which differ in `parameters`.

    Raises UserError for an unknown name (with the nearest), for sizes that it cannot have, and where it reads a calendar that is not there.
    """
    name = choice.name
    hidden = choice.hidden
    layers = choice.layers
    hops = choice.hops
    heads = choice.heads
    if name not in FORECASTERS:
        raise unknown("forecaster", name, FORECASTERS)
    if min(nodes, channels, hidden, layers, window, horizon, hops, heads) < 1:
        raise UserError(f"forecaster '{name}': nodes, channels, hidden, layers, window, horizon, hops and heads must be at least 1")
    if name == "st-transformer" and hidden % heads:
        raise UserError(f"forecaster '{name}': hidden must be a multiple of heads, got {hidden} and {heads}")
    if name in ("pgt-dcrnn", "a3t-gcn"):
        if layers > 1:
            raise UserError(f"forecaster '{name}' has one recurrent layer, got layers: {layers}")
        if name == "pgt-dcrnn" and horizon > window:
            raise UserError(f"forecaster '{name}' predicts at most window = {window} steps, got horizon: {horizon}; use 'dcrnn'")
    spatial, temporal, _, clock = FORECASTERS[name]
    if clock and not calendar:
        raise UserError(
            f"forecaster '{name}' reads the time of day, and no channel of the signal tells it: add one by dataset: {{time_of_day: STEPS A "
            "DAY}, or say by dataset: {calendar: N} that the last N channels tell the time"
        )
    terms = 2 * (hops + 1) if variant == "as-published" else 1 + 2 * hops

    def stack(inputs: int) -> int:
        """Return the parameters of recurrent layers: each has three gates on input and state."""
        return sum((terms * ((hidden if layer else inputs) + hidden) + 1) * 3 * hidden for layer in range(layers))

    parameters = stack(channels) + (stack(1) if name == "dcrnn" else 0) + hidden + 1
    if name == "a3t-gcn":
        parameters = 3 * (channels + 2 * hidden + 2) * hidden + window + (hidden + 1) * horizon
    if name == "st-transformer":
        tokens = window * (channels - calendar) + 1 + nodes + calendar + 1
        parameters = (tokens + layers * (12 * hidden + 13) + 2) * hidden + (hidden + 1) * horizon
    hops, heads = hops if spatial == "diffusion" else 0, heads if spatial == "attention" else 1
    return ModelShape(name, spatial, temporal, layers, channels, hidden, 1, parameters, heads, hops=hops, calendar=calendar)


def _diffusion_work(shape: ModelShape, graph: GraphOperations, window: int, horizon: int) -> ForecasterWork:
    """Count the work of `dcrnn` and `pgt-dcrnn` (`real_exec.signals.forecast.dcrnn`), a window."""
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
    if shape.name == "pgt-dcrnn":
        return encoder + readout
    return encoder + (narrow(1) + upper + later * shape.layers) * horizon + readout


def _attention_gru_work(shape: ModelShape, graph: GraphOperations, window: int, horizon: int) -> ForecasterWork:
    """Count the work of `a3t-gcn` (`real_exec.signals.forecast.a3t`), a window."""
    wide = shape.hidden
    inputs = shape.inputs
    nodes = graph.nodes
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


def _transformer_work(shape: ModelShape, graph: GraphOperations, window: int, horizon: int) -> ForecasterWork:
    """Count the work of `st-transformer` (`real_exec.signals.forecast.transformer`), a window; attention keeps no N x N matrix."""
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


def _work(shape: ModelShape, nodes: int, edges: int, window: int, horizon: int) -> ForecasterWork:
    """Count the work of a forecaster by its name, a window."""
    if shape.name == "a3t-gcn":
        return _attention_gru_work(shape, GraphOperations(nodes, edges, 0), window, horizon)
    if shape.name == "st-transformer":
        return _transformer_work(shape, GraphOperations(nodes, edges, 0), window, horizon)
    return _diffusion_work(shape, GraphOperations(nodes, edges, shape.hops), window, horizon)


def forward_flops(shape: ModelShape, nodes: int, edges: int, windows: Count, window: int, horizon: int) -> Count:
    """Count the floating-point operations of a forecaster's forward pass on a batch of `windows`, for plans: matrix products only.

    nodes, edges: of the sensor graph. window, horizon: steps read and predicted.
    """
    return _work(shape, nodes, edges, window, horizon).flops * windows


def forward_bytes(shape: ModelShape, nodes: int, edges: int, windows: Count, window: int, horizon: int) -> Count:
    """Count the bytes that a forecaster's forward pass on a batch of `windows` moves through device memory, were nothing cached between two
    operations, for plans.

    nodes, edges: of the sensor graph. window, horizon: steps read and predicted.
    """
    work = _work(shape, nodes, edges, window, horizon)
    return 4 * (work.moved * windows + work.fixed)


def saved_bytes(shape: ModelShape, nodes: int, edges: int, windows: Count, window: int, horizon: int) -> Count:
    """Count the bytes of activations that a forecaster's forward pass on a batch of `windows` keeps for its backward pass, for plans.

    nodes, edges: of the sensor graph. window, horizon: steps read and predicted.
    """
    return 4 * _work(shape, nodes, edges, window, horizon).saved * windows
