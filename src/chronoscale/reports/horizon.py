"""Horizon: a forecaster's errors at each step ahead, as its field reports them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from chronoscale.datasets.scores import SCORES

Horizon = Mapping[str, Mapping[str, Sequence[float]]]  # period ("validation", "test") -> score's key -> its value at each step ahead


def horizon_table(horizon: Horizon) -> pd.DataFrame:
    """Return the errors of a forecaster's test and validation at each step ahead, one row each: `step`, from 1 on, and every score of every
    period, as `test_mae`; no rows where there are none."""
    periods = [(period, horizon[period]) for period in ("test", "validation") if period in horizon]
    table = pd.DataFrame({f"{period}_{key}": values[key] for period, values in periods for key in SCORES if key in values})
    table.insert(0, "step", range(1, len(table) + 1))
    return table
