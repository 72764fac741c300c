"""Reference of the model of set-associative caches in plain Python."""

from __future__ import annotations

from collections import OrderedDict, defaultdict

import numpy as np
from numpy.typing import NDArray


def hits(line: NDArray[np.int64], cache: NDArray[np.int32], sets: int, ways: int, out: NDArray[np.uint8]) -> None:
    """Simulate n memory accesses to processor caches in Python: the reference of the native function that models a sampler's cache hits.

    line, cache [n]: which line of memory each access reads, by which cache. sets, ways: of a cache; the least recently used line of a set
    is evicted. out uint8 [n]: becomes 1 where an access hits, 0 elsewhere.
    """
    contents: defaultdict[tuple[int, int], OrderedDict[int, None]] = defaultdict(OrderedDict)
    for i, (accessed, number) in enumerate(zip(line.tolist(), cache.tolist(), strict=True)):
        lines = contents[number, accessed % sets]
        out[i] = accessed in lines
        lines[accessed] = None
        lines.move_to_end(accessed)
        if len(lines) > ways:
            lines.popitem(last=False)
