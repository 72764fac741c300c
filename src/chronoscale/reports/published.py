"""Published numbers: what a paper prints of its figures and tables, as data. What stands in a plot alone is not here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

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


class Paper(_Strict):
    """Figures and tables that a paper prints, by number."""

    name: str
    title: str
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
