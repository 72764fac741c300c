"""Claims: what a paper's abstract, introduction and conclusion claim, answered by rows of stored results and judged as rows are."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan
from typing import Any, Literal, get_args

from chronoscale.errors import UserError
from chronoscale.harness.reproduce.registry import Study
from chronoscale.harness.reproduce.scorecard import VERDICTS, Scorecard, ScoredRow, Verdict
from chronoscale.harness.study.causes import Cause, stored_causes
from chronoscale.harness.study.findings import NEAR, set_aside
from chronoscale.harness.study.results import CONCLUSIONS, StoredResult
from chronoscale.reports.published import Claim, Evidence, published

End = Literal["low", "mean", "high"]
ENDS: tuple[End, ...] = get_args(End)

ClaimVerdict = Verdict | Literal["not testable here", "not run"]
CLAIM_VERDICTS: tuple[ClaimVerdict, ...] = (*VERDICTS, "not testable here", "not run")


@dataclass(frozen=True, slots=True)
class ClaimValue:
    """Number of one row, or of a row over another: low, mean and high of ours and of what the paper prints, NaN for what is not known.

    points: of ours, by which means are weighted.
    """

    what: str
    ours: Mapping[End, float]
    printed: Mapping[End, float]
    points: float
    why: str


@dataclass(frozen=True, slots=True)
class ScoredClaim:
    """One number that a paper claims, with ours.

    end: which of ours answers it, `high` for 'up to'. printed: the paper's number. values: those of the rows that the claim names, none
    where it is not testable or its studies have not been run. joint: 5th and 95th percentile of ours under joint assumptions, of studies
    that draw them. studies: where ours are, with their results.
    """

    paper: str
    claim: Claim
    end: End
    printed: float
    values: Sequence[ClaimValue] = ()
    joint: tuple[float, float] | None = None
    studies: Sequence[tuple[Study, StoredResult | None]] = ()

    @property
    def ours(self) -> float:
        """Our number: the lowest, the mean or the highest of the rows; NaN without any."""
        return put_together([value.ours for value in self.values], self.end, [value.points for value in self.values])

    @property
    def summed(self) -> float:
        """What the paper prints of the same rows, put together in the same way; NaN where a row has no such number."""
        return put_together([value.printed for value in self.values], self.end, [1] * len(self.values))

    @property
    def band(self) -> tuple[float, float]:
        """Lowest and highest of ours."""
        known = [number for value in self.values for number in value.ours.values() if isfinite(number)]
        return (min(known), max(known)) if known else (nan, nan)

    @property
    def verdict(self) -> ClaimVerdict:
        """What became of the claim: a comparison by the rule of rows (a share that is saved as times as much, 1 / (1 - share)); another
        number holds within NEAR, and is reversed where its sign is another."""
        if self.claim.not_testable:
            return "not testable here"
        if not self.values:
            return "not run"
        if self.claim.measure == "saved" or (self.claim.measure == "times" and self.ours > 0):
            return self._row(self.printed, self.ours).verdict
        if self.printed * self.ours <= 0:
            return "reversed"
        if self.fold <= NEAR:
            return "holds"
        return "smaller" if abs(self.ours) < abs(self.printed) else "larger"

    @property
    def fold(self) -> float:
        """How many times the smaller of the printed number and ours the larger is; infinite where they differ in sign, or one is 0."""
        return self._fold(self.printed, self.ours)

    @property
    def way(self) -> str:
        """How ours were made, such as 'simulated'."""
        made = dict.fromkeys(result.way for _, result in self.studies if result)
        return " and ".join(made)

    @property
    def why(self) -> str:
        """The reason of the row that is farthest from its printed number, named where there are several; or why there is none."""
        if not self.values:
            left = ", ".join(study.file_name for study, result in self.studies if not result)
            return self.claim.not_testable or f"no whole result of {left}"
        farthest = max(self.values, key=self._distance)
        if len(self.values) == 1:
            return farthest.why
        return f"{len(self.values)} rows; farthest {farthest.what}: {farthest.why or 'no reason'}"

    def _distance(self, value: ClaimValue) -> tuple[float, float]:
        printed, ours = value.printed[self.end], value.ours[self.end]
        return self._fold(printed, ours), abs(printed - ours)

    def _fold(self, printed: float, ours: float) -> float:
        return self._row(printed, ours).fold if printed and isfinite(printed) and isfinite(ours) else 0

    def _row(self, printed: float, ours: float) -> ScoredRow:
        """Return a printed number and one of ours as a row that compares."""
        first, second = (_times(number) if self.claim.measure == "saved" else number for number in (printed, ours))
        return ScoredRow(self.studies[0][0], self.claim.claim, first, second / first, "")


def claims_of(card: Scorecard) -> list[ScoredClaim]:
    """Return the claims of a scorecard's paper, each with what its results say of it; a claim has one number for each end that is printed.

    Raises UserError, with the claim, for one that names a study, row or conclusion which is not there. A study without a whole result is no
    error: its claims are not answered.
    """
    return [scored for claim in published(card.paper).claims for scored in _scored(card, claim)]


def put_together(values: Sequence[Mapping[End, float]], end: End, weights: Sequence[float]) -> float:
    """Return the lowest, the weighted mean or the highest of several values; NaN where there are none, or one lacks that end."""
    numbers = [value[end] for value in values]
    if not numbers:
        return nan
    if end == "mean":
        return sum(number * weight for number, weight in zip(numbers, weights, strict=True)) / sum(weights)
    return nan if any(number != number for number in numbers) else (min if end == "low" else max)(numbers)


def _scored(card: Scorecard, claim: Claim) -> Iterator[ScoredClaim]:
    where = f"claim '{claim.claim}' of {card.paper}"
    names = dict.fromkeys(evidence.study for evidence in claim.ours)
    if missing := [name for name in names if name not in card.studies]:
        raise UserError(f"{where}: no study {', '.join(missing)}")
    whole = {name: result for name in names if (result := card.studies[name][1]) and not result.quick}
    studies = [(card.studies[name][0], whole.get(name)) for name in names]
    answered = len(whole) == len(names)
    values = [value for each in claim.ours for value in _values(where, each, whole[each.study], claim)] if answered else []
    joint = next((_joint(where, each, whole[each.study], claim) for each in claim.ours if each.conclusion), None) if answered else None
    if claim.in_rows:
        printed = put_together([value.printed for value in values], claim.in_rows, [1] * len(values))
        if answered and not isfinite(printed):
            raise UserError(f"{where}: not all rows that it names have a printed {claim.in_rows}")
        yield ScoredClaim(card.paper, claim, claim.in_rows, printed, values, joint, studies)
    given: dict[End, float | None] = {"low": claim.low, "mean": claim.mean, "high": claim.high}
    for end, number in given.items():
        if number is not None:
            yield ScoredClaim(card.paper, claim, end, number, values, joint, studies)
    if claim.not_testable and not any(given.values()):
        yield ScoredClaim(card.paper, claim, "mean", nan)


def _values(where: str, evidence: Evidence, result: StoredResult, claim: Claim) -> list[ClaimValue]:
    """Return the numbers of the rows that a claim names, of those that have one in print and of ours. Raises UserError for none."""
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
        if all(map(isfinite, value.ours.values())) and any(map(isfinite, value.printed.values())):
            values.append((words[:-1], value))
    if not values:
        raise UserError(f"{where}: {result.study} has '{evidence.rows}' in no row with a printed number and one of ours")
    if not evidence.nearest:
        return [value for _, value in values]
    groups = dict.fromkeys(group for group, _ in values)
    return [_lowest([value for of, value in values if of == group]) for group in groups]


def _joint(where: str, evidence: Evidence, result: StoredResult, claim: Claim) -> tuple[float, float]:
    """Return the band of all conclusions that begin with these words, as the claim measures. Raises UserError for none."""
    table = result.findings.tables.get(CONCLUSIONS)
    lines = [] if table is None else table.to_dict("records")
    matching = [line for line in lines if str(line["what"]).startswith(evidence.conclusion)]
    if not matching:
        raise UserError(f"{where}: {result.study} has no conclusion that begins with '{evidence.conclusion}'")
    low, high = min(float(line["low"]) for line in matching), max(float(line["high"]) for line in matching)
    return (1 - 1 / low, 1 - 1 / high) if claim.measure == "saved" else (low, high)


def _words(pattern: str, what: str) -> tuple[str, ...] | None:
    """Return what stands for each `*` of a pattern; None where it does not fit."""
    match = re.fullmatch("(.+)".join(map(re.escape, pattern.split("*"))), what)
    return match and match.groups()


def _filled(pattern: str, words: Sequence[str]) -> str:
    first, *parts = pattern.split("*")
    return first + "".join(word + part for word, part in zip(words, parts, strict=True))


def _value(row: Mapping[Hashable, Any], causes: Mapping[str, Cause]) -> ClaimValue:
    """Return the numbers of a row. causes: what counterfactual runs show, by row; of one with a printed mean they are of the mean."""
    ours, printed = (_ends(row, whose) for whose in ("ours", "published"))
    points = float(row.get("points", nan))
    why, cause = str(row.get("why") or ""), causes.get(str(row["what"]))
    if cause:
        why = "of the mean, " * (isfinite(printed["mean"]) and ours["low"] != ours["high"]) + cause.before(why)
    return ClaimValue(str(row["what"]), ours, printed, points if points > 0 else 1, why)


def _lowest(values: Sequence[ClaimValue]) -> ClaimValue:
    """Return the row with the lowest number of ours, beside the lowest printed one, which may be another row's."""
    ours, printed = min(values, key=lambda value: value.ours["mean"]), min(values, key=lambda value: value.printed["mean"])
    return ClaimValue(ours.what, ours.ours, printed.printed, ours.points, ours.why)


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

    why = row.why if row.why == other.why else "; ".join(filter(None, [row.why, other.why]))
    return ClaimValue(
        f"{row.what} over {other.what}", ends(row.ours, other.ours), ends(row.printed, other.printed), min(row.points, other.points), why
    )


def _times(saved: float) -> float:
    """Return how many times as much there is without what is saved."""
    return 1 / (1 - saved) if saved < 1 else inf
