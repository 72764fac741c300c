"""Region: what one rank holds of snapshots on the host, whole or a part, and which rows it exchanges for them."""

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
from chronoscale.real_exec.execution.sending import sent
from chronoscale.real_exec.snapshots.material import Full, Material, Wanted
from chronoscale.real_exec.snapshots.objective import Objective
from chronoscale.strategies.schedule import Ints


@dataclass(frozen=True, slots=True)
class Route:
    """Rows that a rank exchanges for a snapshot: own rows `send` int64 [sent], `rows[q]` of them for rank q; `remote[q]` come from q and
    stand behind own rows, rank by rank. `back` [rows + remote, sent] adds up what ranks return of each row that was sent, in their order:
    one row may go to several. Where remote rows do not stand as they come, `arrival` int64 [remote] says which comes next, and `stands`
    when each of them comes."""

    send: Tensor
    back: Delta
    rows: list[int]
    remote: list[int]
    arrival: Tensor | None = None
    stands: Tensor | None = None

    @classmethod
    def of(cls, send: Ints, rows: list[int], remote: list[int], own: int, device: torch.device, arrival: Ints | None = None) -> Route:
        """`own`: rows that the rank has itself. `arrival`: as the field; None: in the order that they stand in."""
        place = np.argsort(send, kind="stable").astype(np.int32)
        row, first = np.unique(send[place], return_index=True)
        indptr = np.append(first, len(send)).astype(np.int64)
        ids, pointer, indices = (sent(torch.from_numpy(array), device) for array in (row.astype(np.int32), indptr, place))
        back = Delta(ids, pointer, indices, None, own + sum(remote), len(send)).mark_checked()
        turned: tuple[Tensor | None, Tensor | None] = (None, None)
        if arrival is not None and (arrival[1:] < arrival[:-1]).any():
            turned = (sent(torch.from_numpy(arrival), device), sent(torch.from_numpy(np.argsort(arrival)), device))
        return cls(sent(torch.from_numpy(send), device), back, rows, remote, *turned)


class Region(Protocol):
    """`rows` own nodes; `counts[q]` those of every rank."""

    rows: int
    counts: list[int]
    objective: Objective

    def prepare(self, snapshots: Iterable[int], targets: Iterable[int]) -> None:
        """Build what training will ask for. Raises UserError for a snapshot that does not exist."""
        ...

    def graph(self, snapshot: int) -> Full:
        """Adjacency [rows, rows + remote] and scale [rows]."""
        ...

    def route(self, snapshot: int) -> Route | None:
        """None where nothing is remote by design."""
        ...

    def features(self, snapshot: int) -> Tensor:
        """What own rows read, [rows, F]."""
        ...

    def target(self, snapshot: int) -> Tensor:
        """What own rows predict, a row each."""
        ...


class Whole:
    """Whole snapshots."""

    def __init__(self, material: Material) -> None:
        self._material, self.objective = material, material.objective
        self.rows = material.num_nodes
        self.counts = [self.rows]

    def prepare(self, snapshots: Iterable[int], targets: Iterable[int]) -> None:
        self._material.prepare([Wanted(t) for t in snapshots], targets)

    def graph(self, snapshot: int) -> Full:
        whole = self._material.form(Wanted(snapshot))
        assert isinstance(whole, Full)
        return whole

    def route(self, snapshot: int) -> Route | None:
        return None

    def features(self, snapshot: int) -> Tensor:
        return self._material.features(snapshot)

    def target(self, snapshot: int) -> Tensor:
        return self._material.target(snapshot)


class Part:
    """A part of every snapshot: rows are its own nodes in order of their ids, columns these and then the remote ones it reads."""

    def __init__(self, material: Material, cut: VertexPartition, part: int, device: torch.device) -> None:
        self._material, self._cut, self._part, self._device = material, cut, part, device
        self._own = torch.from_numpy(cut.nodes(part))
        self.rows, self.counts, self.objective = len(self._own), np.diff(cut.offset).tolist(), material.objective
        self._features: dict[int, Tensor] = {}
        self._graph: dict[int, Full] = {}
        self._route: dict[int, Route] = {}

    def prepare(self, snapshots: Iterable[int], targets: Iterable[int]) -> None:
        wanted = sorted(set(snapshots) - self._graph.keys())
        self._material.read(wanted)
        self._material.prepare([], targets)
        for t in wanted:
            if (key := self._key(t)) not in self._features:
                self._features[key] = self._host(self._material.features(t)[self._own])
            self._graph[t], self._route[t] = self._build(t)

    def graph(self, snapshot: int) -> Full:
        return self._graph[snapshot]

    def route(self, snapshot: int) -> Route | None:
        return self._route[snapshot] if self._cut.parts > 1 else None

    def features(self, snapshot: int) -> Tensor:
        return self._features[self._key(snapshot)]

    def _key(self, snapshot: int) -> int:
        return snapshot if self._material.task.varies else 0  # one for all

    def target(self, snapshot: int) -> Tensor:
        return self._material.target(snapshot)[self._own]

    def _host(self, values: Tensor) -> Tensor:
        return values.pin_memory() if self._material.pins else values

    def _build(self, t: int) -> tuple[Full, Route]:
        cut, part, snapshot = self._cut, self._part, self._material.snapshots[t]
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
        sent, come = (np.bincount(side, minlength=cut.parts).tolist() for side in (halo.reader[asked], halo.owner[mine]))
        route = Route.of(halo.row[asked] - begin, sent, come, self.rows, self._device)
        return Full(CSR(pointer, indices, values, self.rows + len(remote)).check(), scale), route
