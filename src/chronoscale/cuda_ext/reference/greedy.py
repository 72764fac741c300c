"""Reference of REAL's greedy scheduler: Algorithm 1 line by line in plain Python."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_ZERO = -1  # the zero group's id


def schedule(
    times: list[float],
    reuse: list[list[float]],
    gpus: int,
    max_targets: int,
    by_reuse: bool,
    iteration: NDArray[np.int32],
    gpu: NDArray[np.int32],
    slot: NDArray[np.int32],
) -> None:
    """Place snapshot groups by Algorithm 1 of REAL in Python, the reference of the native scheduler, in time O(n^3), as published.

    times [n]: of each group; reuse [n][width], in the same unit: what is saved when groups i and i + k + 1 share a GPU; max_targets: how
    many targets are tried, 0: all; by_reuse: whether of targets that waste alike the one whose pairs save most is taken, not the first.
    Fills, for each group, its iteration, its gpu, and its slot there (0 or 1), int32 [n] each.
    """

    width = len(reuse[0]) if reuse else 0

    def time(group: int) -> float:
        return 0.0 if group == _ZERO else times[group]

    def saving(a: int, b: int) -> float:
        near, far = min(a, b), max(a, b)
        return 0.0 if near == _ZERO or far - near > len(reuse[near]) else reuse[near][far - near - 1]

    def load(a: int, b: int) -> float:
        return time(a) + time(b) - saving(a, b)

    def get_pairs(target: float, left: list[int]) -> list[tuple[int, int]]:  # lines 21-31
        pairs: list[tuple[int, int]] = []
        while len(pairs) < gpus - 1 and len(left) > 1:
            head, tail, best, gap = 0, len(left) - 1, (0, 0), math.inf
            while head < tail:
                total = load(left[head], left[tail])
                if abs(total - target) < gap:
                    best, gap = (head, tail), abs(total - target)
                if total < target:
                    head += 1
                else:
                    tail -= 1
            pair = left[best[0]], left[best[1]]
            pairs.append(pair)
            left = [group for group in left if group == _ZERO or group not in pair]
        return pairs

    groups = [_ZERO, *sorted(range(len(times)), key=times.__getitem__)]  # lines 13-15
    step = 0
    while len(groups) - 1 > gpus:  # line 2; the zero group does not count
        longest, partners = groups[-1], groups[:-1]
        count = min(max_targets, len(partners)) if max_targets else len(partners)
        ranks = [k * (len(partners) - 1) // (count - 1) for k in range(count)] if count > 1 else [0]
        if count < len(partners):
            near = [k for k, group in enumerate(partners) if group != _ZERO and abs(group - longest) <= width]
            ranks = sorted({*ranks, *near})
        least, chosen = (math.inf, 0.0), [(_ZERO, longest)]
        for rank in ranks:  # lines 3-9
            partner = partners[rank]
            target = load(partner, longest)
            pairs = get_pairs(target, [group for group in partners if group == _ZERO or group != partner])
            loads = [load(*pair) for pair in pairs]
            total = 0.0
            for value in loads:
                total += value
            saved = 0.0  # of line 9's "<", which keeps the first
            for pair in ((partner, longest), *pairs) if by_reuse else ():
                saved += saving(*pair)
            waste = gpus * max([target, *loads]) - target - total
            if (waste, -saved) < least:
                least, chosen = (waste, -saved), [(partner, longest), *pairs]
        for place, pair in enumerate(chosen):  # line 10
            for order, group in enumerate(sorted(group for group in pair if group != _ZERO)):
                iteration[group], gpu[group], slot[group] = step, place, order
                groups.remove(group)
        step += 1
    for place, group in enumerate(reversed(groups[1:])):  # line 11
        iteration[group], gpu[group], slot[group] = step, place, 0
