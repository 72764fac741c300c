"""HybridBatch: one rank's hybrid batch, from features on the host to its loss; a window is one autograd graph."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.snapshots.receptive_field import ReceptiveField
from chronoscale.cuda_ext.operators import aggregation
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.snapshots.csr import WeightedCSR
from chronoscale.real_exec.execution.transfers import record_use, to_device
from chronoscale.real_exec.snapshots.material import Full, SnapshotMaterial
from chronoscale.real_exec.snapshots.model import EvolvingBlock, GcnBlock, SnapshotModel, State
from chronoscale.strategies.baselines.snapshots.dynahb import BatchSize
from chronoscale.strategies.schedule import Op


def submatrix(csr: WeightedCSR, rows: Int64, columns: Int64, pins: bool) -> Full:
    """Cut rows out of a snapshot's adjacency for a batch of DynaHB, as a matrix [rows, columns] with the scale of its rows, in host memory.

    rows, columns: ascending node ids, int64; all entries of these rows are among `columns`. pins: in pinned memory.
    """
    begin = csr.indptr[rows]
    degree = csr.indptr[rows + 1] - begin
    indptr = np.concatenate([[0], np.cumsum(degree)]).astype(np.int64)
    entry = np.repeat(begin - indptr[:-1], degree) + np.arange(indptr[-1])
    local = np.searchsorted(columns, csr.indices[entry]).astype(np.int32)
    parts = [torch.from_numpy(part) for part in (indptr, local, csr.values[entry], csr.scale[rows])]
    indptr_, indices, values, scale = (part.pin_memory() if pins else part for part in parts)
    return Full(CSR(indptr_, indices, values, len(columns)).check(), scale)


class HybridBatch:
    """Batch of DynaHB on one rank: `nodes` (ascending ids) in the window of snapshots that begins with `first`, from features on the host
    to its loss.

    choice: numbers of snapshots and nodes. Rows run step by step. Schedules are planned for the largest window; a step beyond this one's
    does nothing.
    """

    def __init__(self, material: SnapshotMaterial, choice: BatchSize, first: int, nodes: Int64, layers: int) -> None:
        self.choice = choice
        self.first = first
        self.nodes = nodes
        self._material = material
        window = [material.snapshots[t] for t in range(first, first + choice.window)]
        self.reach = ReceptiveField.of(window, nodes, layers)
        self._host: dict[int, tuple[list[Full], Tensor]] = {}
        self._held: dict[int, tuple[list[Full], Tensor]] = {}
        self._below: dict[int, Tensor] = {}  # by step: the last layer's output
        self._state: dict[int, State | None] = {}  # by layer
        self._made: Tensor | None = None

    def gather(self, step: int, csr: WeightedCSR) -> int:
        """Gather the features of one snapshot of the batch in host memory, and cut the adjacency rows of every layer (GATHER); return bytes
        of the features.

        csr: the whole adjacency of the snapshot.
        """
        rows, inputs = self.reach.rows, self.reach.inputs[step]
        columns = (inputs, *rows[:-1])
        forms = [submatrix(csr, own, read, self._material.pins) for own, read in zip(rows, columns, strict=True)]
        features = self._material.features(self.first + step)[torch.from_numpy(inputs)]
        self._host[step] = forms, features.pin_memory() if self._material.pins else features
        return features.nbytes

    def send(self, step: int, device: torch.device) -> int:
        """Copy the features and adjacency rows of one snapshot of the batch to the device (H2D); return bytes."""
        forms, features = self._host.pop(step)
        held = features.clone() if device.type == "cpu" else features.to(device, non_blocking=True)
        self._held[step] = [form.to(device) for form in forms], held
        return sum(form.nbytes for form in forms) + features.nbytes

    def compute(self, op: Op, step: int, layer: int, model: SnapshotModel) -> None:
        """Compute AGGREGATE, TRANSFORM or TEMPORAL of a layer for one snapshot of the batch, on this rank's device."""
        block = model.block(layer)
        assert isinstance(block, (GcnBlock, EvolvingBlock))
        if op is Op.AGGREGATE:
            forms, features = self._held[step]
            form, x = forms[layer], self._below[step] if layer else features
            record_use(form.graph.indptr, form.graph.indices, form.graph.values, form.scale, x)
            assert form.scale is not None
            self._made = aggregation.aggregate(form.graph, x.contiguous()) * form.scale[:, None]
        elif op is Op.TRANSFORM:
            assert self._made is not None
            if isinstance(block, EvolvingBlock):
                state = self._state[layer]
                assert state is not None
                self._below[step] = block.transform(self._made, state)
            else:
                self._below[step] = block.transform(self._made)
        elif isinstance(block, EvolvingBlock):
            self._state[layer] = block.evolve(self._state.get(layer))
        else:
            assert block.step is not None
            self._state[layer] = after = block.step(self._below[step], self._state.get(layer))
            self._below[step] = block.step.output(after)

    def loss(self, model: SnapshotModel, horizon: int, device: torch.device) -> Tensor:
        """Return the mean loss over what the batch predicts, a scalar: its nodes in the newest snapshot, or in every one where weights
        evolve; 0 for nothing.
        """
        objective, last = self._material.objective, self.choice.window - 1
        total, count = torch.zeros((), device=device), 0
        own = torch.from_numpy(self.nodes)
        for step in range(self.choice.window) if model.shape.predicts_each else (last,):
            target = self._material.target(self.first + step + horizon)[own]
            total = total + objective.total(model.readout(self._below[step]), to_device(target, device))
            count += objective.count(target)
        return total / max(count, 1)
