"""Reference of the model of set-associative caches in plain Python."""

from __future__ import annotations

from collections import OrderedDict, defaultdict

import numpy as np
from numpy.typing import NDArray


def hits(line: NDArray[np.int64], cache: NDArray[np.int32], sets: int, ways: int, out: NDArray[np.uint8]) -> None:
    """Write into `out` [n] whether each access (cache line, cache) hits, with the least recently used line of a set evicted."""
    contents: defaultdict[tuple[int, int], OrderedDict[int, None]] = defaultdict(OrderedDict)
    for i, (accessed, number) in enumerate(zip(line.tolist(), cache.tolist(), strict=True)):
        lines = contents[number, accessed % sets]
        out[i] = accessed in lines
        lines[accessed] = None
        lines.move_to_end(accessed)
        if len(lines) > ways:
            lines.popitem(last=False)
