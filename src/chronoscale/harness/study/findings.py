"""Findings: what a study shows: rows, published beside ours, with details, drawings and notes; and why two numbers differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
CAUSES = "causes"  # a table of what runs show of rows far from the printed number (`study.causes.cause_table`)
ASIDE = "aside"  # column of a row that is not scored: why, such as what it assumes otherwise
AGREES = 0.05  # of the published: no difference to explain
NEAR = 1.25  # times the published, or a part of it: counted as the same


def set_aside(row: Mapping[Any, Any]) -> bool:
    """Return whether a row says nothing of how near ours is to the published: it assumes otherwise, is made from it, or keeps a bound."""
    reason = row.get(ASIDE)  # NaN where a table has no reason for it
    return (isinstance(reason, str) and reason != "") or str(row.get("why")).startswith(SOLVED)


def by_copies(ratio: float, free: float) -> str:
    """Return a study row's reason: whether the time of host-to-device copies explains why our ratio differs from the published one.

    ratio: ours over published; free: the same, simulated with copies that take no time. NaN: no such ratio.
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
    """Result of a study, for its page and its JSON file: rows, drawings, tables of details and notes.

    rows: published beside ours, made by `row` and `beside`. tables: file name -> details. notes: sentences to be read with the rows.
    earlier_s: seconds of each point that an earlier run had left, NaN where that is not known.
    """

    rows: pd.DataFrame
    drawings: tuple[Drawing, ...] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    earlier_s: Sequence[float] = ()


def beside(what: str, printed: float, ours: float, why: str, part: str = "") -> dict[str, object]:
    """Return a row of a study that has one published number and one of ours, with ours over published as `ratio`.

    what: the row's label. printed: the published number, NaN where the paper prints none. why: reason of a difference. part: in words,
    which part of the published data ours is of, '' for all of it; a part has no ratio to what is printed of the whole.
    """
    ratio = ours / printed if printed == printed and not part else NAN
    if part and printed == printed:
        why = f"no ratio: {part}; {why}".removesuffix("; ")
    return {"what": what, "published": printed, "ours": ours, "ratio": ratio, "why": why}


def row(what: str, printed: Range | None, ours: Sequence[float], why: str) -> dict[str, object]:
    """Return a row of a study that has a published range and a range of ours: lowest, mean, highest, and ours over published as `ratio`.

    what: the row's label. printed: None where the paper prints none. ours: values of all points, NaN left out. why: reason of a difference.
    The ratio is that of the means; where no mean is printed the geometric mean of both ends' ratios (the less one, if that is not above
    0), or that of the only end; else NaN.
    """
    known = np.asarray([value for value in ours if np.isfinite(value)], np.float64)
    mine = {"low": known.min(), "mean": known.mean(), "high": known.max()} if len(known) else {}
    theirs = {end: getattr(printed, end) for end in ("low", "mean", "high")} if printed else {}
    ratios = {end: float(mine[end] / theirs[end]) for end in mine if theirs.get(end) is not None}
    of = [ratios["mean"]] if "mean" in ratios else list(ratios.values())
    return {
        "what": what,
        **{f"published_{end}": NAN if theirs.get(end) is None else theirs[end] for end in ("low", "mean", "high")},
        **{f"ours_{end}": float(mine.get(end, NAN)) for end in ("low", "mean", "high")},
        "points": len(known),
        "ratio": NAN if not of else of[0] if len(of) == 1 else float(np.sqrt(np.prod(of))) if min(of) > 0 else min(of),
        "why": why,
    }
