"""Footprint: memory of training MPNN-LSTM under ESDG, DynaGraph and DynaHB, from counts a snapshot alone (FlareDTDG §2.3, Table 1).

All bytes are of all ranks together. Nothing is built: what a system holds is rows of the snapshots times what a row takes, so that 111
million nodes and 222 snapshots take as long as ten. Parameters, labels and what an allocator reserves beyond its tensors are not in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.datasets.snapshots.csr import WeightedCSR
from chronoscale.datasets.snapshots.statistics import SnapshotStatistics
from chronoscale.errors import UserError
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.snapshots.rows import FP32
from chronoscale.strategies.workload import GATES


@dataclass(frozen=True, slots=True)
class MPNNSizes:
    """Sizes of the model MPNN-LSTM in estimates of device memory: `convolutions` GCN layers, then `cells` LSTM cells, all of width
    `hidden`, on `inputs` numbers a node.

    Raises UserError for a size below 1.
    """

    inputs: int
    hidden: int
    convolutions: int = 2
    cells: int = 2

    def __post_init__(self) -> None:
        if min(self.inputs, self.hidden, self.convolutions, self.cells) < 1:
            raise UserError(f"a stack needs inputs, hidden, convolutions and cells of at least 1, got {self}")

    @property
    def checkpoint(self) -> int:
        """The numbers that gradient checkpointing keeps of a vertex and step: the first cell's input, state and memory of each cell."""
        return self.hidden * (1 + 2 * self.cells)

    @property
    def recurrence(self) -> int:
        """The numbers that the cells' backward pass reads of a vertex and step: gates, state, memory and its tanh."""
        return self.cells * (GATES["lstm"] + 3) * self.hidden

    @property
    def gradients(self) -> int:
        """The numbers of a vertex whose gradients are live at once, one step's: a cell's gates, state and memory of each."""
        return (GATES["lstm"] + 2 * self.cells) * self.hidden

    def convolution(self, layer: int) -> int:
        """Return the numbers that the backward pass of a GCN layer (0-based) reads of a vertex: its neighbours' sum, its output."""
        return (self.inputs if layer == 0 else self.hidden) + self.hidden


@dataclass(frozen=True, slots=True)
class Footprint:
    """Estimated peak memory of a training system, all ranks together, bytes: adjacencies; input features, or sums of them; saved
    activations and states of all steps (`kept`); working memory of one step."""

    adjacency: float
    inputs: float
    kept: float
    working: float

    @property
    def total(self) -> float:
        """The bytes in all, of all ranks together."""
        return self.adjacency + self.inputs + self.kept + self.working


def feature_bytes(nodes: int, width: int) -> int:
    """Return the bytes of one snapshot's float32 features, for estimates of memory. width: numbers a node."""
    return nodes * width * FP32


def esdg_footprint(stats: SnapshotStatistics, stack: MPNNSizes, window: int) -> Footprint:
    """Estimate the device memory of training by ESDG, all ranks together (FlareDTDG §2.2, §2.3, Table 1): `window` whole snapshots, with
    all of which its backward pass begins.

    Gradient checkpointing saves the input of every step's cells; one step is computed again. Gradients of what convolutions put out take
    the place of the inputs that they belong to, step by step. It is T N (d_feat + d_hidden) with constants: 1 and 1 + 2 cells. Peak over
    windows of consecutive snapshots. Raises UserError for a window of no or more snapshots than there are.
    """
    nodes = stats.num_nodes
    working = nodes * (stack.recurrence + stack.gradients) * FP32
    return Footprint(
        _adjacency(stats, window), window * feature_bytes(nodes, stack.inputs), window * nodes * stack.checkpoint * FP32, working
    )


