"""Boundary: sampling that keeps to the own part of a stream, with a few neighbours from the others and weights that make up for the rest
(MemShare, section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

from chronoscale.batching.streams.partitioning.partition import EventPartition
from chronoscale.cuda_ext.native.arguments import CachedRows, Ownership, WeightedNeighbors
from chronoscale.cuda_ext.sampling import boundary_decay as kernel
from chronoscale.datasets.arrays import Int32, Numbers
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import UserError


@dataclass(frozen=True, slots=True)
class Boundary:
    """Settings of sampling neighbours across the boundary of a rank's part of a partitioned stream (MemShare §3.3): all local neighbours,
    and a few remote ones, weighted to stand for the rest.

    theta: of a root's remote neighbours, the share that is sampled in expectation (eq. 17's Θ is theta times their number); 0: only local
    ones; 1 or more: all, as `recent`. decay: δ of eq. 17, 1 / unit of time; 0: remote ones are alike. complete: slots that are left free
    are filled with older local neighbours ("repeated until a sufficient number of neighbors are sampled").

    Not of the paper: cap: no weight is above cap / theta; a neighbour whose weight would be is sampled with probability theta / cap
    instead, which adds at most a share 1 / cap to those that are sampled; 0: no cap. at_least_one: a root whose recent neighbours are all
    remote gets one of them at least, with the weights of that condition. stale: remote neighbours whose rows the rank has cached
    (`LocalPart`) are read there, as old as they are, where they are not sampled, and all have weight 1.

    Without completion a weighted sum over the sampled has the sum over the recent neighbours as its expectation (§3.3), with cap and
    at_least_one, too; with `stale` but for what has changed since rows were cached. With completion it reaches beyond them. Raises
    UserError for a number that is negative or not finite, and for a cap between 0 and 1.
    """

    theta: float
    decay: float = 0.0
    complete: bool = True
    cap: float = 0.0
    at_least_one: bool = False
    stale: bool = False

    def __post_init__(self) -> None:
        for name, number in (("theta", self.theta), ("decay", self.decay), ("cap", self.cap)):
            if not (isfinite(number) and number >= 0):
                raise UserError(f"Boundary.{name}: expected a finite number of 0 or more, got {number}")
        if 0 < self.cap < 1:
            raise UserError(f"Boundary.cap: expected 0 or at least 1, the weight of a neighbour of probability theta, got {self.cap:g}")

    @property
    def least(self) -> float:
        """The probability that a remote neighbour is sampled with at least."""
        return min(self.theta / self.cap, 1.0) if self.cap else 0.0


class LocalPart(NamedTuple):
    """Part of a partitioned stream that samples on a rank: part `rank` of `parts`, whose events are numbered as those of the T-CSR that is
    sampled. cached: which rows of other parts the rank has, for `Boundary.stale`; None: none."""

    parts: EventPartition
    rank: int
    cached: CachedRows | None = None


def sample(
    tcsr: TCSR,
    t: Numbers,
    local_part: LocalPart,
    node: Int32,
    before: Int32,
    fanout: int,
    boundary: Boundary,
    seed: int = 0,
    threads: int = 0,
) -> WeightedNeighbors:
    """Sample up to `fanout` neighbours of each root, nodes int32 [R] before event `before` int32 [R], across the boundary of a rank's part:
    all local ones, some remote ones, each with a weight (`Boundary`; MemShare §3.3). t [M]: times of the events.

    An event is local where it is in the rank's part and its other end is, too, or is shared. Raises UserError as
    `cuda_ext.sampling.boundary_decay.sample`, and for a rank that has no part.
    """
    if not 0 <= local_part.rank < local_part.parts.count:
        raise UserError(f"LocalPart.rank: expected a part from 0 to {local_part.parts.count - 1}, got {local_part.rank}")
    owned = Ownership(local_part.parts.node, local_part.parts.event, local_part.rank)
    rows = tcsr.indptr, tcsr.neighbor, tcsr.event
    cached = local_part.cached if boundary.stale else None
    return kernel.sample(
        rows,
        t,
        owned,
        node,
        before,
        fanout,
        boundary.theta,
        boundary.decay,
        boundary.complete,
        seed,
        threads,
        boundary.least,
        boundary.at_least_one,
        cached,
    )
