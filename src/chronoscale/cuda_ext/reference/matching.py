"""Reference of the matching engines in plain Python: the same steps as in csrc/cpu/matching.cpp, so that results are the same."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from chronoscale.cuda_ext.reference.splitmix import STEP, WORD, mix
from chronoscale.cuda_ext.scheduling.threshold_search import ThresholdSearch

MOVE_WORK, ACCEPT_SHARE = 16, 16

Seat = tuple[float, int, int]  # minus the load, first group, second (-1: alone): sorts by falling load


def band(weight: NDArray[np.float64], mate: NDArray[np.int32]) -> float:
    """Find the matching of snapshot groups that saves most in Python, the reference of the native search; return its total weight.

    weight [n, width]: weight[i, k] for the pair of i and i + k + 1. Fills `mate` [n], the partner of each group, -1 for none. By dynamic
    programming.
    """
    n, width = weight.shape
    masks = np.arange(1 << width)
    choice = np.zeros((n, 1 << width), np.uint8)
    after = np.zeros(1 << width)
    for i in range(n - 1, -1, -1):
        best = after[masks >> 1]
        for k in range(min(width, n - 1 - i)):
            free = (masks & 1 == 0) & (masks >> (k + 1) & 1 == 0)
            total = weight[i, k] + after[(masks | 1 << (k + 1)) >> 1]
            better = free & (total > best)
            best[better] = total[better]
            choice[i, better] = k + 1
        after = best
    mate[:] = -1
    mask = 0
    for i in range(n):
        if k := int(choice[i, mask]):
            mate[i], mate[i + k] = i + k, i
            mask |= 1 << k
        mask >>= 1
    return float(after[0])


class _Random:
    """A SplitMix64 generator of numbers below 2^64."""

    def __init__(self, seed: int) -> None:
        self.state = seed & WORD

    def next(self) -> int:
        """Return the next number."""
        self.state = (self.state + STEP) & WORD
        return mix(self.state)

    def below(self, n: int) -> int:
        """Return a number below n."""
        return self.next() % n


def exchange(
    times: NDArray[np.float64], reuse: NDArray[np.float64], gpus: int, alpha: float, search: ThresholdSearch, mate: NDArray[np.int32]
) -> float:
    """Improve a matching of snapshot groups in place in Python, the reference of the native search; return its makespan (REAL, eq. 10).

    By threshold accepting, as `search` sets it. times [n]: of each group; reuse [n, width], in the same unit: what is saved when groups i
    and i + k + 1 share a GPU; alpha: time of synchronisation, added to each iteration; mate [n]: the partner of each group, -1 for none.
    """
    n, width, share = len(times), reuse.shape[1], search.pull / gpus
    time, saved, partner = times.tolist(), reuse.tolist(), mate.tolist()
    random = _Random(search.seed)

    def seat(a: int, b: int) -> Seat:
        if b < 0:
            return -time[a], a, -1
        near, far = min(a, b), max(a, b)
        return -(time[a] + time[b] - (saved[near][far - near - 1] if far - near <= width else 0.0)), near, far

    seats = sorted(seat(i, partner[i]) for i in range(n) if partner[i] < 0 or partner[i] > i)

    def propose() -> tuple[list[int], list[list[Seat]]] | None:
        count = len(seats)
        kind = random.next()
        x = random.below(-(-count // gpus)) * gpus if kind % 4 else random.below(count)
        _, a, b = seats[x]
        if kind // 4 % 4 < 2 and width > 0:
            start = b if b >= 0 and kind // 16 % 2 else a
            step = 1 + random.below(width)
            to = start + step if kind // 32 % 2 else start - step
            if not 0 <= to < n:
                return None
            y = bisect_left(seats, seat(to, partner[to]))
        elif kind // 4 % 4 == 2 and b >= 0:
            return [x], [[seat(a, -1), seat(b, -1)]]
        else:
            y = random.below(count)
        if y == x:
            return None
        _, c, d = seats[y]
        if b >= 0 and d >= 0:
            alternatives = [[seat(a, c), seat(b, d)], [seat(a, d), seat(b, c)]]
        elif b < 0 and d < 0:
            alternatives = [[seat(a, c)]]
        else:
            first, second, single = (c, d, a) if b < 0 else (a, b, c)
            alternatives = [[seat(first, single), seat(second, -1)], [seat(second, single), seat(first, -1)]]
        return sorted((x, y)), alternatives

    makespan = 0.0
    for place in range(0, len(seats), gpus):
        makespan += -seats[place][0] + alpha
    best_makespan, best_partner, work = makespan, list(partner), 0
    while work < search.work:
        limit = search.threshold * (1.0 - work / search.work)
        work += MOVE_WORK
        if (proposed := propose()) is None:
            continue
        removed, alternatives = proposed
        accepted, score, accepted_gain = alternatives[0], float("inf"), 0.0
        for seats_made in alternatives:
            seats_made.sort()
            gain, looked = _gain(seats, removed, seats_made, gpus, alpha)
            work += looked
            load_change = 0.0
            for new in seats_made:
                load_change += -new[0]
            for place in removed:
                load_change -= -seats[place][0]
            if gain + share * load_change < score:
                accepted, score, accepted_gain = seats_made, gain + share * load_change, gain
        if not score <= limit:
            continue
        for place in reversed(removed):
            del seats[place]
        for new in accepted:
            seats.insert(bisect_left(seats, new), new)
            partner[new[1]] = new[2]
            if new[2] >= 0:
                partner[new[2]] = new[1]
        work += len(seats) // ACCEPT_SHARE
        makespan += accepted_gain
        if makespan < best_makespan:
            best_makespan, best_partner = makespan, list(partner)
            work += n // ACCEPT_SHARE
    mate[:] = best_partner
    return best_makespan


def _gain(seats: list[Seat], removed: list[int], seats_made: list[Seat], gpus: int, alpha: float) -> tuple[float, int]:
    """Return the change of the makespan when `seats_made` replace the seats at `removed`, and the number of places visited to compute
    it."""
    count = len(seats)
    inserted = []
    for j, new in enumerate(seats_made):
        place = bisect_left(seats, new)
        inserted.append(place - sum(old < place for old in removed) + j)
    after = count - len(removed) + len(seats_made)
    low = min(removed[0], inserted[0])
    high = max(removed[-1], inserted[-1]) + 1 if after == count else max(count, after)
    gain, visited = 0.0, 0
    for q in range(-(-low // gpus) * gpus, high, gpus):
        visited += 1
        if q < count:
            gain -= -seats[q][0] + alpha
        if q >= after:
            continue
        if q in inserted:
            value = -seats_made[inserted.index(q)][0]
        else:
            source = q - sum(q > place for place in inserted)
            for place in removed:
                source += place <= source
            value = -seats[source][0]
        gain += value + alpha
    return gain, visited
