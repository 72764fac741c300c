"""Cells: the rows of one (snapshot, layer) on one rank, for strategies that spread a snapshot group over ranks.

A cell has three stages, whose order the model gives, and hands its output to the cell above and its state to the next one; in a layer
without a recurrence it has two, and no state. Nothing crosses a cell but by a row of its own. Memory is kept by name: what one row takes,
another gives back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from chronoscale.strategies.planning.builder import NONE, Blocks
from chronoscale.strategies.planning.builder import Columns as Site
from chronoscale.strategies.schedule import Ints, Lane, Op
from chronoscale.strategies.snapshots.rows import FP32, SCORE, Columns
from chronoscale.strategies.workload import ModelShape

MADE = {Op.AGGREGATE: "sum", Op.TRANSFORM: "dense", Op.TEMPORAL: "gates"}  # a stage's result, by its name in memory

_NOTHING = dict.fromkeys(("edges", "rows", "width", "flops"), np.zeros(1, np.int64))


def stages(model: ModelShape, layer: int) -> tuple[Op, ...]:
    """What a cell of a layer does, in order."""
    if model.evolves_weights:
        return Op.AGGREGATE, Op.TEMPORAL, Op.TRANSFORM
    convolved = (Op.TRANSFORM, Op.AGGREGATE) if model.transforms_first else (Op.AGGREGATE, Op.TRANSFORM)
    return (*convolved, Op.TEMPORAL) if model.recurs(layer) else convolved


def output(model: ModelShape, layer: int) -> Op:
    """The stage whose result a cell hands to the layer above."""
    return stages(model, layer)[-1]


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """What ranks hold of snapshots, int64 [n]: own rows, edges that end there (self-loops not counted), remote rows read, own rows that
    others read. `summary`: candidate rows over all ranks that EvolveGCN-H chooses from."""

    rows: Ints
    edges: Ints
    halo: Ints
    sent: Ints
    summary: Ints


@dataclass(frozen=True, slots=True)
class Cells:
    """Descriptors of one model's cells; every method takes a region and returns int64 [n] columns.

    `recomputes`: the forward pass keeps a cell's inputs only, and a FORWARD row computes it again (gradient checkpointing). `parts`: own
    rows are a part of the snapshot, so that remote rows come by ALLTOALL and stand behind them in one matrix. `replicated`: input features
    of remote rows come with the snapshot, which stays on the device for longer than its cells.
    """

    model: ModelShape
    recomputes: bool
    parts: bool
    replicated: bool = False
    _known: dict[tuple[Region, int], Columns] = field(default_factory=dict)

    @property
    def splits(self) -> bool:
        """Whether a cell's gradient pass is cut in two: attention reads remote rows of this very layer's transformation."""
        return self.parts and self.model.transforms_first

    def returns(self, layer: int) -> bool:
        """Whether remote rows get gradients, which go back to their owners. Input features have none."""
        return self.parts and (layer > 0 or self.splits)

    def state(self, at: Region, layer: int) -> Ints:
        """Bytes of a recurrent state."""
        return self._sizes(at, layer)["state"]

    @property
    def gathers(self) -> bool:
        """Whether the summary's candidates lie on several ranks."""
        return self.parts and self.model.summarises

    def transfer(self, at: Region) -> Columns:
        """H2D of own rows: adjacency and input features."""
        sizes = self._sizes(at, 0)
        moved = sizes["graph"] + sizes["features"]
        return self._row(at, 0, ("graph", "features"), rows=at.rows, edges=at.edges + at.rows, bytes=moved)

    def stage(self, op: Op, at: Region, layer: int) -> Columns:
        """A stage of the forward pass."""
        name, gives = MADE[op], []
        if op is Op.AGGREGATE and self._constant(layer) and not self.replicated:
            gives += ["features", "wide"] if self.parts else ["features"]
        if op is output(self.model, layer) and self.recomputes:
            gives += [made for made in map(MADE.__getitem__, stages(self.model, layer)) if made not in self._inputs(layer)]
        return self._work([op], at, layer, (name, "state") if op is Op.TEMPORAL else (name,), gives)

    def halo(self, at: Region, layer: int) -> Columns:
        """ALLTOALL of the remote rows that a cell reads; `bytes` is what a rank receives."""
        return self._exchanged(at, layer, ("wide", "staged"))

    def halo_gradient(self, at: Region, layer: int) -> Columns:
        """ALLTOALL of their gradients; `bytes` is what a rank sends."""
        return self._exchanged(at, layer, ("staged",))

    def gather(self, at: Region, layer: int) -> Columns:
        """ALLGATHER of candidate rows; `bytes` is what a rank contributes."""
        width, own = self.model.width(layer), np.minimum(at.rows, self.model.hidden)
        return self._row(at, layer, ("summary",), width=width, rows=own, bytes=own * width * FP32)

    def gather_gradient(self, at: Region, layer: int) -> Columns:
        """ALLTOALL of their gradients; `bytes` is what a rank sends."""
        width, others = self.model.width(layer), at.summary - np.minimum(at.rows, self.model.hidden)
        return self._row(at, layer, (), ("summary",), width=width, rows=others, bytes=others * width * FP32)

    def send(self, at: Region, layer: int, gradient: bool = False) -> Columns:
        """SEND of the state, or of its gradient, which is not needed any more then. Two tensors are staged as one message."""
        staged = ("state",) if self.model.states > 1 else ()
        moved = self._sizes(at, layer)["state"]
        return self._row(at, layer, staged, (*staged, *["state"] * gradient), width=self.model.width(layer), bytes=moved)

    def receive(self, at: Region, layer: int) -> Columns:
        """RECV of the state or of its gradient."""
        return self._row(at, layer, ("state",), width=self.model.width(layer), bytes=self._sizes(at, layer)["state"])

    def forward(self, at: Region, layer: int) -> Columns:
        """A cell computed again from its inputs."""
        return self._work(self._differentiable(layer), at, layer, self._again(layer), ())

    def backward(self, at: Region, layer: int, first: bool, last: bool, received: bool) -> Columns:
        """The gradient pass: `first`, `last` snapshot of a group; `received`: its state came from another rank."""
        ops = [op for op in self._differentiable(layer) if not (self.splits and op is Op.TRANSFORM)]
        recurs = self.model.recurs(layer)
        takes, gives = ["state"] * (recurs and not first), [*self._inputs(layer)]
        gives += ["state"] * ((not last) + received) * recurs
        if self.recomputes:
            gives += self._again(layer)
        if self.gathers:
            takes, gives = takes + ["summary"] * (layer > 0), [*gives, "summary"]
        if self.returns(layer):
            takes, gives = [*takes, "wide"], [*gives, "wide"]
        elif layer:
            takes.append("input")
        if not self.splits:
            return self._done(self._work(ops, at, layer, takes, gives, passes=2), at, layer)
        gives.remove("dense")
        return self._work(ops, at, layer, takes, gives, passes=2)

    def backward_transform(self, at: Region, layer: int) -> Columns:
        """The second half where it `splits`, after remote ranks have returned what their attention left."""
        takes = ("input",) if layer else ()
        return self._done(self._work([Op.TRANSFORM], at, layer, takes, ("dense", "wide"), passes=2), at, layer)

    def _done(self, row: Columns, at: Region, layer: int) -> Columns:
        """After a cell's last gradient row nobody needs what came from above, nor the snapshot below the first layer."""
        if layer + 1 < self.model.layers:
            row["free"] = row["free"] + self._sizes(at, layer + 1)["wide" if self.parts and not self.splits else "input"]
        if layer == 0 and not self.replicated:
            sizes = self._sizes(at, 0)
            row["free"] = row["free"] + sizes["graph"] + (0 if self._constant(0) else sizes["features"])
        return row

    def _constant(self, layer: int) -> bool:
        """Whether aggregation has nothing below it that is trained: its result is an input like any other."""
        return layer == 0 and not self.model.transforms_first

    def _differentiable(self, layer: int) -> list[Op]:
        return [op for op in stages(self.model, layer) if op is not Op.AGGREGATE or not self._constant(layer)]

    def _inputs(self, layer: int) -> tuple[str, ...]:
        """What the forward pass leaves of a cell."""
        recurrent = ("gates", "state") * self.model.recurs(layer)
        if not self.recomputes:
            return ("sum", "dense", *recurrent)
        made = MADE[output(self.model, layer)]
        return (*recurrent[1:], *["sum"] * (self._constant(layer) or made == "sum"), *["dense"] * (made == "dense"))

    def _again(self, layer: int) -> tuple[str, ...]:
        return (*["sum"] * (not self._constant(layer)), "dense", *("gates", "state") * self.model.recurs(layer))

    def _shared(self, layer: int) -> int:
        """Width of the rows that others read."""
        return self.model.hidden if self.model.transforms_first else self.model.width(layer)

    def _exchanged(self, at: Region, layer: int, takes: Iterable[str]) -> Columns:
        """Remote rows on their way, or their gradients."""
        width = self._shared(layer)
        return self._row(at, layer, takes, ("staged",), width=width, rows=at.halo, bytes=at.halo * width * FP32)

    def _sizes(self, at: Region, layer: int) -> Columns:
        """Bytes of everything that a cell holds, by name; many rows ask for those of one region, one after another."""
        if (at, layer) not in self._known:
            if not any(region is at for region, _ in self._known):
                self._known.clear()
            self._known[at, layer] = self._reckoned(at, layer)
        return self._known[at, layer]

    def _reckoned(self, at: Region, layer: int) -> Columns:
        model, width, hidden = self.model, self.model.width(layer), self.model.hidden
        one = np.ones_like(at.rows)
        cell = one * hidden * width if model.evolves_weights else at.rows * hidden  # what the recurrence runs on
        picked = np.minimum(at.rows, hidden) * width * model.summarises
        attended = at.rows * hidden + at.edges + at.rows  # sums and one weight an edge
        weighed = FP32 * (at.edges + 2 * at.rows) * (not model.transforms_first)  # attention reads no weights
        return {
            "graph": 8 * (at.rows + 1) + FP32 * (at.edges + at.rows) + weighed,
            "features": (at.rows + at.halo * self.replicated) * model.inputs * FP32,
            "input": at.rows * width * FP32,
            "wide": (at.rows + at.halo) * self._shared(layer) * FP32,
            "staged": at.sent * self._shared(layer) * FP32,
            "sum": (attended if model.transforms_first else at.rows * width + picked) * FP32,
            "dense": at.rows * hidden * FP32,
            "gates": cell * (model.stepped - model.depth * model.states) * FP32,
            "state": cell * model.depth * model.states * FP32,
            "summary": at.summary * width * FP32,
        }

    def _flops(self, op: Op, at: Region, layer: int, forward: bool) -> Ints:
        model, width, hidden = self.model, self.model.width(layer), self.model.hidden
        entries = at.edges + at.rows
        if op is Op.TRANSFORM:
            return 2 * at.rows * width * hidden
        if op is Op.TEMPORAL:
            rows, across = (np.full_like(at.rows, hidden), width) if model.evolves_weights else (at.rows, hidden)
            return model.depth * rows * across * 4 * model.gates * (across + 1)
        if model.transforms_first:
            return entries * (2 * hidden + SCORE)
        return 2 * entries * width + 2 * at.rows * width * (model.summarises and forward)

    def _work(self, ops: list[Op], at: Region, layer: int, takes: Iterable[str], gives: Iterable[str], passes: int = 1) -> Columns:
        """One row for several stages. A gradient pass does a stage's work twice, for inputs and for weights; features have no gradient."""
        once = {Op.TRANSFORM: layer == 0, Op.AGGREGATE: not self.model.transforms_first}  # no gradient of features, of fixed weights
        times = [1 if once.get(op, False) else passes for op in ops]
        parts = [self._flops(op, at, layer, passes == 1) for op in ops]
        flops = sum((n * part for n, part in zip(times, parts, strict=True)), np.zeros(1, np.int64))
        evolves = self.model.evolves_weights and ops == [Op.TEMPORAL]
        rows = np.full_like(at.rows, self.model.hidden) if evolves else at.rows
        inner = [Op.AGGREGATE] if self.model.transforms_first else []  # stages that read hidden features in every layer
        hidden = ops in (inner, [Op.TEMPORAL]) and not evolves
        width = self.model.hidden if hidden else self.model.width(layer)
        width *= self.model.depth if ops == [Op.TEMPORAL] else 1
        edges = (at.edges + at.rows) * (Op.AGGREGATE in ops)
        return self._row(at, layer, takes, gives, width=width, rows=rows, edges=edges, flops=flops)

    def _row(self, at: Region, layer: int, takes: Iterable[str] = (), gives: Iterable[str] = (), **work: Ints | int) -> Columns:
        """`work`: descriptors of a schedule's columns, 0 where left out; a computation's bytes were counted (`costing.kernels`)."""
        sizes, none = self._sizes(at, layer), np.zeros_like(at.rows)
        return {
            "nodes": at.rows + at.halo,
            **{name: np.broadcast_to(value, none.shape) for name, value in {**_NOTHING, **work}.items()},
            "alloc": sum((sizes[n] for n in takes), none),
            "free": sum((sizes[n] for n in gives), none),
        }


