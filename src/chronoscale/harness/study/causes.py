"""Causes: which one changed assumption brings a row's number nearer to the printed one, judged by runs and by them alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf, isnan, log, nan
from typing import Any, NamedTuple

import pandas as pd

from chronoscale.harness.study.expressions import plural
from chronoscale.harness.study.findings import AGREES, CAUSES, NEAR, UNKNOWN, Findings, set_aside
from chronoscale.reports.numbers import number

CLOSES = 0.5  # of a gap, on a log scale
Line = Mapping[str, Any]


class CounterfactualRun(NamedTuple):
    """Counterfactual run of a study: one assumption was changed, all else as it is.

    of: the assumption; what: with its value, in words; source: why it may be so. ratios: ours over the published of each of the study's
    rows; NaN where a row is not there.
    """

    of: str
    what: str
    source: str
    ratios: Sequence[float]


@dataclass(frozen=True, slots=True)
class Cause:
    """What counterfactual runs say of a row that is far from the printed number.

    what: the row's. ratio: ours over the published. shown: whether `cause` closes at least CLOSES of the gap and takes no other row of the
    study further off. cause, source: the change that brings the row nearest, '' for none; changed: the row's ratio with it; harms: rows
    that it takes further off. tried: assumptions that were changed, one at a time.
    """

    what: str
    ratio: float
    shown: bool
    cause: str
    source: str
    changed: float
    harms: int
    tried: int

    @property
    def costs(self) -> bool:
        """Whether `cause` closes CLOSES of the gap, but takes other rows of the study further off."""
        return bool(self.cause) and not self.shown and _closes(self.ratio, self.changed)

    def sentence(self) -> str:
        """Return in words what runs show of the row's difference."""
        of = f"of {self.tried} {plural(self.tried, 'assumption')}, changed one at a time,"
        to = f"{self.cause}: {number(self.changed, 3)} times the published"
        if self.shown:
            return f"shown by a run: {to}"
        if not self.cause:
            return f"{of} none brings it nearer"
        if self.costs:
            return f"{of} none explains it; {to}, but takes {self.harms} other {plural(self.harms, 'row')} further off"
        return f"{of} none closes half of the gap; nearest, {to}"

    def before(self, why: str) -> str:
        """Return what runs show, and after it a row's own reason `why`, without what that says of the same change; where a run brings the
        row within NEAR, without the clause that the cause is not established."""
        same = re.escape(self.cause)
        own = re.sub(rf"(^|; ){same}: [^;]*", "", why).removeprefix("; ") if self.cause else why
        own = re.sub(rf"(^|; )[^;]*{UNKNOWN}$", "", own) if self.shown and _gap(self.changed) <= log(NEAR) else own
        return " | ".join(filter(None, (self.sentence(), own)))


def causes(rows: Sequence[Line], runs: Iterable[CounterfactualRun]) -> list[Cause]:
    """Return what counterfactual runs say of each row of a study that is farther than NEAR from its printed number.

    rows: of the study, nothing changed. Rows that are set aside are left out. Empty where nothing was tried.
    """
    tried, ratios = list(runs), ratios_of(rows)
    return [_cause(i, rows[i], ratios, tried) for i in far_rows(rows)] if tried else []


def far_rows(rows: Sequence[Line]) -> list[int]:
    """Return which rows of a study are farther than NEAR from their printed number and so ask for a cause; none that is set aside."""
    return [i for i, ratio in enumerate(ratios_of(rows)) if _gap(ratio) > log(NEAR)]


def cause_table(lines: Iterable[Cause]) -> pd.DataFrame:
    """Return a study's table of causes, one row a row of the study that is far from the printed number; columns: the fields of `Cause`."""
    return pd.DataFrame([asdict(each) for each in lines])


def stored_causes(findings: Findings) -> list[Cause]:
    """Return the causes that a study's result holds, none where no assumption was changed."""
    table = findings.tables.get(CAUSES, pd.DataFrame())
    if not table.empty:
        table = table.astype({"changed": float})  # where none has a number a file says null
    return [Cause(**{str(name): value for name, value in line.items()}) for line in table.to_dict("records")]


def ratios_of(rows: Iterable[Line]) -> list[float]:
    """Return ours over the published of each row of a study; NaN for a row without a printed number, and for one that is set aside."""
    return [nan if set_aside(row) or (ratio := row.get("ratio")) is None else float(ratio) for row in rows]


def _cause(i: int, row: Line, ratios: Sequence[float], runs: Sequence[CounterfactualRun]) -> Cause:
    def distance(run: CounterfactualRun) -> tuple[bool, float]:
        """Least is best: what closes half of the gap at nobody's cost, then by what is left of the gap."""
        closes = _closes(ratios[i], run.ratios[i]) and not _harmed(i, ratios, run.ratios)
        return not closes, _gap(run.ratios[i])

    of = len({run.of for run in runs})
    nearer = [run for run in runs if _gap(run.ratios[i]) < _gap(ratios[i])]
    if not nearer:
        return Cause(str(row["what"]), ratios[i], False, "", "", nan, 0, of)
    best = min(nearer, key=distance)
    shown, harms = not distance(best)[0], _harmed(i, ratios, best.ratios)
    return Cause(str(row["what"]), ratios[i], shown, best.what, best.source, best.ratios[i], harms, of)


def _gap(ratio: float) -> float:
    """How far a ratio is from 1 on a log scale; NaN for none, infinite where numbers differ in sign or one is 0."""
    return nan if isnan(ratio) else abs(log(ratio)) if ratio > 0 else inf


def _closes(ratio: float, changed: float) -> bool:
    """Whether a changed ratio leaves at most CLOSES of the gap, of an infinite one no more than counts as the same."""
    gap = _gap(ratio)
    return _gap(changed) <= (log(NEAR) if gap == inf else CLOSES * gap)


def _harmed(i: int, ratios: Sequence[float], changed: Sequence[float]) -> int:
    """How many other rows are further off than NEAR and by more than AGREES further than they were, or are no more."""
    pairs = [(_gap(old), _gap(new)) for j, (old, new) in enumerate(zip(ratios, changed, strict=True)) if j != i]
    return sum((new > log(NEAR) and new > old + log(1 + AGREES)) or isnan(new) > isnan(old) for old, new in pairs)
