"""Published numbers: what a paper prints of its figures and tables, as data. What stands in a plot alone is not here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, model_validator

from chronoscale.datasets.scores import SCORES
from chronoscale.errors import unknown

QUANTITIES = ("speedup", "flops", "share", "efficiency", "error", "seconds", "gb", *SCORES)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Range(_Strict):
    """Range that a paper prints of one comparison, such as a speed-up of 1.2 to 3.4 over a rival; None for an end that it does not print.

    over: the rival of a ratio, '' for none. layers, gpus: that it is of, None: all.
    """

    strategy: str
    over: str = ""
    quantity: str = Field("speedup", description=f"one of {', '.join(QUANTITIES)}")
    layers: PositiveInt | None = None
    gpus: PositiveInt | None = None
    low: PositiveFloat | None = None
    high: PositiveFloat | None = None
    mean: PositiveFloat | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        """Check that ends are in order and the quantity fits its rival."""
        printed = [value for value in (self.low, self.mean, self.high) if value is not None]
        if not printed or printed != sorted(printed):
            raise ValueError(f"{self.strategy} over {self.over}: expected low <= mean <= high, at least one of them")
        if self.quantity not in QUANTITIES:
            raise ValueError(f"{self.strategy}: a quantity is one of {', '.join(QUANTITIES)}, not {self.quantity}")
        if (self.quantity in ("speedup", "flops")) != bool(self.over):
            raise ValueError(f"{self.strategy}: a {self.quantity} {'has no' if self.over else 'needs a'} rival")
        return self


class Printed(_Strict):
    """Figure or table as a paper prints it: title, section, the numbers in its text, and a remark on what it leaves open.

    ranges: of a figure. rows: of a table.
    """

    title: str
    section: str
    remark: str = ""
    ranges: tuple[Range, ...] = ()
    rows: tuple[Mapping[str, str | float | bool], ...] = Field((), description="a table's rows; seconds, GB, shares of 1")


class Evidence(_Strict):
    """Rows of a study's result that answer a claim.

    study: its file name, such as 'figure-8'. rows: their `what`, in which each `*` stands for any words. over: the rows that they are
    divided by, with the same words for `*`. without: of the rows those that contain these words are left out. nearest: of rows that differ
    in their last `*` alone, such as the rival's name, only the lowest counts. conclusion: the words that the study's conclusions on them
    begin with.
    """

    study: str = Field(pattern=r"^(figure|table|study)-\d+$")
    rows: str
    over: str = ""
    without: str = ""
    nearest: bool = False
    conclusion: str = ""

    @model_validator(mode="after")
    def _fitting(self) -> Evidence:
        """Check that rows have words for what divides them, and differ where the nearest counts."""
        if self.over and self.over.count("*") != self.rows.count("*"):
            raise ValueError(f"'{self.over}' has not as many * as '{self.rows}'")
        if self.nearest and "*" not in self.rows:
            raise ValueError(f"'{self.rows}': the nearest of rows needs a *")
        return self


class Claim(_Strict):
    """Sentence of a paper's abstract, introduction or conclusion, with what it claims and where ours is.

    claim: what is claimed, in our words. sentence: the paper's. measure: 'times' one system is another, a share that is 'saved', a 'gain'
    whose sign counts, or another 'number'. low, mean, high: printed as 'at least', 'on average', 'up to'; each is a number of its own.
    in_rows: of a sentence without numbers: which of the numbers that the paper prints for these rows are put together, as `low`, `mean` or
    `high`. ours: rows of our results; not_testable: why there are none. limit: what ours is of in place of the paper's data or device, so
    that agreement says little; told wherever ours is. note: what the sentence leaves open.
    """

    claim: str
    sentence: str
    place: Literal["abstract", "introduction", "conclusion"]
    measure: Literal["times", "saved", "gain", "number"] = "times"
    low: PositiveFloat | None = None
    mean: PositiveFloat | None = None
    high: PositiveFloat | None = None
    in_rows: Literal["low", "mean", "high"] | None = None
    ours: tuple[Evidence, ...] = ()
    not_testable: str = ""
    limit: str = ""
    note: str = ""

    @model_validator(mode="after")
    def _answered(self) -> Claim:
        """Check that a claim has a number and an answer, or says why not."""
        printed = [value for value in (self.low, self.mean, self.high) if value is not None]
        if printed != sorted(printed):
            raise ValueError(f"{self.claim}: expected low <= mean <= high")
        if bool(self.ours) == bool(self.not_testable):
            raise ValueError(f"{self.claim}: expected either rows of ours or why it is not testable")
        if self.ours and bool(printed) == bool(self.in_rows):
            raise ValueError(f"{self.claim}: expected either printed numbers or `in_rows`")
        return self


class Paper(_Strict):
    """Figures and tables that a paper prints, by number, and what its abstract, introduction and conclusion claim."""

    name: str
    title: str
    claims: tuple[Claim, ...] = ()
    figures: Mapping[int, Printed]
    tables: Mapping[int, Printed]


PAPERS = ("real", "pgt-i", "fast", "flaredtdg", "memshare")


@cache
def published(paper: str) -> Paper:
    """Return the numbers that a paper prints in its figures and tables, which studies put beside ours.

    paper: its key, such as 'real'. Raises UserError for one that is none of `PAPERS`, with the nearest.
    """
    if paper not in PAPERS:
        raise unknown("paper", paper, PAPERS)
    text = resources.files("chronoscale.reports").joinpath(f"published/{paper}.yaml").read_text(encoding="utf-8")
    return Paper.model_validate(yaml.safe_load(text))
