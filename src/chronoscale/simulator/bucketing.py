"""Bucketing: gradients that are summed over ranks while the backward pass goes on, in buckets (MG-WFBP: Shi, Chu, Li; INFOCOM 2019)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from chronoscale.strategies.schedule import Ints


class Buckets(NamedTuple):
    """last: of each bucket, the number of its last gradient; end_s: when the last sum is there."""

    last: tuple[int, ...]
    end_s: float


def best_buckets(ready_s: list[float], size: Ints, seconds: Callable[[int], float]) -> Buckets:
    """The buckets with which sums end first; of equals, those with fewer all-reduces.

    Gradients, at least one, in the order in which the backward pass completes them, at `ready_s` (never earlier than the one before), with
    `size` bytes; `seconds` is what an all-reduce of so many bytes takes, and they run one after another. A bucket begins when its last
    gradient is there and the bucket before is summed:

        end(j) = min over i < j of max(end(i), ready(j)) + seconds(size(i + 1) + ... + size(j))

    MG-WFBP merges greedily, which is the best where seconds is a + b n; this holds for any law.
    """
    before = [0]
    for one in size.tolist():
        before.append(before[-1] + one)
    ends = [(0.0, 0, 0)]  # when the first j gradients are summed, by how many all-reduces, the last of which begins with which
    for j in range(1, len(before)):
        ends.append(min((max(ends[i][0], ready_s[j - 1]) + seconds(before[j] - before[i]), ends[i][1] + 1, i) for i in range(j)))
    last, j = [], len(size)
    while j:
        last.append(j - 1)
        j = ends[j][2]
    return Buckets(tuple(last[::-1]), ends[-1][0])
