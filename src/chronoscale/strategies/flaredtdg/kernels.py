"""Variables of the laws of kernels (`costing.kernels`) that only rows of sliding windows have."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chronoscale.strategies.costing.kernels import Values
from chronoscale.strategies.schedule import Ints, Op

RETURNS = {Op.ALLTOALL: "RETURN", Op.ALLGATHER: "RETURN_CANDIDATES"}  # laws of what sends gradients back, by what has brought the rows


def law_variables(level: Ints, step: int, layer: int, begins: NDArray[np.bool_], seen_first: NDArray[np.bool_], shrinks: bool) -> Values:
    """Return the variables of FlareDTDG's formulas that count kernels and bytes, for the rows of one snapshot of a window at a layer.

    level: int64 [window], how much older snapshots have shrunk, the oldest first (0: not at all); step: the snapshot, 0 the oldest; begins:
    bool [sites], windows that begin a segment (a run of consecutive windows). seen_first: bool [sites], windows that are the first of the
    epoch to read the snapshot at its level. shrinks: snapshots are cut on the device as they age.
    Returned are: joins: inherited states are put behind those of the snapshot before; joined: its own have others put behind them; narrows:
    the next snapshot has fewer rows (with lags). cuts: the snapshot, on the device since the window before, shrinks. routed: the first rows
    that are exchanged of its retained part now. stays: the window before has left it as it is. begins: nothing is inherited yet.
    """
    last, level_of = step + 1 == len(level), level.tolist()
    next_level = level_of[step] if last else level_of[step + 1]
    return {
        "later": step > 0,
        "last": last,
        "upper": layer > 0,
        "joins": step > 0 and level_of[step - 1] > level_of[step],
        "joined": level_of[step] > next_level,
        "narrows": level_of[step] < next_level,
        "cuts": ~begins & (shrinks and layer == 0 and level_of[step] > next_level),
        "routed": seen_first & (layer == 1),
        "stays": ~begins & (not last and (level_of[step] == next_level if shrinks else level_of[step] == 0)),
        "begins": begins,
    }
