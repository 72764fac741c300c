"""Horizon: a forecaster's errors at each step ahead, as its field reports them, beside its strongest rival's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from chronoscale.batching.rivals.rival import RivalScores
from chronoscale.datasets.scores import SCORES

Horizon = Mapping[str, Mapping[str, Sequence[float]]]  # period ("validation", "test") -> score's key -> its value at each step ahead


def horizon_table(horizon: Horizon, rivals: Sequence[RivalScores] = ()) -> pd.DataFrame:
    """Return the errors of a forecaster's test and validation at each step ahead, one row each: `step`, from 1 on, every score of every
    period, as `test_mae`, and, where its rivals have steps, the `best_rival` of each by the first score of the test, and that one's, as
    `rival_mae`; no rows where there are none."""
    periods = [(period, horizon[period]) for period in ("test", "validation") if period in horizon]
    table = pd.DataFrame({f"{period}_{key}": values[key] for period, values in periods for key in SCORES if key in values})
    table.insert(0, "step", range(1, len(table) + 1))
    for key in [key for key in SCORES if key in horizon.get("test", {})][:1]:
        errors = pd.DataFrame({rival.name: rival.steps[key] for rival in rivals if key in rival.steps})
        if len(errors) == len(table):
            known = errors.notna().any(axis=1)
            table["best_rival"] = errors[known].idxmin(axis=1).reindex(errors.index, fill_value="")
            table[f"rival_{key}"] = errors.min(axis=1)
    return table
