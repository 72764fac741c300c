"""SnapshotMaterial: a snapshot sequence prepared on the host, in the forms that a schedule transfers (REAL's preprocessor, §3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from chronoscale.cuda_ext.operators.graph import CSR, Delta, EdgeMap
from chronoscale.datasets import store
from chronoscale.datasets.arrays import Float32
from chronoscale.datasets.snapshots.csr import DeltaCSR, Variant, WeightedCSR
from chronoscale.datasets.snapshots.difference import EdgeMap as HostMap
from chronoscale.datasets.snapshots.difference import delta_csr, edge_map
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.datasets.snapshots.statistics import changed_rows
from chronoscale.errors import UserError
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.snapshots.folds import UNFOLDED, Fold, SpreadRows, active_nodes, fold_snapshot, rows_before
from chronoscale.real_exec.snapshots.model import shape_of
from chronoscale.real_exec.snapshots.objective import objective_of
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.workload import Hyper, ModelChoice


class SnapshotForm(NamedTuple):
    """Request for a snapshot as a schedule transfers it: in full, or as its change from the snapshot before, which is then on the
    device; on a row for every node, or on those of a fold.
    """

    snapshot: int
    incremented: bool = False  # GCN: with the effective delta of its sums
    rebuilt: bool = False  # with its edge map
    fold: Fold = UNFOLDED

    @property
    def key(self) -> FormKey:
        """What its parts are stored under."""
        return _key(self.snapshot, self.fold)


FormKey = tuple[int, ...]  # a snapshot's number, and its fold, if it has one


def _key(snapshot: int, fold: Fold = UNFOLDED) -> FormKey:
    return (snapshot, *fold) if fold.rows else (snapshot,)


@dataclass(frozen=True, slots=True)
class Full:
    """A whole snapshot as a rank transfers it: adjacency, and row scale float32 [N] (None for attention, which has no weights either)."""

    graph: CSR
    scale: Tensor | None

    @property
    def nbytes(self) -> int:
        return self.graph.nbytes + (0 if self.scale is None else self.scale.nbytes)

    def to(self, device: torch.device, shares: bool = True) -> Full:
        """Copy a whole snapshot to a rank's device, asynchronously where the host memory is pinned.

        shares: on a CPU, one transpose serves all copies. On a GPU every copy sorts its own, which would otherwise have to be sent, or
        stored there for every snapshot.
        """
        graph = self.graph.check()
        arrived = graph.copy(shares) if device.type == "cpu" else graph.to(device, non_blocking=True)
        return Full(arrived, _copy(self.scale, device))


@dataclass(frozen=True, slots=True)
class Change:
    """A snapshot's change from the one before, as a rank transfers it (REAL's difference map).

    delta and scale: changes of unnormalised neighbour sums, with the new row scale float32 [N]; edges: the changed edges; or both.
    """

    delta: Delta | None = None
    scale: Tensor | None = None
    edges: EdgeMap | None = None

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (self.delta, self.scale, self.edges) if part is not None)

    def to(self, device: torch.device) -> Change:
        """Copy a snapshot's change to a rank's device, asynchronously where the host memory is pinned."""
        delta = None if self.delta is None else self.delta.check().to(device, non_blocking=True, copy=True)
        edges = None if self.edges is None else self.edges.check().to(device, non_blocking=True, copy=True)
        return Change(delta, _copy(self.scale, device), edges)


def _copy(source: Tensor | None, device: torch.device) -> Tensor | None:
    return None if source is None else source.to(device, non_blocking=True, copy=True)


class SnapshotMaterial:
    """Snapshots prepared in a rank's host memory as schedules transfer them, and what a task (`strategies.snapshots.tasks`) reads and
    predicts of them.

    Where the task makes no features, a dataset without any of its own gets seeded Gaussian ones of the model's width. weighted: False for
    attention, which reads no weights. Raises UserError for features of another width, and for classes that are not there.
    """

    def __init__(
        self,
        snapshots: SnapshotSequence,
        inputs: int,
        variant: Variant = "exact",
        seed: int = 0,
        pin: bool = False,
        weighted: bool = True,
        task: str = "in-degree",
        hyper: Hyper = Hyper(),  # noqa: B008  # frozen
    ) -> None:
        self.snapshots = snapshots
        self.variant = variant
        self.pins = pin
        self.weighted = weighted
        self.num_nodes, self.task = snapshots.num_nodes, task_of(task)
        self.objective = objective_of(self.task, snapshots, hyper)
        self._given = None if self.task.varies else self._host(self._static(inputs, seed))
        self._features: dict[FormKey, Tensor] = {}
        self._csr: dict[int, WeightedCSR] = {}
        self._full: dict[FormKey, Full] = {}
        self._delta: dict[FormKey, Change] = {}
        self._edges: dict[FormKey, EdgeMap] = {}
        self._target: dict[FormKey, Tensor] = {}
        self._changed: dict[FormKey, Tensor] = {}
        self._active: dict[FormKey, Tensor] = {}

    def _static(self, inputs: int, seed: int) -> Float32:
        """Return the features that all snapshots share."""
        features = self.snapshots.features
        if features is None:
            values = np.random.default_rng(seed).standard_normal((self.num_nodes, inputs), np.float32)
            return values / np.float32(np.sqrt(inputs))
        if features.shape[1] != inputs:
            raise UserError(f"dataset '{self.snapshots.name}' has {features.shape[1]} features a node, the model wants {inputs}")
        return np.array(features, np.float32)  # of its own: a map of a file cannot be written

    def _host(self, array: NDArray[Any]) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        return tensor.pin_memory() if self.pins else tensor

    def prepare(self, forms: Iterable[SnapshotForm], targets: Iterable[int] = ()) -> None:
        """Build the requested snapshots or changes in host memory ahead of training, and the values to predict.

        targets: numbers of snapshots that are predicted.

        Raises UserError for a snapshot that does not exist.
        """
        forms, targets = sorted(set(forms)), sorted(set(targets))
        last = len(self.snapshots) - 1
        if wrong := [t for t in (*(w.snapshot for w in forms), *targets) if not 0 <= t <= last]:
            raise UserError(f"dataset '{self.snapshots.name}' has snapshots 0..{last}, the schedule asks for {wrong[0]}")
        for form in forms:
            self._build(form)
        for t in targets if not self.objective.redraws else ():
            if _key(t) not in self._target:
                self._target[_key(t)] = self._host(self.objective.target(t))

    def _build(self, form: SnapshotForm) -> None:
        """Build what is missing of a snapshot's form, and its features, in host memory."""
        t, key = form.snapshot, form.key
        if not (form.incremented or form.rebuilt) and key not in self._full:
            self._full[key] = self._whole(self._snapshot(t, form.fold))
        if form.incremented and key not in self._delta:
            self._delta[key] = self._change(delta_csr(self._snapshot(t - 1, form.fold), self._snapshot(t, form.fold), self.variant))
        if form.rebuilt and key not in self._edges:
            self._edges[key] = self._map(edge_map(self._snapshot(t - 1, form.fold), self._snapshot(t, form.fold)))
        if self._given is None and key not in self._features:
            self._features[key] = self._host(self.task.features(self._snapshot(t, form.fold)))

    def _snapshot(self, t: int, fold: Fold) -> Snapshot:
        """Return a snapshot on its nodes, or on a fold's rows."""
        return (
            fold_snapshot(self.snapshots[t], self._active_of(fold.start, fold.length).numpy(), fold.rows)
            if fold.rows
            else self.snapshots[t]
        )

    def _active_of(self, start: int, length: int) -> Tensor:
        """Return the nodes with an edge in any of the `length` snapshots from `start` on, int64 [A], in host memory."""
        key = (start, length)
        if key not in self._active:
            before = self._active.get((start, length - 1))
            self._active[key] = torch.from_numpy(active_nodes(self.snapshots, start, length, None if before is None else before.numpy()))
        return self._active[key]

    def fold(self, start: int, length: int, idle: int) -> Fold:
        """Return the fold of the `length` snapshots from `start` on with `idle` rows for the nodes that have no edge in them.

        Where that saves no row, or the task does not give all of them the same features, every node has its own.
        """
        rows = len(self._active_of(start, length)) + idle if self._given is None else self.num_nodes
        return Fold(start, length, rows) if rows < self.num_nodes else UNFOLDED

    def rows_before(self, before: Fold, after: Fold) -> Tensor:
        """Return which row of a fold each row of one of more snapshots has come from, int64 [rows], in host memory; of a fold whose every
        node has its own row, too."""
        old, idle = self._active_of(before.start, before.length).numpy(), 0
        new = np.arange(self.num_nodes)
        if after.rows:
            new = self._active_of(after.start, after.length).numpy()
            idle = after.rows - len(new)
        return torch.from_numpy(rows_before(old, new, idle))

    def spread(self, fold: Fold, device: torch.device) -> SpreadRows | None:
        """Return on a device how every node has its row of a fold; None where it has its own.

        Raises ValueError for a fold on fewer rows than its snapshots need.
        """
        if not fold.rows:
            return None
        active = self._active_of(fold.start, fold.length)
        if self._given is not None or len(active) >= fold.rows:
            raise ValueError(f"snapshots {fold.start} to {fold.start + fold.length - 1} cannot be computed on {fold.rows} rows")
        return SpreadRows(active.to(device), self.num_nodes)

    def read(self, snapshots: Iterable[int]) -> None:
        """Build the input features of these snapshots' nodes in host memory ahead of training, where every snapshot has its own."""
        for t in sorted(set(snapshots)) if self._given is None else ():
            if _key(t) not in self._features:
                self._features[_key(t)] = self._host(self.task.features(self.snapshots[t]))

    def lasting(self, first: int, count: int) -> Tensor:
        """Return which rows stay as they are in `count` snapshots from the `first` on, bool [N], in host memory."""
        for t in range(first + 1, first + count):
            if _key(t) not in self._changed:
                changed = changed_rows(self.snapshots[t - 1], self.snapshots[t], listed=not self.weighted)
                self._changed[_key(t)] = torch.from_numpy(np.flatnonzero(changed))
        stays = torch.ones(self.num_nodes, dtype=torch.bool)
        for t in range(first + 1, first + count):
            stays[self._changed[_key(t)]] = False
        return stays

    def csr(self, snapshot: int) -> WeightedCSR:
        """Return a whole snapshot's adjacency in host memory, built on first use."""
        if snapshot not in self._csr:
            self._csr[snapshot] = self.snapshots[snapshot].csr(self.variant)
        return self._csr[snapshot]

    def form(self, form: SnapshotForm) -> Full | Change:
        """Return a prepared snapshot, whole or as its change, in host memory."""
        key = form.key
        if not (form.incremented or form.rebuilt):
            return self._full[key]
        change = self._delta[key] if form.incremented else Change()
        return replace(change, edges=self._edges[key]) if form.rebuilt else change

    def stores(self) -> Mapping[str, dict[FormKey, Any]]:
        """Return all that is prepared, by kind and snapshot or fold: what `material_files` carries to the ranks' processes."""
        forms: dict[str, dict[FormKey, Any]] = {"full": self._full, "delta": self._delta, "edges": self._edges}
        return {**forms, "target": self._target, "features": self._features, "active": self._active, "changed": self._changed}

    def target(self, snapshot: int, epoch: int = 0) -> Tensor:
        """Return the values to predict of a snapshot, a row a node, in host memory: those that were prepared, or, for an objective that
        redraws, the epoch's own."""
        return self._host(self.objective.target(snapshot, epoch)) if self.objective.redraws else self._target[_key(snapshot)]

    def truth(self, snapshot: int) -> Tensor:
        """Return what predictions of a held-out snapshot are scored against, in host memory."""
        return self._host(self.objective.truth(snapshot)) if self.objective.redraws else self._target[_key(snapshot)]

    def features(self, snapshot: int, fold: Fold = UNFOLDED) -> Tensor:
        """Return the input features of a snapshot's nodes, or of a fold's rows, float32 [N, F], in host memory.

        They are the same tensor for all snapshots, or the snapshot's own, which was prepared.
        """
        return self._features[_key(snapshot, fold)] if self._given is None else self._given

    def _whole(self, snapshot: Snapshot) -> Full:
        csr, host = snapshot.csr(self.variant), self._host
        weights = (host(csr.values), host(csr.scale)) if self.weighted else (None, None)
        return Full(CSR(host(csr.indptr), host(csr.indices), weights[0], snapshot.num_nodes).check(), weights[1])

    def _change(self, delta: DeltaCSR) -> Change:
        host = self._host
        rows, indptr, indices, values, fresh = (host(part) for part in (delta.rows, delta.indptr, delta.indices, delta.values, delta.fresh))
        return Change(Delta(rows, indptr, indices, values, len(delta.scale), len(delta.scale), fresh).check(), host(delta.scale))

    def _map(self, edges: HostMap) -> EdgeMap:
        host = self._host
        return EdgeMap(host(edges.rows), host(edges.indptr), host(edges.indices), host(edges.sign), edges.num_nodes).check()


