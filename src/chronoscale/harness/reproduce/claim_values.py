"""Claim values: numbers of the rows that a claim names, ours and the printed, from a study's stored result."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any, Literal, get_args

from chronoscale.errors import UserError
from chronoscale.harness.study.causes import Cause, stored_causes
from chronoscale.harness.study.findings import set_aside
from chronoscale.harness.study.results import CONCLUSIONS, StoredResult
from chronoscale.reports.published import Claim, Evidence

End = Literal["low", "mean", "high"]
ENDS: tuple[End, ...] = get_args(End)


@dataclass(frozen=True, slots=True)
class ClaimValue:
    """Number of one row, or of a row over another: low, mean and high of ours and of what the paper prints, NaN for what is not known.

    points: of ours, by which means are weighted. why: the row's own reason. run: what counterfactual runs show of it, None without any.
    printed_of: the row whose printed number it has, '' for its own.
    """

    what: str
    ours: Mapping[End, float]
    printed: Mapping[End, float]
    points: float
    why: str
    run: Cause | None = None
    printed_of: str = ""

    @property
    def has_printed(self) -> bool:
        """Whether the paper prints a number of it."""
        return any(map(isfinite, self.printed.values()))

    def reason(self, end: End) -> str:
        """Return why ours differ at an end. What runs and the row say of one that has several points, and a mean in print, is of the mean:
        of another end the row's own reason is told as one of the mean, and what runs show is not."""
        if end != "mean" and isfinite(self.printed["mean"]) and self.ours["low"] != self.ours["high"]:
            return f"of the mean: {self.why}" if self.why else ""
        return self.run.before(self.why) if self.run else self.why


def values_of(where: str, evidence: Evidence, result: StoredResult, claim: Claim) -> list[ClaimValue]:
    """Return the numbers of the rows that a claim names and we have, with or without one in print; of the nearest rivals those with one.

    Raises UserError where none has a printed number.
    """
    rows = {str(row["what"]): row for row in result.findings.rows.to_dict("records") if "what" in row}
    matching = [(words, rows[what]) for what in rows if (words := _words(evidence.rows, what)) is not None]
    matching = [(words, row) for words, row in matching if not evidence.without or evidence.without not in str(row["what"])]
    matching = [(words, row) for words, row in matching if not set_aside(row)]
    if not matching:
        raise UserError(f"{where}: {result.study} has no row '{evidence.rows}' that is scored")
    causes = {} if evidence.over else {cause.what: cause for cause in stored_causes(result.findings)}  # they are of rows, not of quotients
    values = []
    for words, row in matching:
        value = _value(row, causes)
        if evidence.over:
            other = _filled(evidence.over, words)
            if other not in rows:
                raise UserError(f"{where}: {result.study} has no row '{other}', by which to divide '{row['what']}'")
            value = _divided(value, _value(rows[other], causes), saved=claim.measure == "saved")
        if all(map(isfinite, value.ours.values())) and (value.has_printed or not evidence.nearest):
            values.append((words[:-1], value))
    if not any(value.has_printed for _, value in values):
        raise UserError(f"{where}: {result.study} has '{evidence.rows}' in no row with a printed number and one of ours")
    if not evidence.nearest:
        return [value for _, value in values]
    groups = dict.fromkeys(group for group, _ in values)
    return [_lowest([value for of, value in values if of == group]) for group in groups]


@dataclass(frozen=True, slots=True)
class JointBand:
    """One comparison of a study under joint assumptions, as a claim measures: from the 5th to the 95th percentile of its draws.

    printed: what the paper prints of it, NaN for nothing. usual: ours as assumed.
    """

    low: float
    high: float
    printed: float
    usual: float


