"""Region: the rows of snapshots that one rank has on the host, all or a part, and which rows it exchanges for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from chronoscale.batching.snapshots.partition import VertexPartition
from chronoscale.cuda_ext.operators.graph import CSR, Delta
from chronoscale.datasets.snapshots.csr import WeightedCSR
from chronoscale.real_exec.execution.transfers import to_device
from chronoscale.real_exec.snapshots.folds import UNFOLDED, Fold, SpreadRows
from chronoscale.real_exec.snapshots.material import Full, SnapshotForm, SnapshotMaterial
from chronoscale.real_exec.snapshots.objective import Objective
from chronoscale.strategies.schedule import Ints


@dataclass(frozen=True, slots=True)
class Route:
    """Which rows (nodes) of a snapshot one rank exchanges with which others.

    send int64 [sent]: own rows, `rows[q]` of them for rank q. remote[q]: rows that come from q; they stand behind own rows, rank by rank.
    back [rows + remote, sent]: adds up what ranks return of each row that was sent, in their order; one row may go to several. Where remote
    rows do not stand in the order in which they arrive, `arrival` int64 [remote] says which arrives next, and `stands` when each of them
    does.
    """

    send: Tensor
    back: Delta
    rows: list[int]
    remote: list[int]
    arrival: Tensor | None = None
    stands: Tensor | None = None

    @classmethod
    def of(cls, send: Ints, rows: list[int], remote: list[int], own: int, device: torch.device, arrival: Ints | None = None) -> Route:
        """Build the route of a snapshot's rows between this rank and the others, on its device.

        send: own rows to send, rank by rank. rows, remote: how many go to and come from each rank. own: rows that the rank has itself.
        arrival: as the field; None: rows arrive in the order in which they stand.
        """
        place = np.argsort(send, kind="stable").astype(np.int32)
        row, first = np.unique(send[place], return_index=True)
        indptr = np.append(first, len(send)).astype(np.int64)
        ids, pointer, indices = (to_device(torch.from_numpy(array), device) for array in (row.astype(np.int32), indptr, place))
        back = Delta(ids, pointer, indices, None, own + sum(remote), len(send)).mark_checked()
        turned: tuple[Tensor | None, Tensor | None] = (None, None)
        if arrival is not None and (arrival[1:] < arrival[:-1]).any():
            turned = (to_device(torch.from_numpy(arrival), device), to_device(torch.from_numpy(np.argsort(arrival)), device))
        return cls(to_device(torch.from_numpy(send), device), back, rows, remote, *turned)


class Region(Protocol):
    """The nodes of snapshots that one rank computes, and their data in host memory. rows: own nodes; counts[q]: those of rank q.

    Where a group is computed on a fold's rows, `fold` says so; the region has then that many rows.
    """

    rows: int
    counts: list[int]
    objective: Objective

    def fold(self, start: int, length: int, rows: int) -> Fold:
        """Return on which rows the rank computes the `length` snapshots from `start` on, of which a plan has `rows`."""
        ...

    def spread(self, fold: Fold, device: torch.device) -> SpreadRows | None:
        """Return on a device how every node has its row of a fold; None where it has its own."""
        ...

    def prepare(self, snapshots: Iterable[int], targets: Iterable[int], folds: Iterable[tuple[int, Fold]] = ()) -> None:
        """Build in host memory what training will ask for of the rank's nodes. targets: numbers of snapshots that are predicted. folds:
        numbers of snapshots with the folds that they are computed on.

        Raises UserError for a snapshot that does not exist.
        """
        ...

    def graph(self, snapshot: int, fold: Fold = UNFOLDED) -> Full:
        """Return the rank's rows of a snapshot's adjacency, [rows, rows + remote], with their scale [rows], in host memory."""
        ...

    def route(self, snapshot: int) -> Route | None:
        """Return which rows of a snapshot the rank exchanges with which others; None where a region never has any."""
        ...

    def features(self, snapshot: int, fold: Fold = UNFOLDED) -> Tensor:
        """Return a snapshot's input features of the rank's nodes, [rows, F], in host memory."""
        ...

    def target(self, snapshot: int, epoch: int = 0) -> Tensor:
        """Return the true values to predict of the rank's nodes in a snapshot, a row each, or its pairs of nodes, in host memory. epoch:
        of training, for an objective that redraws."""
        ...


class WholeRegion:
    """Region of a rank that computes all nodes of a snapshot."""

    def __init__(self, material: SnapshotMaterial) -> None:
        self._material, self.objective = material, material.objective
        self.rows = material.num_nodes
        self.counts = [self.rows]

    def fold(self, start: int, length: int, rows: int) -> Fold:
        return Fold(start, length, rows) if rows < self.rows else UNFOLDED

    def spread(self, fold: Fold, device: torch.device) -> SpreadRows | None:
        return self._material.spread(fold, device)

    def prepare(self, snapshots: Iterable[int], targets: Iterable[int], folds: Iterable[tuple[int, Fold]] = ()) -> None:
        forms = [SnapshotForm(t) for t in snapshots] + [SnapshotForm(t, fold=fold) for t, fold in folds]
        self._material.prepare(forms, targets)

    def graph(self, snapshot: int, fold: Fold = UNFOLDED) -> Full:
        whole = self._material.form(SnapshotForm(snapshot, fold=fold))
        assert isinstance(whole, Full)
        return whole

    def route(self, snapshot: int) -> Route | None:
        return None

    def features(self, snapshot: int, fold: Fold = UNFOLDED) -> Tensor:
        return self._material.features(snapshot, fold)

    def target(self, snapshot: int, epoch: int = 0) -> Tensor:
        return self._material.target(snapshot, epoch)


class PartRegion:
    """Region of a rank that computes one part of a vertex partition.

    Rows are its own nodes in order of their ids, columns these and then the remote ones it reads.
    """

    def __init__(self, material: SnapshotMaterial, cut: VertexPartition, part: int, device: torch.device) -> None:
        self._material = material
        self._cut = cut
        self._part = part
        self._device = device
        self._own = torch.from_numpy(cut.nodes(part))
        self._place = torch.from_numpy(cut.place.astype(np.int32))
        self.rows = len(self._own)
        self.counts = np.diff(cut.offset).tolist()
        self.objective = material.objective
        self._features: dict[int, Tensor] = {}
        self._graph: dict[int, Full] = {}
        self._route: dict[int, Route] = {}

    def fold(self, start: int, length: int, rows: int) -> Fold:
        """Return that every node has its own row: parts are not folded."""
        return UNFOLDED

    def spread(self, fold: Fold, device: torch.device) -> SpreadRows | None:
        return None

    def prepare(self, snapshots: Iterable[int], targets: Iterable[int], folds: Iterable[tuple[int, Fold]] = ()) -> None:
        snapshots = {*snapshots, *(t for t, _ in folds)}
        missing = sorted(set(snapshots) - self._graph.keys())
        self._material.read(missing)
        self._material.prepare([], targets)
        for t in missing:
            if (key := self._key(t)) not in self._features:
                self._features[key] = self._host(self._material.features(t)[self._own])
            self._graph[t], self._route[t] = self._build(t)

    def graph(self, snapshot: int, fold: Fold = UNFOLDED) -> Full:
        return self._graph[snapshot]

    def route(self, snapshot: int) -> Route | None:
        return self._route[snapshot] if self._cut.parts > 1 else None

    def features(self, snapshot: int, fold: Fold = UNFOLDED) -> Tensor:
        return self._features[self._key(snapshot)]

    def _key(self, snapshot: int) -> int:
        return snapshot if self._material.task.varies else 0  # one for all

    def target(self, snapshot: int, epoch: int = 0) -> Tensor:
        target = self._material.target(snapshot, epoch)
        return self._host(self._place[target]) if self._material.task.pairs else target[self._own]

    def _host(self, values: Tensor) -> Tensor:
        return values.pin_memory() if self._material.pins else values

    def _build(self, t: int) -> tuple[Full, Route]:
        cut = self._cut
        part = self._part
        snapshot = self._material.snapshots[t]
        halo, begin = cut.halo(snapshot), int(cut.offset[part])
        mine, asked = halo.reader == part, halo.owner == part
        remote = halo.row[mine]
        csr: WeightedCSR = snapshot.csr(self._material.variant)
        own = cut.nodes(part)
        degree = np.diff(csr.indptr)[own]
        indptr = np.concatenate([[0], np.cumsum(degree)]).astype(np.int64)
        entry = np.repeat(csr.indptr[own] - indptr[:-1], degree) + np.arange(indptr[-1])
        column = cut.place[csr.indices[entry]]
        inside = (column >= begin) & (column < begin + self.rows)
        local = np.where(inside, column - begin, self.rows + np.searchsorted(remote, column)).astype(np.int32)
        pointer, indices = (self._host(torch.from_numpy(array)) for array in (indptr, local))
        values = scale = None
        if self._material.weighted:
            values, scale = (self._host(torch.from_numpy(array)) for array in (csr.values[entry], csr.scale[own]))
        outgoing, incoming = (np.bincount(side, minlength=cut.parts).tolist() for side in (halo.reader[asked], halo.owner[mine]))
        route = Route.of(halo.row[asked] - begin, outgoing, incoming, self.rows, self._device)
        return Full(CSR(pointer, indices, values, self.rows + len(remote)).check(), scale), route
