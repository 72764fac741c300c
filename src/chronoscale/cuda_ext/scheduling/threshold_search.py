"""Settings of the local search that improves matchings (`matching.exchange`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ThresholdSearch:
    """Settings of the native local search over pairings of snapshot groups, by threshold accepting (Dueck and Scheuer, 1990).

    work: moves and the iterations they look at, counted together, after which the search ends. Moves are compared by makespan + pull *
    total load / gpus, and one that is worse by at most a threshold is accepted; it falls from `threshold`, in the unit of the times, to 0
    as the work is used up.
    """

    work: int
    pull: float = 0.0
    threshold: float = 0.0
    seed: int = 0
