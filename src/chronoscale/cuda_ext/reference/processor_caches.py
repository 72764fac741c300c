"""Caches in plain Python: what the native model is compared with, and what runs where there is none."""

from __future__ import annotations

from collections import OrderedDict, defaultdict

import numpy as np
from numpy.typing import NDArray


def hits(line: NDArray[np.int64], cache: NDArray[np.int32], sets: int, ways: int, out: NDArray[np.uint8]) -> None:
    """As caches.hits."""
    held: defaultdict[tuple[int, int], OrderedDict[int, None]] = defaultdict(OrderedDict)
    for at, (one, of) in enumerate(zip(line.tolist(), cache.tolist(), strict=True)):
        here = held[of, one % sets]
        out[at] = one in here
        here[one] = None
        here.move_to_end(one)
        if len(here) > ways:
            here.popitem(last=False)
