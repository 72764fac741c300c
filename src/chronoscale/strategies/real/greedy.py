"""REAL-G: cross-group scheduling by Algorithm 1 (REAL §5.3).

Pairs of groups chosen so that the GPUs of an iteration finish together; type I reuse, and type II where a pair happens to share.
"""

from __future__ import annotations

from functools import lru_cache

from chronoscale.cuda_ext.scheduling.greedy import pair_groups
from chronoscale.strategies.real.benefit import Benefit
from chronoscale.strategies.real.scheduled import ScheduledStrategy
from chronoscale.strategies.snapshots.groups import Placement

EXACT = 2000  # groups up to which every candidate target is tried; Algorithm 1 is O(n^3)
THINNED = 64  # targets tried beyond that, evenly spaced in rank


@lru_cache(maxsize=1)  # REAL-G+ begins with it
def place(benefits: Benefit, ranks: int) -> Placement:
    """Place snapshot groups on GPUs and iterations by REAL-G (Algorithm 1, §5.3): pairs so that the GPUs of an iteration finish together.

    benefits: ns that each snapshot group takes, and ns that each pair saves on one GPU. Above 2,000 groups only 64 of the algorithm's
    candidate targets are tried. Raises UserError for 0 ranks.
    """
    targets = 0 if len(benefits.times) <= EXACT else THINNED
    pairing = pair_groups(benefits.times, benefits.reuse, ranks, targets)
    return Placement(ranks, pairing.gpu.astype("int64"), pairing.iteration.astype("int64"), pairing.slot.astype("int64"))


REAL_G = ScheduledStrategy(
    "real-g",
    "REAL-G",
    "REAL §5.3, Algorithm 1",
    place,
    summary="As real-type1; groups are paired greedily so that the GPUs of an iteration finish together.",
)