def material_of(item: Item, choice: ModelChoice, context: Context) -> SnapshotMaterial:
    """Load an item's snapshots on a rank for training, with nothing prepared yet; memory will be pinned where they go to a GPU.

    item: what the rank executes: the dataset's folder and hyper-parameters. choice: the model, whose inputs features are made for.
    """
    snapshots = store.load(item.dataset)
    assert isinstance(snapshots, SnapshotSequence)
    variant: Variant = "exact" if item.hyper.variant == "exact" else "as-published"
    weighted = shape_of(choice).spatial == "gcn"
    seed, pin = context.settings.seed, context.device.type == "cuda"
    return SnapshotMaterial(snapshots, choice.inputs, variant, seed, pin, weighted, item.hyper.task, item.hyper)


def shared_material(item: Item, choice: ModelChoice, context: Context) -> SnapshotMaterial:
    """Return an item's snapshots on a rank for training, one object for all items of a job that read the same, and for all ranks of a
    process.

    item: what the rank executes: the dataset's folder and hyper-parameters. choice: the model, whose inputs features are made for.
    """
    hyper = item.hyper
    key = ("material", item.dataset, hyper.variant, hyper.task, hyper.held, hyper.links, hyper.seed)
    return context.share_between_ranks(key, lambda: material_of(item, choice, context))
