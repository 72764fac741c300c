"""Claims: what a paper's abstract, introduction and conclusion claim, answered by rows of stored results and judged as rows are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, log, nan
from typing import Literal

from chronoscale.errors import UserError
from chronoscale.harness.reproduce.claim_values import ClaimValue, End, JointBand, joint_band, values_of
from chronoscale.harness.reproduce.registry import Study
from chronoscale.harness.reproduce.scorecard import VERDICTS, Scorecard, ScoredRow, Verdict
from chronoscale.harness.study.findings import AGREES, NEAR
from chronoscale.harness.study.results import StoredResult
from chronoscale.reports.published import Claim, published

ClaimVerdict = Verdict | Literal["not testable here", "not run"]
CLAIM_VERDICTS: tuple[ClaimVerdict, ...] = (*VERDICTS, "not testable here", "not run")


@dataclass(frozen=True, slots=True)
class ScoredClaim:
    """One number that a paper claims, with ours.

    end: which of ours answers it, `high` for 'up to'. printed: the paper's number. values: those of the rows that the claim names, none
    where it is not testable or its studies have not been run; of a mean those that have a printed number. joint: one comparison of them
    under joint assumptions, of studies that draw them. studies: where ours are, with their results.
    """

    paper: str
    claim: Claim
    end: End
    printed: float
    values: Sequence[ClaimValue] = ()
    joint: JointBand | None = None
    studies: Sequence[tuple[Study, StoredResult | None]] = ()

    @property
    def ours(self) -> float:
        """Our number: the lowest, the mean or the highest of the rows; NaN without any."""
        return put_together([value.ours for value in self.values], self.end, [value.points for value in self.values])

    @property
    def summed(self) -> float:
        """What the paper prints of the same rows, put together in the same way; NaN where a row has no such number."""
        values = [value.printed for value in self.values if value.has_printed]
        return put_together(values, self.end, [1] * len(values))

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
    def vanishes(self) -> bool:
        """Whether the difference that is printed is none here."""
        compares = self.claim.measure in ("times", "saved") and self.verdict == "smaller"
        return compares and abs(log(self._row(self.printed, self.ours).ours)) <= log(1 + AGREES)

    @property
    def limit(self) -> str:
        """What ours is of, so that it says little: as the claim has it; gains of both signs; another case than the one that the paper's
        number is of, where that case has another number here."""
        mixed = self.claim.measure == "gain" and self.end == "mean" and self.band[0] < 0 < self.band[1]
        return "; ".join(filter(None, [self.claim.limit, "gains of both signs" * mixed, self._elsewhere]))

    @property
    def _elsewhere(self) -> str:
        if self.end == "mean" or not self.values or self.verdict != "holds":
            return ""
        best = min if self.end == "low" else max
        printed = [value for value in self.values if isfinite(value.printed[self.end])]
        if not printed:
            return ""
        theirs, ours = (best(some, key=key) for some, key in ((printed, lambda one: one.printed[self.end]), (self.values, self._ours)))
        same = self._fold(theirs.printed[self.end], ours.printed[self.end])
        if 0 < same <= 1 + AGREES or self._fold(theirs.printed[self.end], theirs.ours[self.end]) <= NEAR:
            return ""
        return f"ours is of {ours.what}, the printed of {theirs.printed_of or theirs.what}, where ours is another"

    @property
    def judged_jointly(self) -> bool:
        """Whether ours under joint assumptions are of what the claim is of: both printed numbers agree, and both of ours are near."""
        joint = self.joint
        return joint is not None and all(
            0 < self._fold(*both) <= near for both, near in (((self.printed, joint.printed), 1 + AGREES), ((joint.usual, self.ours), NEAR))
        )

    @property
    def inside(self) -> bool:
        """Whether the printed number lies within ours under joint assumptions."""
        return self.joint is not None and self.judged_jointly and self.joint.low <= self.printed <= self.joint.high

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
        """The reason of the row that gives ours, of a mean of the one that is farthest from its printed number, named where there are
        several; or why there is none."""
        if not self.values:
            left = ", ".join(study.file_name for study, result in self.studies if not result)
            return self.claim.not_testable or f"no whole result of {left}"
        named = {"low": "lowest", "mean": "farthest", "high": "highest"}[self.end]
        value = max(self.values, key=self._distance)
        if self.end != "mean":
            value = (min if self.end == "low" else max)(self.values, key=self._ours)
        why = value.reason(self.end)
        return why if len(self.values) == 1 else f"{len(self.values)} rows; {named} {value.what}: {why or 'no reason'}"

    def _ours(self, value: ClaimValue) -> float:
        return value.ours[self.end]

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
    values = [value for each in claim.ours for value in values_of(where, each, whole[each.study], claim)] if answered else []
    joint = next((joint_band(where, each, whole[each.study], claim) for each in claim.ours if each.conclusion), None) if answered else None
    rated = [value for value in values if value.has_printed]
    if claim.in_rows:
        printed = put_together([value.printed for value in rated], claim.in_rows, [1] * len(rated))
        if answered and not isfinite(printed):
            raise UserError(f"{where}: not all rows that it names have a printed {claim.in_rows}")
        of = rated if claim.in_rows == "mean" else values
        yield ScoredClaim(card.paper, claim, claim.in_rows, printed, of, joint, studies)
    given: dict[End, float | None] = {"low": claim.low, "mean": claim.mean, "high": claim.high}
    for end, number in given.items():
        if number is not None:
            yield ScoredClaim(card.paper, claim, end, number, rated if end == "mean" else values, joint, studies)
    if claim.not_testable and not any(given.values()):
        yield ScoredClaim(card.paper, claim, "mean", nan)


def _times(saved: float) -> float:
    """Return how many times as much there is without what is saved."""
    return 1 / (1 - saved) if saved < 1 else inf
