from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.simulator.bucketing import best_buckets


def ends(ready: list[float], size: list[int], last: tuple[int, ...], seconds) -> float:
    now, first = 0.0, 0
    for one in last:
        now = max(now, ready[one]) + seconds(sum(size[first : one + 1]))
        first = one + 1
    return now


LAWS = {
    "linear": lambda n: 1.0 + 0.1 * n,
    "protocols": lambda n: min(0.5 + 0.4 * n, 2.0 + 0.1 * n),
    "bytes": lambda n: 0.1 * n,
}


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 30)), min_size=1, max_size=7), st.sampled_from(sorted(LAWS)))
def test_no_other_buckets_end_earlier(gradients, law):
    ready = np.cumsum([pause for pause, _ in gradients]).tolist()
    size = [gradient for _, gradient in gradients]
    buckets = best_buckets(ready, np.array(size, np.int64), LAWS[law])
    count = len(size)
    every = [(*cuts, count - 1) for k in range(count) for cuts in combinations(range(count - 1), k)]
    assert buckets.end_s == pytest.approx(min(ends(ready, size, last, LAWS[law]) for last in every), rel=1e-12)
    assert buckets.end_s == pytest.approx(ends(ready, size, buckets.last, LAWS[law]), rel=1e-12)


def test_small_gradients_are_summed_at_once_and_large_ones_as_they_come():
    sizes = np.array([10, 10, 10])
    assert best_buckets([1.0, 2.0, 3.0], sizes, lambda n: 5.0 + 0.01 * n) == ((2,), 3.0 + 5.0 + 0.3)
    assert best_buckets([10.0, 20.0, 30.0], sizes, lambda n: 1.0 + 0.9 * n) == ((0, 1, 2), 40.0)
    assert best_buckets([1.0, 1.0], np.array([4, 4]), lambda n: float(n)).last == (1,)  # of equals, fewer
