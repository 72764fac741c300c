"""Cells: the rows of one (snapshot, layer) on one rank, for strategies that spread a snapshot group over ranks.

A cell has three stages, whose order the model gives, and hands its output to the cell above and its state to the cell of the next
snapshot; in a layer without a recurrence it has two stages and no state. Tensors are taken and given back by name (`CellMemory`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from chronoscale.strategies.planning.builder import NONE, Blocks
from chronoscale.strategies.planning.builder import Columns as Site
from chronoscale.strategies.schedule import Ints, Lane, Op
from chronoscale.strategies.snapshots.cell_memory import RESULTS, CellMemory, Region, output_stage, stages
from chronoscale.strategies.snapshots.cell_variants import CellBackward, CellTransfer, backward_variant, stage_variant
from chronoscale.strategies.snapshots.rows import FP32, SCORE, Columns

_NO_WORK = dict.fromkeys(("edges", "rows", "width", "flops"), np.zeros(1, np.int64))


@dataclass(frozen=True, slots=True)
class Cells(CellMemory):
    """Work and memory of a model's cells (a cell: one snapshot and one layer on one rank), for planners that spread a snapshot over ranks
    (ESDG, DistDGL, FlareDTDG): methods take a region and a layer (0-based) and return columns of one schedule row, int64 [n]."""

    def returns(self, layer: int) -> bool:
        """Return whether gradients of remote rows go back to their owners after a cell of `layer`; those of input features do not."""
        return self.parts and (layer > 0 or self.splits)

    def state(self, region: Region, layer: int) -> Ints:
        """Return the bytes of the recurrent state of a cell (one snapshot and one layer on one rank), int64 [n]."""
        return self.sizes(region, layer)["state"]

    @property
    def gathers(self) -> bool:
        """Whether the candidates that EvolveGCN-H chooses its summary from lie on several ranks, so that they are all-gathered."""
        return self.parts and self.model.summarises

    def transfer(self, region: Region) -> Columns:
        """Return the columns of the planned H2D row that sends a snapshot's own rows: adjacency and input features."""
        sizes = self.sizes(region, 0)
        moved = sizes["graph"] + sizes["features"]
        edges = region.edges + region.rows
        row = self._row(region, 0, ("graph", "features"), rows=region.rows, edges=edges, bytes=moved)
        return _with_variant(row, CellTransfer.COPIED)

    def stage(self, op: Op, region: Region, layer: int, first: bool = False) -> Columns:
        """Return the columns of the planned row of one operation (AGGREGATE, TRANSFORM or TEMPORAL) of a cell's forward pass.

        A cell is one snapshot and one layer on one rank. region: the vertices and edges that it has there, int64 [n] each. first: no state
        comes before.
        """
        name, gives = RESULTS[op], []
        if op is Op.AGGREGATE and self.sums_data(layer) and not self.replicated:
            gives += ["features", "wide"] if self.parts else ["features"]
        if op is output_stage(self.model, layer) and self.recomputes:
            results = (RESULTS[stage] for stage in stages(self.model, layer))
            gives += [result for result in results if result not in self.saved(layer)]
        row = self._work([op], region, layer, (name, "state") if op is Op.TEMPORAL else (name,), gives)
        tracked = not (self.recomputes or self.sums_data(layer))
        return _with_variant(row, stage_variant(op, tracked, first and not self.model.evolves_weights))

    def halo(self, region: Region, layer: int) -> Columns:
        """Return the columns of the planned ALLTOALL row that brings the remote rows that a cell reads; `bytes` is what a rank receives."""
        return self._exchanged(region, layer, ("wide", "staged"))

    def halo_gradient(self, region: Region, layer: int) -> Columns:
        """Return the columns of the planned ALLTOALL row that sends gradients of remote rows back to their owners; `bytes` is what a rank
        sends."""
        return self._exchanged(region, layer, ("staged",))

    def gather(self, region: Region, layer: int) -> Columns:
        """Return the columns of the planned ALLGATHER row of the rows that EvolveGCN-H's summary is chosen from; `bytes` is what a rank
        contributes."""
        width, own = self.model.width(layer), np.minimum(region.rows, self.model.hidden)
        return self._row(region, layer, ("summary",), width=width, rows=own, bytes=own * width * FP32)

    def gather_readouts(self, region: Region, total: Ints) -> Columns:
        """Return the columns of the planned ALLGATHER row, above the last layer, of what a task of pairs reads out of nodes, `total` of all
        ranks; `bytes` is what a rank contributes."""
        width = self.model.outputs
        row = self._row(region, self.model.layers - 1, width=width, rows=region.rows, bytes=region.rows * width * FP32)
        return {**row, "alloc": row["alloc"] + total * width * FP32}

    def with_pairs(self, row: Columns, total: Ints | int, flops: Ints) -> Columns:
        """Return a last layer's BACKWARD row with what decoding pairs adds to it: operations, and the readouts of `total` gathered nodes,
        which it joins with own ones, and frees with their gradient."""
        gathered = total * self.model.outputs * FP32
        return {**row, "flops": row["flops"] + flops, "alloc": row["alloc"] + 2 * gathered, "free": row["free"] + 3 * gathered}

    def gather_gradient(self, region: Region, layer: int) -> Columns:
        """Return the columns of the planned ALLTOALL row that sends gradients of the summary's candidate rows back to their owners; `bytes`
        is what a rank sends."""
        width, others = self.model.width(layer), region.summary - np.minimum(region.rows, self.model.hidden)
        return self._row(region, layer, (), ("summary",), width=width, rows=others, bytes=others * width * FP32)

    def send(self, region: Region, layer: int, gradient: bool = False) -> Columns:
        """Return the columns of the planned SEND row of the recurrent state to the next snapshot's rank, or of its gradient, which is freed
        once it is sent. An LSTM's two tensors are staged as one message."""
        staged = ("state",) if self.model.states > 1 else ()
        moved = self.sizes(region, layer)["state"]
        return self._row(region, layer, staged, (*staged, *["state"] * gradient), width=self.model.width(layer), bytes=moved)

    def receive(self, region: Region, layer: int) -> Columns:
        """Return the columns of the planned RECV row of the recurrent state, or of its gradient, from another snapshot's rank."""
        return self._row(region, layer, ("state",), width=self.model.width(layer), bytes=self.sizes(region, layer)["state"])

    def forward(self, region: Region, layer: int, first: bool) -> Columns:
        """Return the columns of the planned FORWARD row that computes a cell again from its inputs before its gradient (gradient
        checkpointing). first: no state comes before."""
        row = self._work(self.differentiable(layer), region, layer, self.recomputed(layer), ())
        return _with_variant(row, stage_variant(Op.FORWARD, True, first and not self.model.evolves_weights))

    def backward(self, region: Region, layer: int, first: bool, last: bool, received: bool, predicts: bool) -> Columns:
        """Return the columns of the planned BACKWARD row of a cell, without its transformation where the pass `splits`.

        first, last: whether the snapshot is the first, the last of its group. received: whether its state came from another rank. predicts:
        whether the snapshot has a prediction and a loss.
        """
        begins = first and not self.model.evolves_weights  # which begin with trained ones
        parts = backward_variant(layer > 0, self.model.recurs(layer), begins, last, predicts and layer + 1 == self.model.layers)
        ops = [op for op in self.differentiable(layer) if not (self.splits and op is Op.TRANSFORM)]
        recurs = self.model.recurs(layer)
        takes, gives = ["state"] * (recurs and not first), [*self.saved(layer)]
        gives += ["state"] * ((not last) + received) * recurs
        if self.recomputes:
            gives += self.recomputed(layer)
        if self.gathers:
            takes, gives = takes + ["summary"] * (layer > 0), [*gives, "summary"]
        if self.returns(layer):
            takes, gives = [*takes, "wide"], [*gives, "wide"]
        elif layer:
            takes.append("input")
        if not self.splits:
            row = self._free_after(self._work(ops, region, layer, takes, gives, passes=2), region, layer)
            return _with_variant(row, parts)
        gives.remove("dense")
        return _with_variant(self._work(ops, region, layer, takes, gives, passes=2), parts)

    def backward_transform(self, region: Region, layer: int) -> Columns:
        """Return the columns of the planned BACKWARD row of a cell's transformation where the pass `splits`: remote ranks have returned
        their attention's gradients before it."""
        takes = ("input",) if layer else ()
        row = self._free_after(self._work([Op.TRANSFORM], region, layer, takes, ("dense", "wide"), passes=2), region, layer)
        return _with_variant(row, CellBackward.CELL | CellBackward.SECOND | (CellBackward.UPPER if layer else CellBackward(0)))

    def _free_after(self, row: Columns, region: Region, layer: int) -> Columns:
        """Add to a cell's last gradient row what it frees: the rows from the layer above and, in the first layer, the snapshot."""
        if layer + 1 < self.model.layers:
            row["free"] = row["free"] + self.sizes(region, layer + 1)["wide" if self.parts and not self.splits else "input"]
        if layer == 0 and not self.replicated:
            sizes = self.sizes(region, 0)
            row["free"] = row["free"] + sizes["graph"] + (0 if self.sums_data(0) else sizes["features"])
        return row

    def _exchanged(self, region: Region, layer: int, takes: Iterable[str]) -> Columns:
        """Return the row that exchanges remote rows, or their gradients, and takes the tensors named in `takes`."""
        width = self.exchanged_width(layer)
        return self._row(region, layer, takes, ("staged",), width=width, rows=region.halo, bytes=region.halo * width * FP32)

    def _flops(self, op: Op, region: Region, layer: int, forward: bool) -> Ints:
        """Count the floating-point operations of one stage, int64 [n]."""
        model = self.model
        width = self.model.width(layer)
        hidden = self.model.hidden
        entries = region.edges + region.rows
        if op is Op.TRANSFORM:
            return 2 * region.rows * width * hidden
        if op is Op.TEMPORAL:
            rows, across = (np.full_like(region.rows, hidden), width) if model.evolves_weights else (region.rows, hidden)
            return model.depth * rows * across * 4 * model.gates * (across + 1)
        if model.transforms_first:
            return entries * (2 * hidden + SCORE)
        return 2 * entries * width + 2 * region.rows * width * (model.summarises and forward)

    def _work(self, ops: list[Op], region: Region, layer: int, takes: Iterable[str], gives: Iterable[str], passes: int = 1) -> Columns:
        """Return one row for several stages. A gradient pass (`passes` 2) does a stage's work twice, for its inputs and for its weights;
        input features have no gradient."""
        once = {Op.TRANSFORM: layer == 0, Op.AGGREGATE: not self.model.transforms_first}  # no gradient of features, of fixed weights
        times = [1 if once.get(op, False) else passes for op in ops]
        parts = [self._flops(op, region, layer, passes == 1) for op in ops]
        flops = sum((n * part for n, part in zip(times, parts, strict=True)), np.zeros(1, np.int64))
        evolves = self.model.evolves_weights and ops == [Op.TEMPORAL]
        rows = np.full_like(region.rows, self.model.hidden) if evolves else region.rows
        inner = [Op.AGGREGATE] if self.model.transforms_first else []  # stages that read hidden features in every layer
        hidden = ops in (inner, [Op.TEMPORAL]) and not evolves
        width = self.model.hidden if hidden else self.model.width(layer)
        width *= self.model.depth if ops == [Op.TEMPORAL] else 1
        edges = (region.edges + region.rows) * (Op.AGGREGATE in ops)
        return self._row(region, layer, takes, gives, width=width, rows=rows, edges=edges, flops=flops)

    def _row(self, region: Region, layer: int, takes: Iterable[str] = (), gives: Iterable[str] = (), **work: Ints | int) -> Columns:
        """Return the columns of a row with this `work`, descriptors that are 0 where left out, that allocates the tensors in `takes` and
        frees those in `gives`. Bytes that a computation moves are counted elsewhere (`costing.kernels`)."""
        sizes, none = self.sizes(region, layer), np.zeros_like(region.rows)
        return {
            "nodes": region.rows + region.halo,
            **{name: np.broadcast_to(value, none.shape) for name, value in {**_NO_WORK, **work}.items()},
            "alloc": sum((sizes[n] for n in takes), none),
            "free": sum((sizes[n] for n in gives), none),
        }


def _with_variant(row: Columns, variant: int) -> Columns:
    """Return the columns of a row with which implementation runs it."""
    return {**row, "variant": np.full_like(row["rows"], variant)}


def synchronise(builder: Blocks, parameters: int, first: Ints, last: Ints, opens: bool = False) -> None:
    """Add the all-reduce and the optimiser step of every rank and iteration to a plan, and let every snapshot group wait for the end of the
    one before.

    parameters: their number. first, last: int64 [iterations, ranks, slots], handles of a group's first and last row on a rank (-1: none); a
    slot is a group's place among those of its iteration, whose rows have `order` iteration * (slots + 1) + slot. opens: the steps that
    precede the first iteration are rows, too, as a `Stretch` needs them, and iterations are numbered from 1.
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
