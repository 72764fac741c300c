"""Vertex partitions: which part owns a node, and which rows of others a part reads in a snapshot."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from chronoscale.datasets.arrays import Float64, Int32, Int64
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.errors import MachineError, UserError

# METIS in a process of its own: it prints, draws from the process's random numbers, and ends it where it fails.
_METIS = """
import sys
import numpy, torch, dgl
edges, parts, out, mode = numpy.load(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
graph = dgl.graph((torch.from_numpy(edges["src"]), torch.from_numpy(edges["dst"])), num_nodes=int(edges["nodes"]))
numpy.save(out, dgl.metis_partition_assignment(graph, parts, mode=mode).numpy().astype("int32"))
"""


def metis_partition(snapshots: SnapshotSequence, parts: int, mode: Literal["k-way", "recursive"] = "k-way") -> Int32:
    """Partition the nodes of a snapshot dataset with METIS on the union of all snapshots, for the least cut, balanced by nodes: the part of
    every node, int32 [N]; by recursive bisection, numbers tell which side of every cut a part is on.

    Two calls may differ: keep what one returned. Raises UserError for more parts than nodes, MachineError where METIS (which comes with DGL
    1.1.3) is absent or fails.
    """
    nodes = snapshots.num_nodes
    if not 1 <= parts <= nodes:
        raise UserError(f"dataset '{snapshots.name}' has {nodes} nodes, which cannot be cut into {parts} parts")
    keys = np.unique(snapshots.dst.astype(np.int64) * nodes + snapshots.src)
    return metis_assignment(keys % nodes, keys // nodes, nodes, parts, mode)


def metis_assignment(src: Int64, dst: Int64, nodes: int, parts: int, mode: Literal["k-way", "recursive"] = "k-way") -> Int32:
    """Partition `nodes` nodes with METIS on the edges (src, dst), int64 [E] each: the part of every node, int32 [N]. Parallel edges may
    keep METIS from ending. Raises MachineError where METIS is absent or fails."""
    if parts == 1:  # METIS divides by the number of cuts
        return np.zeros(nodes, np.int32)
    with tempfile.TemporaryDirectory() as folder:
        edges, out = Path(folder) / "edges.npz", Path(folder) / "parts.npy"
        np.savez(edges, src=src, dst=dst, nodes=np.int64(nodes))
        process = subprocess.run([sys.executable, "-c", _METIS, str(edges), str(parts), str(out), mode], capture_output=True, text=True)
        if not out.exists():
            reason = (process.stderr.strip().splitlines() or [f"it ended with code {process.returncode}"])[-1]
            raise MachineError(f"METIS (dgl==1.1.3, Python below 3.12) could not cut {nodes} nodes into {parts} parts: {reason}")
        assignment: Int32 = np.load(out)
    return assignment


@dataclass(frozen=True, eq=False)
class VertexPartition:
    """Partition of a graph's nodes into `parts` parts, one a rank: `assignment` int32 [N] is the part of every node. Nodes are renumbered
    so that a part's are consecutive, in order of their ids.

    Raises UserError when a node has no part.
    """

    assignment: Int32
    parts: int

    def __post_init__(self) -> None:
        if self.assignment.ndim != 1 or (self.assignment < 0).any() or (self.assignment >= self.parts).any():
            raise UserError(f"a partition needs one part of 0..{self.parts - 1} for every node")

    @cached_property
    def order(self) -> Int64:
        """Old ids of nodes by new id, int64 [N]."""
        return np.argsort(self.assignment, kind="stable")

    @cached_property
    def place(self) -> Int64:
        """New ids of nodes by old id, int64 [N]."""
        place = np.empty(len(self.order), np.int64)
        place[self.order] = np.arange(len(place))
        return place

    @cached_property
    def offset(self) -> Int64:
        """First new id of each part, int64 [parts + 1]: offset[p]:offset[p+1] are part p's."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.assignment, minlength=self.parts))]).astype(np.int64)

    def nodes(self, part: int) -> Int64:
        """Return the ids of a part's own nodes, ascending: int64."""
        return self.order[self.offset[part] : self.offset[part + 1]]

    def halo(self, snapshot: Snapshot) -> PartitionHalo:
        """Find which rows parts read of each other in a snapshot, because an edge ends in one part and starts in another."""
        nodes = len(self.order)
        reader, owner = self.assignment[snapshot.dst].astype(np.int64), self.assignment[snapshot.src]
        cut = reader != owner
        keys = np.unique(reader[cut] * nodes + self.place[snapshot.src[cut]])
        reader, row = np.divmod(keys, nodes)
        return PartitionHalo(reader, self.assignment[self.order[row]].astype(np.int64), row)

    def count(self, snapshots: Iterable[Snapshot]) -> tuple[Int64, Int64, Int64, Int64]:
        """Count, for each snapshot and part: own rows, edges that end in the part, rows of other parts that it reads, own rows that others
        read; int64 [T, parts] each."""
        counts = []
        for snapshot in snapshots:
            halo = self.halo(snapshot)
            ends = self.assignment[snapshot.dst], halo.reader, halo.owner
            counts.append([np.diff(self.offset), *(np.bincount(column, minlength=self.parts) for column in ends)])
        rows, edges, read, sent = np.array(counts, np.int64).transpose(1, 0, 2)
        return rows, edges, read, sent


@dataclass(frozen=True, slots=True, eq=False)
class PartitionHalo:
    """Rows of a snapshot that parts read of each other, int64 [n] each: part `reader` reads `row` (a new id) of part `owner`; by reader,
    then row."""

    reader: Int64
    owner: Int64
    row: Int64


def expected_halo(out_degree: Int64, parts: int) -> float:
    """Estimate, from the out-degrees of a snapshot's nodes alone, how many rows of others each of `parts` parts reads if nodes are assigned
    at random: for planners, where a graph is not partitioned.

    A node with d out-edges lies outside the part with probability 1 - 1/P, and one of its d readers inside it with 1 - (1 - 1/P)^d: the sum
    over nodes. This is the replication factor of random vertex cuts (PowerGraph, Gonzalez et al.; OSDI 2012, §5.1, theorem 5.2), with rows
    read in place of replicas. METIS cuts less, so it is an upper estimate.
    """
    degree, nodes = np.unique(out_degree, return_counts=True)
    outside = 1 - 1 / parts
    return float((nodes * outside * (1 - outside**degree)).sum())


def expected_halos(snapshots: Iterable[Snapshot], counts: Sequence[int]) -> Float64:
    """Estimate the rows that parts read of each other if nodes are assigned at random (`expected_halo`), for every snapshot and each number
    of parts in `counts`: float64 [T, counts]. One snapshot is in memory at a time."""
    halos = []
    for snapshot in snapshots:
        degree = np.bincount(snapshot.src, minlength=snapshot.num_nodes)
        halos.append([expected_halo(degree, parts) for parts in counts])
    return np.array(halos)
