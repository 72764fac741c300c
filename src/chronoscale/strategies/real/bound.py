"""A certified lower bound on the makespan of any schedule of snapshot groups (REAL eq. 9-12)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.scheduling.matching import MAX_WIDTH, band_matching
from chronoscale.errors import UserError
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.real.benefit import Benefit
from chronoscale.strategies.schedule import Ints

LEVELS = 640  # thresholds at which seats are counted
ROUNDS = 12  # mixes of counting and work that are tried
COUNTS = 6  # numbers of iterations that are bounded one by one
SLOPES = np.linspace(0.0, 1.0, 33)


@lru_cache(maxsize=1)
def lower_bound(benefits: Benefit, gpus: int, alpha: float = 0.0) -> float:
    """Return a time, ns, that no schedule of these snapshot groups on `gpus` GPUs can beat (REAL's problem, eq. 9-12).

    That is a lower bound on the makespan, the sum over iterations of (largest load + alpha), rounded down by 1e-9 of itself. benefits: ns
    that each snapshot group takes, and ns that each pair saves on one GPU. alpha: ns of synchronisation an iteration.

    Proof. A schedule is a matching of the groups whose seats (pairs, and single groups) fill m iterations. Let N(x) be the number of seats
    of load >= x: they need ceil(N(x) / D) iterations, so the makespan is at least alpha m + the integral of ceil(N(x) / D) over x. Two
    minorants of the integrand: N(x) / D, and ceil(c(x) / D) for any c(x) <= N(x). Hence for any mix a(x) in [0, 1]

        makespan >= alpha m + integral of a ceil(c / D) + (1 / D) * (sum over seats of the integral of 1 - a from 0 to the seat's load),

    and its last term is at least the minimum over all matchings, found by an exact DP over the band with a Lagrange multiplier l >= 0 for
    "at least n - m D pairs" (more groups than seats), or l <= 0 for "at most n - (m - 1) D - 1" (m iterations are used); any l is valid.
    Pairs outside the band save nothing and are bounded by two halves, from a line under the price of a seat. c counts: of n - m D pairs,
    those of a largest matching with loads < x are light; of (m - 1) D + 1 seats, those that some group can make light; and a heavy seat
    takes at most two of the groups that no light seat can have. The bound is the least over m; large m are bounded together by what holds
    for every m from some M on. Of a band wider than `MAX_WIDTH` the outer part is cut, and what it could save at most (half of each group's
    largest saving, a feasible dual) is taken off the work.

    The latest bound is remembered: strategies share it. Raises UserError for 0 GPUs, or where a pair saves more than it takes.
    """
    if gpus < 1:
        raise UserError(f"at least one GPU is needed, got {gpus}")
    n = len(benefits.times)
    if n == 0:
        return 0.0
    problem = _BoundProblem(gpus, alpha, _Seats.of(benefits))
    least = -(-n // (2 * gpus))
    smallest = np.inf
    for m in range(least, -(-n // gpus) + 1):
        rest = problem.least(m, exact=False)  # m iterations or more
        if m == least + COUNTS or rest >= smallest:
            smallest = min(smallest, rest)
            break
        smallest = min(smallest, problem.least(m, exact=True))
    return float(smallest * (1 - 1e-9))


@dataclass(frozen=True, slots=True, eq=False)
class _Seats:
    """Seats that groups may have on any number of GPUs: times [n] of single groups, loads [n, w] of band pairs (inf past the end), and of
    each of L levels, ascending, how many pairs may be lighter and how many groups may be in a lighter seat."""

    times: Floats
    loads: Floats
    slack: float  # what pairs beyond the DP's width could save at most
    level: Floats
    pairs: Ints  # most disjoint pairs of load < level
    coverable: Ints  # groups that some seat of load < level can hold

    @classmethod
    @lru_cache(maxsize=1)  # an epoch is planned for many numbers of GPUs
    def of(cls, benefits: Benefit) -> _Seats:
        """Return the seats of groups with these benefits. Raises UserError where a pair saves more than it takes."""
        times, n = benefits.times, len(benefits.times)
        loads = _band_loads(benefits)
        if (loads < 0).any():
            raise UserError(f"groups {int(np.argwhere(loads < 0)[0][0])} and a later one save more than both take")
        far = np.where(np.isfinite(loads), benefits.reuse[:, : loads.shape[1]], 0.0)[:, MAX_WIDTH:]
        near = loads[:, :MAX_WIDTH]
        level = _levels(times, loads)
        cheapest = _cheapest_seat(times, loads)
        pairs, coverable = np.zeros(len(level), np.int64), np.searchsorted(np.sort(cheapest), level)
        ordered = np.sort(times)
        for k, x in enumerate(level):
            cut = int((loads[:, MAX_WIDTH:] < x).any(1).sum())
            pairs[k] = _light_pairs(ordered, near, x) + cut
        reach = np.zeros(n)
        for k in range(far.shape[1]):
            apart = MAX_WIDTH + k + 1
            reach[: n - apart] = np.maximum(reach[: n - apart], far[: n - apart, k])
            reach[apart:] = np.maximum(reach[apart:], far[: n - apart, k])
        return cls(times, near, float(reach.sum()) / 2, level, pairs, coverable)


@dataclass(frozen=True, slots=True, eq=False)
class _BoundProblem:
    """The quantities of the bound that do not depend on m."""

    gpus: int
    alpha: float
    seats: _Seats

    def least(self, m: int, exact: bool) -> float:
        """Return the bound for schedules of exactly m iterations, or of m or more."""
        n, gpus = len(self.seats.times), self.gpus
        count_of_seats = (m - 1) * gpus + 1
        heavy = np.maximum(count_of_seats - self.seats.coverable, -((self.seats.coverable - n) // 2))
        if exact:
            heavy = np.maximum(heavy, n - m * gpus - self.seats.pairs)
        count = -(-np.maximum(heavy, 0) // gpus).astype(np.float64)
        step = np.diff(self.seats.level, prepend=0.0)
        fewest_pairs, most_pairs = (max(n - m * gpus, 0) if exact else 0), n - count_of_seats
        best = float((count * step).sum())
        mix = np.zeros(len(step))
        price = 0.0
        for turn in range(ROUNDS):
            value, price, counts = self._best_price(mix, step, fewest_pairs, most_pairs, price)
            best = max(best, value + float((mix * count * step).sum()))
            wanted = (count * gpus > counts).astype(np.float64)
            mix += (wanted - mix) / (turn + 2)
        return best + self.alpha * m

    def _best_price(self, mix: Floats, step: Floats, few: int, many: int, price: float) -> tuple[float, float, Floats]:
        """Return the best Lagrangian value over a few multipliers, that multiplier, and N(level) of its matching."""
        knots = np.concatenate([[0.0], np.cumsum((1 - mix) * step)]) / self.gpus
        levels = np.concatenate([[0.0], self.seats.level])

        def seat(load: Floats) -> Floats:
            """Return the price of seats by their load."""
            return np.interp(load, levels, knots)

        half = _halves(self.seats.times, levels, knots, self.gpus)
        single, pair = seat(self.seats.times), seat(np.where(np.isfinite(self.seats.loads), self.seats.loads, 0.0))
        best = (-np.inf, 0.0, np.zeros(len(step)))
        low, high = -float(knots[-1]), float(knots[-1])
        tries = [price, 0.0]
        for _ in range(8):
            multiplier = tries.pop() if tries else (low + high) / 2
            own = np.minimum(single, half - multiplier / 2)
            gain = np.full_like(self.seats.loads, -1.0)
            for k in range(self.seats.loads.shape[1]):
                rows = max(len(own) - k - 1, 0)
                gain[:rows, k] = own[:rows] + own[k + 1 :] - pair[:rows, k] + multiplier
            mate, total = band_matching(gain)
            value = own.sum() - total + multiplier * (few if multiplier >= 0 else many) - self.seats.slack / self.gpus
            alone = (mate < 0) & (half - multiplier / 2 < single)
            count = int((mate >= 0).sum()) / 2 + int(alone.sum()) / 2
            if value > best[0]:
                best = (float(value), multiplier, self._counts(mate, alone))
            if count < (few if multiplier >= 0 else many):
                low = max(low, multiplier)
            else:
                high = min(high, multiplier)
            if few <= count <= many and multiplier == 0:
                break
        return best

    def _counts(self, mate: NDArray[np.int32], halved: NDArray[np.bool_]) -> Floats:
        """Return N(level), the seats of at least each level, of a matching; groups in `halved` count half, with twice their load."""
        unit = np.arange(len(mate))
        lead = unit[mate > unit]
        loads = [self.seats.loads[lead, mate[lead] - lead - 1], self.seats.times[(mate < 0) & ~halved], 2 * self.seats.times[halved]]
        weight = np.concatenate([np.ones(len(loads[0]) + len(loads[1])), np.full(len(loads[2]), 0.5)])
        place = np.searchsorted(self.seats.level, np.concatenate(loads), side="right")
        counts: Floats = np.cumsum(np.bincount(place, weight, len(self.seats.level) + 1)[::-1])[::-1][1:].astype(np.float64)
        return counts


def _band_loads(benefits: Benefit) -> Floats:
    """Return the loads of pairs in the band, float64 [n, w] ns; inf past the end."""
    n, width = benefits.reuse.shape
    loads = np.full((n, min(width, max(n - 1, 0))), np.inf)
    for k in range(loads.shape[1]):
        rows = n - k - 1
        loads[:rows, k] = benefits.times[:rows] + benefits.times[k + 1 :] - benefits.reuse[:rows, k]
    return loads


def _levels(times: Floats, loads: Floats) -> Floats:
    """Return loads that seats may have, thinned to `LEVELS`; loads of pairs outside the band by their extremes."""
    ordered = np.sort(times)
    apart = ordered[: len(ordered) // 2] + ordered[::-1][: len(ordered) // 2]
    every = np.unique(np.concatenate([times, loads[np.isfinite(loads)], apart]))
    every = every[every > 0]
    if len(every) > LEVELS:
        even = np.linspace(every[0], every[-1], LEVELS // 2)
        evenly = every[np.linspace(0, len(every) - 1, LEVELS // 2).astype(np.int64)]
        every = np.unique(np.concatenate([even, evenly]))
    return np.unique(np.append(every, ordered[-2:].sum()))  # no seat is heavier


def _cheapest_seat(times: Floats, loads: Floats) -> Floats:
    """Return the smallest load of a seat that holds each group, float64 [n] ns."""
    least = times.copy()
    for k in range(loads.shape[1]):
        rows = len(times) - k - 1
        least[:rows] = np.minimum(least[:rows], loads[:rows, k])
        least[k + 1 :] = np.minimum(least[k + 1 :], loads[:rows, k])
    return least


def _light_pairs(ordered: Floats, loads: Floats, x: float) -> int:
    """Return an upper bound on the number of disjoint pairs of load < x: those in the band and those outside it, each at most; times
    ascending."""
    weight = np.where(loads < x, 1.0, 0.0)
    inside = band_matching(weight)[1]
    half = int(np.searchsorted(ordered, x / 2))
    partner = np.searchsorted(ordered, x - ordered, side="left")  # groups that a group can pair with, band aside
    light = ordered[(partner > 0) & (ordered + ordered[0] < x)]
    outside = min(len(light) // 2, half)
    return int(min(len(ordered) // 2, inside + outside))


def _halves(times: Floats, levels: Floats, knots: Floats, gpus: int) -> Floats:
    """Return h with h_i + h_j <= the price of a seat of load t_i + t_j, for all i and j; float64 [n]."""
    ordered = np.sort(times)
    low, high = ordered[:2].sum(), ordered[-2:].sum()
    points = np.concatenate([[low, high], levels[(levels > low) & (levels < high)]])
    prices = np.interp(points, levels, knots)
    slopes = SLOPES / gpus
    offsets = (prices - slopes[:, None] * points).min(1)
    best = int(np.argmax(slopes * 2 * times.mean() + offsets))
    half: Floats = slopes[best] * times + offsets[best] / 2
    return half
