"""REAL-G+: cross-group scheduling that sees reuse and balance at once (the problem of REAL §5.1).

Pairs of groups that share snapshots, as many as pay, so that the GPUs of an iteration still finish together.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from chronoscale.cuda_ext.scheduling.matching import MAX_WIDTH, Mates, band_matching, exchange
from chronoscale.cuda_ext.scheduling.threshold_search import ThresholdSearch
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.real import greedy
from chronoscale.strategies.real.benefit import Benefit
from chronoscale.strategies.real.scheduled import ScheduledStrategy
from chronoscale.strategies.real.seats import mates, seat, seats
from chronoscale.strategies.snapshots.groups import Placement
from chronoscale.strategies.snapshots.lowering import Reuse

EXACT = 2000  # groups up to which Algorithm 1, the first start, tries every candidate target
THINNED = 64  # targets that it tries beyond that, evenly spaced in rank
WORK = 24_000_000  # exchange work in all, about a second of one core; less for few groups:
LEAST_WORK, GROUP_WORK = 4_000_000, 20_000
STARTS = 2  # constructions that are searched from at length
PULLS = (0.1, 0.3)  # shares of total load in what exchanges compare
THRESHOLDS = (1e-4, 1e-3, 1e-2, 5e-2)  # worsening at first allowed, of the mean group's time


def search(benefits: Benefit, gpus: int, alpha: float = 0.0, work: int | None = None) -> Mates:
    """Search which snapshot groups to pair on a GPU (planner of REAL-G+), never worse than Algorithm 1 by reuse (problem of REAL §5.1).

    benefits: ns that each snapshot group takes, and ns that each pair saves on one GPU. alpha: ns of synchronisation an iteration. Returns
    partners, int32 [n] (-1: none). Deterministic: bounded by `work` (units of exchange work), not by seconds.
    """
    times = benefits.times
    reuse = benefits.reuse
    n = len(benefits.times)
    if not n:
        return np.empty(0, np.int32)
    budget = min(WORK, LEAST_WORK + GROUP_WORK * n) if work is None else work

    def improve(start: Mates, share: int, pull: float, threshold: float, seed: int = 0) -> tuple[float, Mates]:
        """Exchange groups from a start with a share of the budget; return the makespan and the matching."""
        walk = ThresholdSearch(budget // share, pull, threshold * float(times.mean()), seed)
        mate, value = exchange(times, reuse, gpus, start, walk, alpha)
        return value, mate

    starts = sorted((improve(start, 60, PULLS[1], THRESHOLDS[0]) for start in _starts(benefits, gpus)), key=lambda found: found[0])
    settings = [(start, pull, threshold) for _, start in starts[:STARTS] for pull in PULLS for threshold in THRESHOLDS]
    results = [improve(start, 30, pull, threshold, seed) for seed, (start, pull, threshold) in enumerate(settings)]
    best = min([*starts, *results], key=lambda found: found[0])
    return min([best, *(improve(best[1], 10, pull, THRESHOLDS[0]) for pull in PULLS)], key=lambda found: found[0])[1]


@lru_cache(maxsize=1)
def algorithm_1(benefits: Benefit, gpus: int) -> Placement:
    """Place snapshot groups by REAL's Algorithm 1 (§5.3) with a tie rule of REAL-G+: of targets that waste alike, the one that saves most.

    benefits: ns that each snapshot group takes, and ns that each pair saves on one GPU. Above 2,000 groups 64 targets are tried, not all.
    """
    return greedy.place(benefits, gpus, "reuse", 0 if len(benefits.times) <= EXACT else THINNED)


def _starts(benefits: Benefit, gpus: int) -> Iterator[Mates]:
    """Yield Algorithm 1's pairs, ties by reuse; then, for a few numbers of iterations, pairs that save most and pairs that balance best,
    all seats in use."""
    n = len(benefits.times)
    yield mates(algorithm_1(benefits, gpus))
    saving = band_matching(benefits.reuse[:, :MAX_WIDTH])[0]
    least = -(-n // (2 * gpus))
    for m in range(least, min(least + 3, -(-n // gpus) + 1)):
        yield _fill(benefits, saving, m * gpus)
        yield _fold(benefits.times, m * gpus)


def _fill(benefits: Benefit, mate: Mates, count: int) -> Mates:
    """Return a matching with `count` seats: the heaviest pairs are parted, or the shortest lone groups folded into pairs."""
    mate = mate.copy()
    first, second, load = seats(benefits, mate)
    if len(first) > count:
        alone = first[second < 0]
        alone = alone[np.argsort(benefits.times[alone], kind="stable")][: 2 * (len(first) - count)]
        half = len(alone) // 2
        mate[alone[:half]], mate[alone[::-1][:half]] = alone[::-1][:half], alone[:half]
        return mate
    pairs = np.flatnonzero(second >= 0)
    parted = pairs[np.argsort(-load[pairs], kind="stable")][: count - len(first)]
    mate[first[parted]] = mate[second[parted]] = -1
    return mate


def _fold(times: Floats, count: int) -> Mates:
    """Return the matching of `count` seats with the least largest load without reuse: the longest groups unpaired, the others paired long
    with short.
    """
    mate = np.full(len(times), -1, np.int32)
    rest = np.argsort(times, kind="stable")[: 2 * max(len(times) - count, 0)].astype(np.int32)
    mate[rest] = rest[::-1]
    return mate


def place(benefits: Benefit, ranks: int, alpha: float = 0.0) -> Placement:
    """Place snapshot groups on GPUs and iterations by REAL-G+'s search, which weighs shared snapshots and balance at once.

    benefits: ns that each snapshot group takes, and ns that each pair saves on one GPU. alpha: ns of synchronisation an iteration. Raises
    UserError for 0 ranks.
    """
    return seat(benefits, search(benefits, ranks, alpha), ranks)


REAL_G_PLUS = ScheduledStrategy(
    "real-g+",
    "REAL-G+",
    "REAL §5.1; the search and shared rows are this project's",
    place,
    summary="As real-g, with a search that weighs what pairs share and balance at once; pairs compute rows that stay once.",
    reuse=Reuse(snapshots=True, groups=True, rows=True),
)
REAL_G_PLUS_OWN = ScheduledStrategy(
    "real-g+-own",
    "REAL-G+, own rows",
    "REAL §5.1; the search is this project's",
    place,
    summary="As real-g+, without rows shared between groups.",
    ablates="real-g+",
)
