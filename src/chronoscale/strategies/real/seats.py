"""Seats: a matching of snapshot groups, and the iterations that it is cut into (REAL eq. 9-12)."""

from __future__ import annotations

import numpy as np

from chronoscale.cuda_ext.scheduling.matching import Mates
from chronoscale.errors import UserError
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.real.benefit import Benefit
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.snapshots.groups import Placement


def mates(placement: Placement) -> Mates:
    """Return the partner with which each snapshot group shares a GPU and iteration in a placement, int32 [groups], -1 for none; REAL's
    searches work on partners, not on places."""
    partners = np.full(len(placement.slot), -1, np.int32)
    second = np.flatnonzero(placement.slot == 1)
    lead = placement.first()[second]
    partners[second], partners[lead] = lead, second
    return partners


def seats(benefits: Benefit, mate: Mates) -> tuple[Ints, Ints, Floats]:
    """Return what each GPU would train at a time (a seat: a pair of snapshot groups, or a single one) for a pairing, for REAL's planners.

    mate: the partner of each group, -1: none. benefits: ns that each snapshot group takes, and ns that each pair saves on one GPU. Returns
    the first and second group of every seat, int64 (the first is the earlier one; second -1: none), and its load: the time of both less
    what they save, float64 ns.
    """
    unit = np.arange(len(mate))
    first = unit[(mate < 0) | (mate > unit)]
    second = mate[first].astype(np.int64)
    return first, second, benefits.load(first, second)


def makespan(benefits: Benefit, mate: Mates, gpus: int, alpha: float = 0.0) -> float:
    """Return how long an epoch takes by REAL's eq. 10 for a pairing of snapshot groups, ns: sum over iterations of (largest load + alpha).

    Seats (pairs, single groups) fill one iteration after another, one a GPU, by falling load. mate: the partner of each group, -1: none.
    benefits: ns that each snapshot group takes, and ns that each pair saves on one GPU. alpha: ns of synchronisation an iteration.

    No other way to spread these seats is shorter: the (i gpus + 1)-th largest load is a lower bound on the (i + 1)-th longest iteration.
    """
    load = np.sort(seats(benefits, mate)[2])[::-1][::gpus]
    return float(load.sum() + alpha * len(load))


def seat(benefits: Benefit, mate: Mates, gpus: int) -> Placement:
    """Place paired snapshot groups on GPUs, for REAL's planners: by falling load, one pair or single group a GPU and iteration.

    mate: the partner of each group, -1: none. benefits: ns that each snapshot group takes, and ns that each pair saves on one GPU. Raises
    UserError for 0 GPUs.
    """
    if gpus < 1:
        raise UserError(f"at least one GPU is needed, got {gpus}")
    first, second, load = seats(benefits, mate)
    order = np.argsort(-load, kind="stable")
    place = np.empty(len(first), np.int64)
    place[order] = np.arange(len(first))
    where, slot = np.empty(len(mate), np.int64), np.zeros(len(mate), np.int64)
    where[first] = place
    paired = second >= 0
    where[second[paired]] = place[paired]
    slot[second[paired]] = 1
    return Placement(gpus, where % gpus, where // gpus, slot)
