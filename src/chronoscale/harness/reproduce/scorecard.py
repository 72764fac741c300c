"""Scorecard: what of the papers holds, from stored results alone: every row by one rule, figures and papers summed up."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, isclose, isfinite, isnan, log, nan, sqrt
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal, get_args

from scipy.stats import kendalltau

from chronoscale.errors import UserError
from chronoscale.harness.reproduce import registry
from chronoscale.harness.reproduce.registry import Study
from chronoscale.harness.study.causes import Cause, stored_causes
from chronoscale.harness.study.findings import AGREES, NEAR, UNKNOWN, set_aside
from chronoscale.harness.study.results import StoredResult, load_result
from chronoscale.reports.published import PAPERS

TIMES = (" over ", "speed-up", "speedup")  # in what a row says of two systems or settings, where 1 means that neither is better
SHARE = ", share"  # how a row ends that says which part something is
RANKED = 3  # comparisons at least, whose order says something

Verdict = Literal["holds", "smaller", "larger", "reversed"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

Standing = Literal["shown", "conjecture", "not established"]  # of the cause of a difference
STANDINGS: tuple[Standing, ...] = get_args(Standing)


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """Row of a stored result that has a printed number. published: that number, NaN where the result has it under another name; ratio: ours
    over it; why: the row's reason; run: what counterfactual runs say of the difference, None without any."""

    study: Study
    what: str
    published: float
    ratio: float
    why: str
    run: Cause | None = None

    @property
    def ours(self) -> float:
        """Our number."""
        return self.published * self.ratio

    @property
    def fold(self) -> float:
        """How many times the smaller of both the larger is; infinite where they differ in sign, or one is 0."""
        return max(self.ratio, 1 / self.ratio) if self.ratio > 0 else inf

    @property
    def compares(self) -> bool:
        """Whether the row says how many times one system or setting is another, in time, bytes or error; a share says no times."""
        return any(words in self.what for words in TIMES) and not self.what.endswith(SHARE) and self.published > 0 and self.ours > 0

    @property
    def reason(self) -> str:
        """What runs say of the difference, then the row's own reason."""
        return self.run.before(self.why) if self.run else self.why

    @property
    def cause(self) -> Standing | None:
        """How well the cause of the difference is known, None within NEAR: `conjecture` is a reason that no run shows."""
        if self.fold <= NEAR:
            return None
        if self.run and self.run.shown:
            return "shown"
        return "not established" if UNKNOWN in self.why or not self.why else "conjecture"

    @property
    def verdict(self) -> Verdict:
        """What became of a comparison: `reversed` is on the other side of 1, `holds` within NEAR on the same one; within AGREES of 1
        neither system is better."""
        published, ours = (0.0 if abs(log(value)) <= log(1 + AGREES) else log(value) for value in (self.published, self.ours))
        if published * ours < 0:
            return "reversed"
        if self.fold <= NEAR and (published == 0) == (ours == 0):
            return "holds"
        return "smaller" if abs(ours) < abs(published) else "larger"


@dataclass(frozen=True, slots=True)
class Score:
    """Sum of scored rows, of a figure or of a paper."""

    rows: Sequence[ScoredRow]

    @property
    def comparisons(self) -> list[ScoredRow]:
        """Rows that compare two systems."""
        return [row for row in self.rows if row.compares]

    def of(self, verdict: Verdict) -> list[ScoredRow]:
        """Return the comparisons that have a verdict."""
        return [row for row in self.comparisons if row.verdict == verdict]

    @property
    def near(self) -> int:
        """Number of rows within NEAR."""
        return sum(row.fold <= NEAR for row in self.rows)

    def known(self, standing: Standing) -> int:
        """Return the number of rows beyond NEAR whose cause is known so well."""
        return sum(row.cause == standing for row in self.rows)

    @property
    def fold(self) -> float:
        """Geometric mean of the finite folds of rows; NaN without any."""
        known = [log(row.fold) for row in self.rows if isfinite(row.fold)]
        return exp(fmean(known)) if known else nan

    @property
    def order(self) -> float:
        """Kendall's tau-b between the published and our comparisons; NaN for fewer than RANKED, or where one's are all equal."""
        pairs = [(row.published, row.ours) for row in self.comparisons]
        return float(kendalltau(*zip(*pairs, strict=True)).statistic) if len(pairs) >= RANKED else nan


@dataclass(frozen=True, slots=True)
class Scorecard:
    """Scorecard of a paper. figures: its figures and tables that have a result with printed numbers, with how each was made. studies:
    all that it has, by file name, with their results, None for what has not been run."""

    paper: str
    figures: Sequence[tuple[Study, StoredResult, Score]]
    studies: Mapping[str, tuple[Study, StoredResult | None]]

    @property
    def score(self) -> Score:
        """Score of all rows."""
        return Score([row for _, _, score in self.figures for row in score.rows])

    @property
    def order(self) -> float:
        """Median of the figures' orders; NaN where none has one."""
        orders = [score.order for _, _, score in self.figures if not isnan(score.order)]
        return median(orders) if orders else nan


def scorecards(results: Path) -> list[Scorecard]:
    """Return the scorecards of all papers that have a result with printed numbers. results: folder with `<paper>/<study>.json`. Raises
    UserError for a damaged file, and where there is no result at all."""
    cards = [_scorecard(paper, results) for paper in PAPERS]
    if not any(card.figures for card in cards):
        raise UserError(f"{results}: no result of a study; `chronoscale reproduce PAPER --all --out {results}` makes a paper's")
    return [card for card in cards if card.figures]


def _scorecard(paper: str, results: Path) -> Scorecard:
    paths = [(study, results / paper / f"{study.file_name}.json") for study in registry.of(paper)]
    studies = [(study, load_result(path) if path.is_file() else None) for study, path in paths]
    scored = ((study, result, list(_rows(study, result))) for study, result in studies if result)
    figures = [(study, result, Score(rows)) for study, result, rows in scored if rows]
    return Scorecard(paper, figures, {study.file_name: (study, result) for study, result in studies})


def _rows(study: Study, result: StoredResult) -> Iterator[ScoredRow]:
    """Yield the rows of a result that have a printed number, without those that are set aside."""
    runs = {cause.what: cause for cause in stored_causes(result.findings)}
    for row in result.findings.rows.to_dict("records"):
        ratio, why = float(row.get("ratio", nan)), str(row.get("why", ""))
        if not isnan(ratio) and not set_aside(row):
            yield ScoredRow(study, str(row["what"]), _published(row, ratio), ratio, why, runs.get(str(row["what"])))


def _published(row: Mapping[Hashable, Any], ratio: float) -> float:
    """Return the printed number that a row's ratio is of: its only one, its mean, the geometric mean of its ends, an end; else NaN."""
    printed, ours = (_numbers(row, whose) for whose in ("published", "ours"))
    return next((theirs for theirs, own in zip(printed, ours, strict=True) if theirs and isclose(own / theirs, ratio, rel_tol=1e-6)), nan)


def _numbers(row: Mapping[Hashable, Any], whose: str) -> list[float]:
    """A row's number, mean, geometric mean of both ends, and ends; NaN for those that it has not."""
    single, mean, high, low = (float(row.get(whose + end, nan)) for end in ("", "_mean", "_high", "_low"))
    return [single, mean, sqrt(low * high) if low > 0 and high > 0 else nan, high, low]
