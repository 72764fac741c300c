"""Handing a trace over to pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd

from chronoscale.strategies.schedule import Lane, Op
from chronoscale.strategies.trace import TRACE_COLUMNS, Source, Trace


def frame(trace: Trace) -> pd.DataFrame:
    """One row a task, names for op, lane and source."""
    table = pd.DataFrame({name: getattr(trace, name) for name in TRACE_COLUMNS})
    for name, kind in (("op", Op), ("lane", Lane), ("source", Source)):
        table[name] = np.array([code.name for code in kind])[table[name].to_numpy()]
    return table
