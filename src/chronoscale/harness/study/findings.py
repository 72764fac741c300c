"""Findings: what a study shows: rows, published beside ours, with details, drawings and notes; and why two numbers differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from chronoscale.reports.published import Range

if TYPE_CHECKING:
    import pandas as pd

    from chronoscale.reports.charts.drawing import Drawing

Told = Callable[[str], None]
NAN = float("nan")

UNKNOWN = "not established"
SOLVED = "solved from the printed numbers"  # of a reason that explains what it was made from
NOT_PRINTED = "not printed in the paper"
AGREES = 0.05  # of the published: no difference to explain


def by_copies(ratio: float, free: float) -> str:
    """Return in words whether the time of host copies explains why ours differs from the published, for rows of studies.

    ratio: ours over published; free: the same if copies took no time. NaN: no such ratio.
    """
    if not np.isfinite(ratio):
        return NOT_PRINTED
    if abs(ratio - 1) <= AGREES:
        return f"within {AGREES:.0%}"
    if not np.isfinite(free):
        return UNKNOWN
    if (ratio - 1) * (free - 1) < 0:
        return f"the published lies between: with host copies free ours is {free:.2f} times it"
    nearer = abs(np.log(free)) < abs(np.log(ratio))
    reason = "the time of host copies is part of it" if nearer else "not the time of host copies"
    return f"{reason}: with them free ours is {free:.2f} times the published; the rest is {UNKNOWN}"


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """Result of a study.

    rows: published beside ours, as `row` and `beside` make them. tables: details, by file name. notes: sentences to be read with them.
    """

    rows: pd.DataFrame
    drawings: tuple[Drawing, ...] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    resumed: int = 0  # points that an earlier run had left


def beside(what: str, printed: float, ours: float, why: str) -> dict[str, object]:
    """Return a study's row of two single numbers: published and ours, with their ratio.

    what: the row's name. printed: NaN for what is not printed. why: reason of a difference.
    """
    return {"what": what, "published": printed, "ours": ours, "ratio": ours / printed if printed == printed else NAN, "why": why}


def row(what: str, printed: Range | None, ours: Sequence[float], why: str) -> dict[str, object]:
    """Return a study's row of two ranges: published, and lowest, mean and highest of ours.

    printed: None: not printed. ours: values of all points, NaN left out. ratio: of the means; of the highest where no mean is printed, of
    the lowest where that is all; NaN without both. why: reason of a difference.
    """
    known = np.asarray([value for value in ours if np.isfinite(value)], np.float64)
    mine = {"low": known.min(), "mean": known.mean(), "high": known.max()} if len(known) else {}
    theirs = {end: getattr(printed, end) for end in ("low", "mean", "high")} if printed else {}
    both = [end for end in ("mean", "high", "low") if theirs.get(end) is not None and end in mine]
    return {
        "what": what,
        **{f"published_{end}": NAN if theirs.get(end) is None else theirs[end] for end in ("low", "mean", "high")},
        **{f"ours_{end}": float(mine.get(end, NAN)) for end in ("low", "mean", "high")},
        "points": len(known),
        "ratio": float(mine[both[0]] / theirs[both[0]]) if both else NAN,
        "why": why,
    }