def synchronise(builder: Blocks, parameters: int, first: Ints, last: Ints, opens: bool = False) -> None:
    """All-reduce and optimiser step of every rank and iteration; nothing of a group starts before the end of the one before.

    `first`, `last` int64 [iterations, ranks, slots]: handles of a group's first row on a rank and of the last one (-1: none). A slot's
    rows have `order` iteration * (slots + 1) + slot. opens: the steps before the first iteration are there, as a `Stretch` has them, and
    iterations are numbered from 1.
    """
    iterations, ranks, slots = first.shape
    update = {"rows": parameters, "flops": 10 * parameters}
    before = np.full((1, ranks), NONE, np.int64)
    if opens:
        steps: Site = {"rank": np.arange(ranks), "iteration": 0, "order": -1, "kernels": 0}
        before = builder.add(Op.OPTIMIZE, Lane.COMPUTE, steps, update).reshape(1, ranks)
    iteration, rank = (grid.ravel() for grid in np.indices((iterations, ranks)))
    site: Site = {"rank": rank, "iteration": iteration + opens, "order": iteration * (slots + 1) + slots}
    ready = [last[:, :, slot].ravel() for slot in range(slots)]
    if ranks > 1:
        ready = [builder.add(Op.ALLREDUCE, Lane.COMM, site, {"collective": iteration, "bytes": parameters * FP32}, after=ready)]
    step = builder.add(Op.OPTIMIZE, Lane.COMPUTE, site, update, after=ready).reshape(iterations, ranks)
    before = np.concatenate([before, step[:-1]])
    for slot in range(slots):
        builder.link(first[:, :, slot].ravel(), before.ravel())
        before = np.where(last[:, :, slot] >= 0, last[:, :, slot], before)
