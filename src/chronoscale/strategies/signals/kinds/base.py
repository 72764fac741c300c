"""ForecasterKind: what a forecaster of signals consists of; and the operations that its work is counted in.

Work is counted as the code in `real_exec.signals.forecast` does it, per window; values are fp32. N nodes, C channels, H hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from types import MappingProxyType

from chronoscale.errors import UserError
from chronoscale.strategies.workload import ModelChoice, ModelShape

DENSE_NODES = 512  # up to here all diffusion steps are one dense matrix; above, sparse products step by step


@dataclass(frozen=True, slots=True)
class ForecasterWork:
    """Counted work of a forecaster's forward pass, for cost models. For each window: `flops`, fp32 values `moved` through memory, values
    `saved` for the backward pass; once for a batch: values `fixed` that are read (weights, the graph), and values `saved_once` for the
    backward pass (matrices that are made of weights)."""

    flops: int = 0
    moved: int = 0
    saved: int = 0
    fixed: int = 0
    saved_once: int = 0

    def __add__(self, other: ForecasterWork) -> ForecasterWork:
        return ForecasterWork(*(one + more for one, more in zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, times: int) -> ForecasterWork:
        return ForecasterWork(*(value * times for value in astuple(self)))


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


class ForecasterKind:
    """Kind of forecaster (DCRNN, STID ...), as planners count it: the parts that it has, its parameters, and the work of a forward pass.

    name: what experiments call it; source: its paper. spatial: diffusion, gcn, attention or none; temporal: gru, convolution or none. All
    read every value at every step of a window; of the calendar every step, or the last one. clock: whether it cannot do without a calendar.
    decodes: whether a step of its prediction reads the one before; stacks: whether it may have several layers; tables: whether it has a
    table for each channel of the calendar. published: sizes (keys under `model`) that it has in its paper, where files do not say others,
    `dropout` among them if it has that; empty for models with the defaults of all.
    """

    name: str
    source: str
    spatial = "none"
    temporal = "none"
    clock = False
    decodes = False
    stacks = False
    tables = False
    published: Mapping[str, float] = MappingProxyType({})

    @property
    def drops(self) -> bool:
        """Whether the model has dropout in training."""
        return "dropout" in self.published

    @property
    def reads_graph(self) -> bool:
        """Whether it computes along the edges of the sensors' graph."""
        return self.spatial not in ("attention", "none")

    @property
    def diffuses(self) -> bool:
        """Whether the model diffuses over the sensors' graph, in `hops` steps."""
        return self.spatial == "diffusion"

    @property
    def attends(self) -> bool:
        """Whether the model has heads of attention."""
        return self.spatial == "attention"

    def least_layers(self, window: int) -> int:
        """Return with how many layers the model reads every step of a window."""
        return 1

    def spans(self, layers: int) -> int:
        """Return how many steps of a window all layers compute together, of models whose layers compute ever fewer; else 0."""
        return 0

    def check(self, choice: ModelChoice, window: int, horizon: int) -> None:
        """Raise UserError for sizes that this kind of forecaster cannot have. window, horizon: steps read and predicted."""
        if not self.stacks and choice.layers > 1:
            raise UserError(f"forecaster '{self.name}' has one recurrent layer, got layers: {choice.layers}")
        if not self.drops and choice.dropout:
            raise UserError(f"forecaster '{self.name}' has no dropout, got dropout: {choice.dropout:g}")

    def parameters(self, shape: ModelShape, nodes: int, window: int, horizon: int) -> int:
        """Count the trained values of the model."""
        raise NotImplementedError(f"{self.name} counts no parameters")

    def work(self, shape: ModelShape, graph: GraphOperations, window: int, horizon: int) -> ForecasterWork:
        """Count the work of a forward pass, a window."""
        raise NotImplementedError(f"{self.name} counts no work")
