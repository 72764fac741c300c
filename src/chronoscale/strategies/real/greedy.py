"""REAL-G: cross-group scheduling by Algorithm 1 as printed (REAL §5.3).

Pairs of groups chosen so that the GPUs of an iteration finish together; type I reuse, and type II where a pair happens to share.
"""

from __future__ import annotations

from chronoscale.cuda_ext.scheduling.greedy import Ties, pair_groups
from chronoscale.strategies.real.benefit import Benefit
from chronoscale.strategies.real.scheduled import ScheduledStrategy
from chronoscale.strategies.snapshots.groups import Placement


def place(benefits: Benefit, ranks: int, ties: Ties = "first", targets: int = 0) -> Placement:
    """Place snapshot groups on GPUs and iterations by REAL-G (Algorithm 1, §5.3): pairs so that the GPUs of an iteration finish together.

    benefits: ns that each snapshot group takes, and ns that each pair saves on one GPU. ties: which of several targets that waste alike is
    taken: as printed (line 9: "<") the first one, so that on one GPU all groups run alone; 'reuse': the one that saves most. targets: how
    many of the algorithm's candidate targets are tried; 0, as printed: all. Raises UserError for 0 ranks.
    """
    pairing = pair_groups(benefits.times, benefits.reuse, ranks, targets, ties=ties)
    return Placement(ranks, pairing.gpu.astype("int64"), pairing.iteration.astype("int64"), pairing.slot.astype("int64"))


REAL_G = ScheduledStrategy(
    "real-g",
    "REAL-G",
    "REAL §5.3, Algorithm 1",
    place,
    summary="As real-type1; groups are paired greedily so that the GPUs of an iteration finish together.",
)