def joint_band(where: str, evidence: Evidence, result: StoredResult, claim: Claim) -> JointBand:
    """Return the band of the conclusion that begins with these words. Raises UserError for none, or for several."""
    table = result.findings.tables.get(CONCLUSIONS)
    lines = [] if table is None else table.to_dict("records")
    matching = [line for line in lines if str(line["what"]).startswith(evidence.conclusion)]
    if len(matching) != 1:
        raise UserError(f"{where}: {result.study} has {len(matching) or 'no'} conclusions that begin with '{evidence.conclusion}'")
    known = (matching[0].get(name) for name in ("low", "high", "published", "usual"))
    numbers = [nan if number is None else float(number) for number in known]
    return JointBand(*(1 - 1 / number for number in numbers)) if claim.measure == "saved" else JointBand(*numbers)


def _words(pattern: str, what: str) -> tuple[str, ...] | None:
    """Return what stands for each `*` of a pattern; None where it does not fit."""
    match = re.fullmatch("(.+)".join(map(re.escape, pattern.split("*"))), what)
    return match and match.groups()


def _filled(pattern: str, words: Sequence[str]) -> str:
    first, *parts = pattern.split("*")
    return first + "".join(word + part for word, part in zip(words, parts, strict=True))


def _value(row: Mapping[Hashable, Any], causes: Mapping[str, Cause]) -> ClaimValue:
    """Return the numbers of a row. causes: what counterfactual runs show, by row."""
    ours, printed = (_ends(row, whose) for whose in ("ours", "published"))
    points = float(row.get("points", nan))
    what, why = str(row["what"]), str(row.get("why") or "")
    return ClaimValue(what, ours, printed, points if points > 0 else 1, why, causes.get(what))


def _lowest(values: Sequence[ClaimValue]) -> ClaimValue:
    """Return the row with the lowest number of ours, beside the lowest printed one, which may be another row's."""
    ours, printed = min(values, key=lambda value: value.ours["mean"]), min(values, key=lambda value: value.printed["mean"])
    return ClaimValue(ours.what, ours.ours, printed.printed, ours.points, ours.why, ours.run, printed.what)


def _ends(row: Mapping[Hashable, Any], whose: str) -> dict[End, float]:
    """Return both ends and the mean of a row's numbers; a single number, and the mean of a single point, is all three."""
    ends: dict[End, float] = {end: float(row.get(f"{whose}_{end}", nan)) for end in ENDS}
    single = float(row.get(whose, nan))
    if single != single and row.get("points") == 1 and ends["low"] != ends["low"] and ends["high"] != ends["high"]:
        single = ends["mean"]
    return ends if single != single else dict.fromkeys(ENDS, single)


def _divided(row: ClaimValue, other: ClaimValue, saved: bool) -> ClaimValue:
    """Return one row over another: the ratio of the means, and those of the lowest and the highest, in order; saved: 1 less that, the share
    that the first has less than the second."""

    def ends(first: Mapping[End, float], second: Mapping[End, float]) -> dict[End, float]:
        ratio = {end: first[end] / second[end] if second[end] else nan for end in ENDS}
        if ratio["low"] > ratio["high"]:
            ratio |= {"low": ratio["high"], "high": ratio["low"]}
        return {"low": 1 - ratio["high"], "mean": 1 - ratio["mean"], "high": 1 - ratio["low"]} if saved else ratio

    lead, (first, second), trail = _apart(row.what, other.what)
    why = row.why if row.why == other.why else " | ".join(f"{name}: {why}" for name, why in ((first, row.why), (second, other.why)) if why)
    what = ", ".join([*lead, f"{first} over {second}", *trail])
    return ClaimValue(what, ends(row.ours, other.ours), ends(row.printed, other.printed), min(row.points, other.points), why)


def _apart(what: str, other: str) -> tuple[list[str], tuple[str, str], list[str]]:
    """Return what the labels of two rows begin with in common, what is left of each, and what they end with in common, by commas."""
    lead: list[str] = []
    trail: list[str] = []
    own, others = what.split(", "), other.split(", ")
    for end, common in ((0, lead), (-1, trail)):
        while min(len(own), len(others)) > 1 and own[end] == others[end]:
            common.append(own.pop(end))
            others.pop(end)
    return lead, (", ".join(own), ", ".join(others)), trail[::-1]
