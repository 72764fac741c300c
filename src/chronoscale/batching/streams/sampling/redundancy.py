"""Redundancy: how often what is sampled for a stream's batches repeats, within a batch and from one to the next (FAST Table 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.datasets.arrays import Float64, Int32, Int64
from chronoscale.errors import UserError

FANOUT, BATCH = 10, 2_000  # FAST §6.1


@dataclass(frozen=True, slots=True)
class RedundancyDefinition:
    """Definition of how redundancy in the sampled batches of an event stream is measured: what FAST §3.1 leaves open, set to what agrees
    with most of Table 1.

    fanouts: of each hop, the nearest first. One hop: two of LastFM's 1,980 nodes would repeat at 99 %, not 93.5. roots: whether a batch's
    own nodes count among its node ids. Without them: with them LastFM's R of 93.5 % would be all of its nodes in every batch, and M not
    91.8 but 100 %. lag: pairs are batches i and i + lag; edges of batches far apart have nothing in common. Negatives are not roots, unless
    they are given to `measure_redundancy`: with them R of LastFM is 95 % at least.
    """

    fanouts: tuple[int, ...] = (FANOUT,)
    roots: bool = False
    lag: int = 1

    def __post_init__(self) -> None:
        if self.lag < 1 or not self.fanouts or min(self.fanouts) < 1:
            raise UserError(f"redundancy: expected fan-outs and a lag of at least 1, got {list(self.fanouts)} and {self.lag}")


DEFAULT = RedundancyDefinition()


class RedundancyRates(NamedTuple):
    """Rates at which sampled nodes and sampled edges (events) repeat, shares of 1; NaN where no batch has any."""

    node: float
    edge: float


@dataclass(frozen=True, slots=True, eq=False)
class Redundancy:
    """Redundancy of the batches sampled from an event stream: how often ids repeat in them (FAST §3.1). match: of two batches, M_ij = N_o /
    min(N_i, N_j), N counting different ids, N_o those in both (with repetitions it could not pass 1 - R). repeat: within a batch, R_i = 1 -
    N_u / N_i, N_u the different ids and N_i all. Both are means over batches, or pairs of them, that have ids.

    degrees int64 [fan-out + 1]: roots of all batches by the number of neighbours that the first hop sampled for them, once for each time
    that they are roots.
    """

    match: RedundancyRates
    repeat: RedundancyRates
    degrees: Int64

    @property
    def unbalance(self) -> float:
        """How far the degrees of roots (neighbours sampled for each) lie below the largest: eq. 2 of FAST summed over degrees, (D_max -
        mean degree) / (D_max - 1). Roots without a neighbour have degree 0, and count; more than 1 where they are many. NaN where D_max is
        below 2."""
        most = int(np.flatnonzero(self.degrees).max(initial=0))
        return (most - self.degree) / (most - 1) if most > 1 else float("nan")

    @property
    def degree(self) -> float:
        """Mean number of neighbours that the first hop sampled for a root."""
        return float(self.distribution @ np.arange(self.degrees.size))

    @property
    def degree_of_found(self) -> float:
        """Mean number of neighbours that the first hop sampled for a root that has any; NaN where none has."""
        roots = int(self.degrees[1:].sum())
        return float(self.degrees @ np.arange(self.degrees.size)) / roots if roots else float("nan")

    @property
    def distribution(self) -> Float64:
        """Share of the roots that have each number of sampled neighbours, float64 [fan-out + 1] (FAST Figure 3); zeros without a root."""
        return np.asarray(self.degrees / max(int(self.degrees.sum()), 1), np.float64)


class _BatchIds(NamedTuple):
    """Sampled ids of one batch: how many, and the different ones, for nodes and edges; and its roots' degrees."""

    total: tuple[int, int]
    different: tuple[Int32, Int32]
    degrees: Int64


def measure_redundancy(
    source: IndexedStream,
    assignment: BatchAssignment,
    definition: RedundancyDefinition = DEFAULT,
    negatives: Callable[[range], Int32] | None = None,
) -> Redundancy:
    """Measure, exactly, how much of what is sampled for an event stream's batches repeats within each batch and from it to the one
    `definition.lag` later, with most recent neighbours (FAST Table 1).

    assignment: the batches, of one rank. negatives(events): negatives [B] or [B, k] of a batch, as roots beside its events' ends; None:
    without. Two batches are in memory at once. Raises UserError where the assignment is of several ranks, or has no batch.
    """
    if assignment.ranks != 1 or not assignment.iterations:
        raise UserError(f"redundancy: expected batches of one rank, got {assignment.iterations} of {assignment.ranks}")
    repeats = []
    matches = []
    degrees = np.zeros(definition.fanouts[0] + 1, np.int64)
    ahead: dict[int, _BatchIds] = {}
    for iteration in range(assignment.iterations):
        part = assignment.all_events(iteration)
        current = ahead.pop(part.start, None) or _sample_ids(source, part, definition, negatives)
        degrees += current.degrees
        repeats.append([1 - ids.size / total if total else np.nan for ids, total in zip(current.different, current.total, strict=True)])
        start = part.start + definition.lag * assignment.size
        if start < assignment.part.stop:
            later = _sample_ids(source, range(start, min(start + assignment.size, assignment.part.stop)), definition, negatives)
            matches.append([_match_rate(*pair) for pair in zip(current.different, later.different, strict=True)])
            ahead = {start: later}  # the next one, where every batch is looked at
    return Redundancy(_mean_rates(matches), _mean_rates(repeats), degrees)


def _sample_ids(
    source: IndexedStream, part: range, definition: RedundancyDefinition, negatives: Callable[[range], Int32] | None
) -> _BatchIds:
    negative = np.empty((len(part), 0), np.int32) if negatives is None else negatives(part)
    node, before, _ = source.roots(part, negative, part.start)
    nodes, edges = [node] if definition.roots else [], []
    hops = source.tcsr.hops(node, before, definition.fanouts)
    for hop in hops:
        there = hop.sampled.event >= 0
        nodes.append(hop.sampled.neighbor[there])
        edges.append(hop.sampled.event[there])
    ids = np.concatenate(nodes), np.concatenate(edges)
    degrees = np.bincount(hops[0].sampled.counts, minlength=definition.fanouts[0] + 1)
    return _BatchIds((ids[0].size, ids[1].size), (np.unique(ids[0]), np.unique(ids[1])), degrees)


def _match_rate(first: Int32, second: Int32) -> float:
    least = min(first.size, second.size)
    return np.intersect1d(first, second, assume_unique=True).size / least if least else float("nan")


def _mean_rates(rates: list[list[float]]) -> RedundancyRates:
    known = np.array(rates, np.float64).reshape(-1, 2)
    return RedundancyRates(*(float(column[~np.isnan(column)].mean()) if not np.isnan(column).all() else float("nan") for column in known.T))
