"""Material: a snapshot sequence prepared on the host, in the forms that a schedule transfers (REAL's preprocessor, §3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from chronoscale.cuda_ext.graph import CSR, Delta
from chronoscale.datasets.csr import DeltaCSR, Variant, WeightedCSR
from chronoscale.datasets.difference import delta_csr
from chronoscale.datasets.snapshots import SnapshotSequence
from chronoscale.errors import UserError


@dataclass(frozen=True, slots=True)
class Full:
    """A whole snapshot: adjacency and row scale float32 [N]."""

    graph: CSR
    scale: Tensor

    @property
    def nbytes(self) -> int:
        return self.graph.nbytes + self.scale.nbytes

    def to(self, device: torch.device) -> Full:
        """A copy on `device`, asynchronous where the host memory is pinned."""
        return Full(_copy_csr(self.graph, device), _copy(self.scale, device))


@dataclass(frozen=True, slots=True)
class Change:
    """A difference map: increment and the new row scale float32 [N]."""

    delta: Delta
    scale: Tensor

    @property
    def nbytes(self) -> int:
        return self.delta.nbytes + self.scale.nbytes

    def to(self, device: torch.device) -> Change:
        """A copy on `device`, asynchronous where the host memory is pinned."""
        d = self.delta
        rows, indptr, indices = _copy(d.rows, device), _copy(d.indptr, device), _copy(d.indices, device)
        return Change(Delta(rows, indptr, indices, _copy(d.values, device), d.num_rows, d.num_cols), _copy(self.scale, device))


def _copy(source: Tensor | None, device: torch.device) -> Tensor:
    assert source is not None
    return source.clone() if device.type == "cpu" else source.to(device, non_blocking=True)


def _copy_csr(graph: CSR, device: torch.device) -> CSR:
    return CSR(_copy(graph.indptr, device), _copy(graph.indices, device), _copy(graph.values, device), num_cols=graph.num_cols)


class Material:
    """Forms of the snapshots that a schedule needs, features [N, F] float32 and targets [T, N] float32 on the host.

    The task is regression (FlareDTDG §4.1): predict log(1 + in-degree) of every node, `horizon` snapshots ahead. Without features of its
    own a dataset gets seeded Gaussian ones of the asked width.
    """

    def __init__(self, snapshots: SnapshotSequence, inputs: int, variant: Variant = "exact", seed: int = 0, pin: bool = False) -> None:
        self.snapshots, self.variant, self._pin = snapshots, variant, pin
        self.num_nodes = snapshots.num_nodes
        if snapshots.features is not None:
            if snapshots.features.shape[1] != inputs:
                raise UserError(f"dataset '{snapshots.name}' has {snapshots.features.shape[1]} features a node, the model wants {inputs}")
            self.features = self._host(np.asarray(snapshots.features, np.float32))
        else:
            values = np.random.default_rng(seed).standard_normal((self.num_nodes, inputs), np.float32)
            self.features = self._host(values / np.float32(np.sqrt(inputs)))
        self.full: dict[int, Full] = {}
        self.change: dict[int, Change] = {}
        self._target: dict[int, Tensor] = {}

    def _host(self, array: NDArray[Any]) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        return tensor.pin_memory() if self._pin else tensor

    def prepare(self, full: Iterable[int], change: Iterable[int], targets: Iterable[int]) -> None:
        """Build the named forms ahead of training. Raises UserError for a snapshot that does not exist."""
        full, change, targets = set(full), set(change), set(targets)
        last = len(self.snapshots) - 1
        if wrong := [t for t in (*full, *change, *targets) if not 0 <= t <= last]:
            raise UserError(f"dataset '{self.snapshots.name}' has snapshots 0..{last}, the schedule asks for {wrong[0]}")
        for t in sorted(full - self.full.keys()):
            self.full[t] = self._full(self.snapshots[t].csr(self.variant))
        for t in sorted(change - self.change.keys()):
            self.change[t] = self._change(delta_csr(self.snapshots[t - 1], self.snapshots[t], self.variant))
        for t in sorted(targets - self._target.keys()):
            self._target[t] = self._host(np.log1p(self.snapshots[t].in_degree()).astype(np.float32))

    def stores(self) -> Mapping[str, dict[int, Any]]:
        """All that is prepared, by kind and snapshot: what a shipment carries to other processes."""
        return {"full": self.full, "change": self.change, "target": self._target}

    def target(self, snapshot: int) -> Tensor:
        """What is predicted: log(1 + in-degree), float32 [N]."""
        return self._target[snapshot]

    def _full(self, csr: WeightedCSR) -> Full:
        host = self._host
        return Full(CSR(host(csr.indptr), host(csr.indices), host(csr.values), self.num_nodes), host(csr.scale))

    def _change(self, delta: DeltaCSR) -> Change:
        host = self._host
        rows, indptr, indices, values = host(delta.rows), host(delta.indptr), host(delta.indices), host(delta.values)
        return Change(Delta(rows, indptr, indices, values, self.num_nodes, self.num_nodes), host(delta.scale))
