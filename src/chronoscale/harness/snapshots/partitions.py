"""Partitions: how an experiment's snapshots are cut for strategies that run on vertex parts."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from chronoscale.batching.snapshots.chunks import ExactChunking, ExpectedChunking
from chronoscale.batching.snapshots.partition import VertexPartition, expected_halos, metis_partition
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.planners import planners
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.snapshots import chunks
from chronoscale.harness.snapshots import counted as kept_counts
from chronoscale.harness.snapshots.data import generated, snapshots, streamed
from chronoscale.harness.snapshots.experiment import SnapshotExperiment
from chronoscale.records import read_array
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Chunking, Partition, Workload


def cut(run: Run, sequence: SnapshotSequence, parts: int) -> Path:
    """The file of METIS's assignment, int32 [N], made once a run: a piece `parts-<n>`."""

    def make(part: Path) -> None:
        np.save(part / "assignment.npy", metis_partition(sequence, parts))

    return run.piece(f"parts-{parts}", make) / "assignment.npy"


def counted(sequence: SnapshotSequence, assignment: Path, parts: int) -> Partition:
    """An exact partition."""
    return Partition(*VertexPartition(read_array(assignment, np.int32, (sequence.num_nodes,), "partition"), parts).count(sequence))


def divided(
    experiment: SnapshotExperiment, run: Run, sequence: SnapshotSequence, work: Workload, ranks: int, planner: Strategy
) -> tuple[str, Workload]:
    """As `Trained.divided`: METIS's parts, or chunks, which are the same for any number of ranks."""
    if planner.partitioned:
        assignment = cut(run, sequence, ranks)
        return str(assignment), replace(work, partition=counted(sequence, assignment, ranks))
    if planner.chunked:
        file = chunks.kept(run, sequence, experiment.training.chunks)
        chunks.warn(experiment)
        return str(file), replace(work, chunking=ExactChunking(sequence, chunks.read(file, sequence, experiment.training.chunks)))
    return "", work


def simulated(experiment: SnapshotExperiment, work: Workload, counts: Collection[int], run: Run | None) -> Mapping[int, Workload]:
    """As `Trained.estimated`: cut by METIS where snapshots are at hand and a `run` keeps what it found; else as if nodes fell into parts at
    random, and a ChronoscaleWarning says so.

    Raises UserError for more parts or chunks than nodes.
    """
    found, asked = dict.fromkeys(counts, work), planners(experiment).values()
    at_hand = run is not None and experiment.dataset.scale == 1 and not generated(experiment.dataset)
    if any(planner.chunked for planner in asked):
        chunks.warn(experiment)
        made = _chunking(experiment, run if at_hand else None)
        found = {count: replace(one, chunking=made) for count, one in found.items()}
    if any(planner.partitioned for planner in asked):
        if max(counts) > work.snapshots.num_nodes:
            raise UserError(f"dataset '{work.name}' has {work.snapshots.num_nodes} nodes, which cannot be cut into {max(counts)} parts")
        if run is not None and at_hand:
            sequence = snapshots(experiment)
            parts: Mapping[int, Partition] = {count: counted(sequence, cut(run, sequence, count), count) for count in counts}
        else:
            parts = estimated(experiment, work, counts)
        found = {count: replace(one, partition=parts[count]) for count, one in found.items()}
    return found


def _chunking(experiment: SnapshotExperiment, run: Run | None) -> Chunking:
    """Counted, where a run keeps what METIS found; else expected."""
    count = experiment.training.chunks
    if run is None:
        message = f"dataset '{experiment.dataset.label}': chunks are taken for random ones, an estimate from degrees; METIS would cut less"
        warnings.warn(message, ChronoscaleWarning, stacklevel=2)
        return ExpectedChunking.of(streamed(experiment), count, experiment.dataset.scale)
    sequence = snapshots(experiment)
    return ExactChunking(sequence, chunks.read(chunks.kept(run, sequence, count), sequence, count))


def estimated(experiment: SnapshotExperiment, work: Workload, counts: Collection[int]) -> Mapping[int, Partition]:
    """The expected counts of a uniform random partition (`batching.snapshots.partition.expected_halo`), by number of parts."""
    if generated(experiment.dataset) or experiment.dataset.files:
        halos = kept_counts.halos(experiment, partial(streamed, experiment), list(counts))
    else:
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
