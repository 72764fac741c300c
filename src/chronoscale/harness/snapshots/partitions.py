"""Partitions: how an experiment's snapshots are cut for strategies that run on vertex parts."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from chronoscale.datasets.snapshots.partition import Cut, expected_halos, metis
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.runs import Run
from chronoscale.harness.snapshots.data import generated, snapshots, streamed
from chronoscale.harness.snapshots.experiment import SnapshotExperiment
from chronoscale.kept import read_array
from chronoscale.strategies.workload import Partition, Workload


def cut(run: Run, sequence: SnapshotSequence, parts: int) -> Path:
    """The file of METIS's assignment, int32 [N], made once a run: a piece `parts-<n>`."""

    def make(part: Path) -> None:
        np.save(part / "assignment.npy", metis(sequence, parts))

    return run.piece(f"parts-{parts}", make) / "assignment.npy"


def counted(sequence: SnapshotSequence, assignment: Path, parts: int) -> Partition:
    """An exact partition."""
    return Partition(*Cut(read_array(assignment, np.int32, (sequence.num_nodes,), "partition"), parts).count(sequence))


def simulated(experiment: SnapshotExperiment, work: Workload, counts: Collection[int], run: Run | None) -> Mapping[int, Partition]:
    """By number of parts: cut by METIS where snapshots are at hand and a `run` keeps what it found; else as if nodes fell into parts at
    random, and a ChronoscaleWarning says so.

    Raises UserError for more parts than nodes.
    """
    if max(counts) > work.snapshots.num_nodes:
        raise UserError(f"dataset '{work.name}' has {work.snapshots.num_nodes} nodes, which cannot be cut into {max(counts)} parts")
    if run is not None and experiment.dataset.scale == 1 and not generated(experiment.dataset):
        sequence = snapshots(experiment)
        return {count: counted(sequence, cut(run, sequence, count), count) for count in counts}
    return estimated(experiment, work, counts)


def estimated(experiment: SnapshotExperiment, work: Workload, counts: Collection[int]) -> Mapping[int, Partition]:
    """The expected counts of a uniform random partition (`datasets.snapshots.partition.expected_halo`), by number of parts."""
    halos = expected_halos(streamed(experiment), list(counts))
    message = f"dataset '{work.name}': remote rows are those of a random partition, an estimate from degrees; METIS would cut less"
    warnings.warn(message, ChronoscaleWarning, stacklevel=2)
    return {count: _even(work, halos[:, i] * experiment.dataset.scale, count) for i, count in enumerate(counts)}


def _even(work: Workload, halo: np.ndarray, parts: int) -> Partition:
    """Nodes and edges in equal shares, the first parts one more; as many rows sent as read."""
    stats, part = work.snapshots, np.arange(parts)
    rows = np.broadcast_to((stats.num_nodes + parts - 1 - part) // parts, (len(stats), parts))
    edges = (stats.edges[:, None] + parts - 1 - part) // parts
    read = np.broadcast_to(np.ceil(halo).astype(np.int64)[:, None], edges.shape)
    return Partition(rows, edges, read, read, origin="expected of a random partition")