def dynagraph_footprint(stats: SnapshotStatistics, stack: MPNNSizes, window: int) -> Footprint:
    """Estimate the device memory of training by DynaGraph, all ranks together (FlareDTDG §2.2, §4.1): each rank has its own vertices of a
    sliding window of `window` snapshots.

    The first layer's sums are cached in place of the features that they are made from. No checkpointing: all that the backward pass of
    every layer and of the output reads is saved. Sampling thins edges, not vertices; fan-outs are not printed, so edges are all of them: an
    upper bound, a small part of the whole. Peak over windows of consecutive snapshots. Raises UserError for a window of no or more
    snapshots than there are.
    """
    nodes, first = stats.num_nodes, stack.inputs
    row = sum(stack.convolution(layer) for layer in range(stack.convolutions)) - first + stack.recurrence + stack.hidden
    activations = window * nodes * row * FP32
    return Footprint(_adjacency(stats, window), window * feature_bytes(nodes, first), activations, nodes * stack.gradients * FP32)


def dynahb_cache_bytes(stats: SnapshotStatistics, width: int, ranks: int, hops: int = 2) -> float:
    """Estimate the host memory of DynaHB's feature cache, all ranks together (FlareDTDG §2.2, §2.3): features, `width` float32 each, of all
    vertices within `hops` of a rank's own, for every rank and snapshot.

    Raises UserError for less than 1 rank or 0 hops.
    """
    return float(rows_within_reach(stats, ranks, hops)[hops].sum()) * width * FP32


def dynahb_footprint(stats: SnapshotStatistics, stack: MPNNSizes, window: int, ranks: int) -> Footprint:
    """Estimate the device memory of training by DynaHB, all ranks together, if a batch were a rank's whole part; how its batch adjuster
    would cut it is not printed: an upper bound.

    As DynaGraph's, but with features of all vertices within reach, and what is below the top layer is computed for more than a rank's own.
    Raises UserError for a window of no or more snapshots than there are, and for less than 1 rank.
    """
    rows = rows_within_reach(stats, ranks, stack.convolutions)
    layers = [_heaviest(rows[stack.convolutions - 1 - layer], window) * stack.convolution(layer) for layer in range(stack.convolutions)]
    nodes = stats.num_nodes
    activations = (sum(layers) + window * nodes * (stack.recurrence + stack.hidden)) * FP32
    inputs = _heaviest(rows[stack.convolutions], window) * stack.inputs * FP32
    return Footprint(_adjacency(stats, window), inputs, activations, nodes * stack.gradients * FP32)


def rows_within_reach(stats: SnapshotStatistics, ranks: int, hops: int) -> Floats:
    """Estimate how many vertices ranks read for their own, 0 to `hops` hops away, all ranks together; float64 [hops + 1, snapshots], own
    ones first. For estimates of DynaHB's memory.

    Expected of a balanced random partition: a share 1 - 1/P of in-neighbours is another's, distinct as uniform draws among the other ranks'
    active nodes (occupancy), and their in-degree is the mean one. METIS cuts less. As `ModelledDynaHB.hops` counts, for each snapshot and
    not rounded. Raises UserError for less than 1 rank or 0 hops.
    """
    if ranks < 1 or hops < 0:
        raise UserError(f"a neighbourhood needs at least 1 rank and 0 hops, got {ranks} and {hops}")
    away, nodes = 1 - 1 / ranks, stats.num_nodes
    pool = np.maximum(stats.nodes * away, 2.0)
    rows = [np.full(len(stats), nodes / ranks)]
    for _ in range(hops):
        crossing = rows[-1] * (stats.edges / nodes) * away
        met = np.minimum(-pool * np.expm1(crossing * np.log1p(-1 / pool)), crossing)
        rows.append(np.minimum(np.maximum(rows[-1], rows[0] + met), nodes))
    return ranks * np.stack(rows)


def _adjacency(stats: SnapshotStatistics, window: int) -> float:
    """Return the largest bytes of the adjacencies of `window` consecutive snapshots."""
    nodes = stats.num_nodes
    return _heaviest(np.asarray(WeightedCSR.nbytes_of(nodes, stats.edges), np.float64), window)


def _heaviest(column: Floats, window: int) -> float:
    """Return the largest sum over `window` consecutive snapshots. Raises UserError for a window of no or more snapshots than there are."""
    if not 1 <= window <= len(column):
        raise UserError(f"window: expected 1..{len(column)} snapshots, got {window}")
    sums = np.concatenate([[0.0], np.cumsum(column)])
    return float((sums[window:] - sums[:-window]).max())
