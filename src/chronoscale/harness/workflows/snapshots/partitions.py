"""Partitions of an experiment's snapshots, for strategies that run on parts of the vertices."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from chronoscale.batching.snapshots.chunks import ExactChunking, ExpectedChunking
from chronoscale.batching.snapshots.partition import VertexPartition, metis_partition
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.keys.snapshots import SnapshotExperiment
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.workflows.snapshots.chunks import cut_chunks, load_chunks, warn_of_broken_lags
from chronoscale.harness.workflows.snapshots.data import expected_halos_of, is_generated, iterate_snapshots, load_snapshots
from chronoscale.records import read_array
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Chunking, Partition, Workload


def cut_parts(run: Run, sequence: SnapshotSequence, parts: int) -> Path:
    """Cut the vertices of an experiment's snapshots into one part a rank with METIS, once a run; return the parts' file, int32 [N]."""

    def make(part: Path) -> None:
        np.save(part / "assignment.npy", metis_partition(sequence, parts))

    return run.piece(f"parts-{parts}", make) / "assignment.npy"


def count_partition(sequence: SnapshotSequence, assignment: Path, parts: int) -> Partition:
    """Count rows, edges and halo (rows of other parts that it reads) of every part of an experiment's snapshots, to plan with.

    assignment: file of each vertex's part, int32 [N], as `cut_parts` returns it. parts: how many.
    """
    return Partition(*VertexPartition(read_array(assignment, np.int32, (sequence.num_nodes,), "partition"), parts).count(sequence))


def partition_over_ranks(
    experiment: SnapshotExperiment, run: Run, sequence: SnapshotSequence, work: Workload, ranks: int, planner: Strategy
) -> tuple[str, Workload]:
    """Cut an experiment's snapshots for a strategy that is to be planned and executed on `ranks` ranks here.

    Returns METIS's file and `work` with what was counted in the cut: vertex parts, one a rank, or vertex chunks, as many on any number of
    ranks (FlareDTDG); '' and `work` as it is for a strategy that plans with neither.
    """
    if planner.partitioned:
        assignment = cut_parts(run, sequence, ranks)
        return str(assignment), replace(work, partition=count_partition(sequence, assignment, ranks))
    if planner.chunked:
        file = cut_chunks(run, sequence, experiment.training.chunks)
        warn_of_broken_lags(experiment.hyper.recency.decay)
        return str(file), replace(work, chunking=ExactChunking(sequence, load_chunks(file, sequence, experiment.training.chunks)))
    return "", work


def partition_for_simulation(
    experiment: SnapshotExperiment, work: Workload, counts: Collection[int], run: Run | None
) -> Mapping[int, Workload]:
    """Return the workload to simulate an experiment's strategies with on each number of GPUs, cut for those that plan with parts or chunks.

    counts: numbers of GPUs. METIS cuts where the snapshots are at hand and a `run` keeps the cut; else counts are those of random parts,
    with a ChronoscaleWarning. Raises UserError for more parts or chunks than nodes.
    """
    works = dict.fromkeys(counts, work)
    strategies = planners(experiment).values()
    at_hand = run is not None and experiment.dataset.scale == 1 and not is_generated(experiment.dataset)
    if any(planner.chunked for planner in strategies):
        warn_of_broken_lags(experiment.hyper.recency.decay)
        chunking = _chunking(experiment, run if at_hand else None)
        works = {count: replace(each, chunking=chunking) for count, each in works.items()}
    if any(planner.partitioned for planner in strategies):
        if max(counts) > work.snapshots.num_nodes:
            raise UserError(f"dataset '{work.name}' has {work.snapshots.num_nodes} nodes, which cannot be cut into {max(counts)} parts")
        if run is not None and at_hand:
            sequence = load_snapshots(experiment)
            partitions: Mapping[int, Partition] = {
                count: count_partition(sequence, cut_parts(run, sequence, count), count) for count in counts
            }
        else:
            partitions = random_partitions(experiment, work, counts)
        works = {count: replace(each, partition=partitions[count]) for count, each in works.items()}
    return works


def _chunking(experiment: SnapshotExperiment, run: Run | None) -> Chunking:
    """Return the chunking: counted from METIS's parts where a run can save them; else expected."""
    count = experiment.training.chunks
    if run is None:
        warning = f"dataset '{experiment.dataset.label}': chunks are taken for random ones, an estimate from degrees; METIS would cut less"
        warnings.warn(warning, ChronoscaleWarning, stacklevel=2)
        return ExpectedChunking.of(iterate_snapshots(experiment), count, experiment.dataset.scale)
    sequence = load_snapshots(experiment)
    return ExactChunking(sequence, load_chunks(cut_chunks(run, sequence, count), sequence, count))


def random_partitions(experiment: SnapshotExperiment, work: Workload, counts: Collection[int]) -> Mapping[int, Partition]:
    """Estimate the counts of METIS's partition by those of a uniform random one, for simulations without the graph.

    work: the experiment's, uncut. counts: numbers of parts. Returns by number of parts the rows, edges and halo of every part and snapshot.
    Warns that METIS would cut less.
    """
    halos = expected_halos_of(experiment, list(counts))
    warning = f"dataset '{work.name}': remote rows are those of a random partition, an estimate from degrees; METIS would cut less"
    warnings.warn(warning, ChronoscaleWarning, stacklevel=2)
    return {count: _even(work, halos[:, i] * experiment.dataset.scale, count) for i, count in enumerate(counts)}


def _even(work: Workload, halo: np.ndarray, parts: int) -> Partition:
    """Nodes and edges in equal shares, the first parts one more; as many rows sent as read."""
    stats, part = work.snapshots, np.arange(parts)
    rows = np.broadcast_to((stats.num_nodes + parts - 1 - part) // parts, (len(stats), parts))
    edges = (stats.edges[:, None] + parts - 1 - part) // parts
    read = np.broadcast_to(np.ceil(halo).astype(np.int64)[:, None], edges.shape)
    return Partition(rows, edges, read, read, origin="expected of a random partition")
