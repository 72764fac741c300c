"""Bucketing: gradients summed over ranks during the backward pass, several to an all-reduce (MG-WFBP: Shi, Chu, Li; INFOCOM 2019)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import NamedTuple

from chronoscale.strategies.schedule import Ints


class Buckets(NamedTuple):
    """Gradients of a model grouped into buckets, one all-reduce each, as the simulator times them.

    last: the index of each bucket's last gradient; end_s: when the last all-reduce is complete (s).
    """

    last: tuple[int, ...]
    end_s: float


def best_buckets(ready_s: list[float], size: Ints, seconds: Callable[[int], float]) -> Buckets:
    """Group gradients into all-reduces so that the last one ends first, as simulated (MG-WFBP); of equals, the fewest all-reduces.

    ready_s: when the backward pass completes each gradient (s, ascending, at least one); size: bytes of each, int64; seconds: returns what
    an all-reduce of so many bytes takes. All-reduces run one after another. One begins when the last gradient of its bucket is complete and
    the bucket before is summed:

        end(j) = min over i < j of max(end(i), ready(j)) + seconds(size(i + 1) + ... + size(j))

    MG-WFBP merges greedily, which is optimal where seconds is a + b n; this dynamic program is optimal for any law.
    """
    total = [0, *accumulate(size.tolist())]  # bytes of the first j gradients
    ends = [(0.0, 0, 0)]  # when the first j gradients are summed, by how many all-reduces, the last of which begins with which
    for j in range(1, len(total)):
        ends.append(min((max(ends[i][0], ready_s[j - 1]) + seconds(total[j] - total[i]), ends[i][1] + 1, i) for i in range(j)))
    last, j = [], len(size)
    while j:
        last.append(j - 1)
        j = ends[j][2]
    return Buckets(tuple(last[::-1]), ends[-1][0])
