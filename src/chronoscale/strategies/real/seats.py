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
    """Return who shares a GPU and iteration with whom; int32 [groups], -1 for nobody."""
    partners = np.full(len(placement.slot), -1, np.int32)
    second = np.flatnonzero(placement.slot == 1)
    lead = placement.first()[second]
    partners[second], partners[lead] = lead, second
    return partners


def seats(benefits: Benefit, mate: Mates) -> tuple[Ints, Ints, Floats]:
    """Return the first and second group (-1: none; the first is the earlier one) of every seat, int64, and its load, float64 ns."""
    unit = np.arange(len(mate))
    first = unit[(mate < 0) | (mate > unit)]
    second = mate[first].astype(np.int64)
    return first, second, benefits.load(first, second)


def makespan(benefits: Benefit, mate: Mates, gpus: int, alpha: float = 0.0) -> float:
    """Return the sum over iterations of the largest load + alpha (eq. 10) when the seats, by falling load, fill one iteration after
    another; ns.

    No other way to spread these seats is shorter: the (i gpus + 1)-th largest load is a lower bound on the (i + 1)-th longest iteration.
    """
    load = np.sort(seats(benefits, mate)[2])[::-1][::gpus]
    return float(load.sum() + alpha * len(load))


def seat(benefits: Benefit, mate: Mates, gpus: int) -> Placement:
    """Place seats by falling load, one a GPU, iteration after iteration. Raises UserError for 0 GPUs."""
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
