"""Keys under `compare`: what `chronoscale compare` trains to, and how often."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, FiniteFloat, PositiveFloat, field_validator

from chronoscale.datasets.scores import SCORES
from chronoscale.errors import UserError, unknown
from chronoscale.harness.keys.types import LISTED, Part, Size

SHARE = "share"  # of the way from the best naive prediction to the best strategy


class CompareKeys(Part):
    """The target that strategies are compared by, seeds, and learning rates."""

    target: dict[str, FiniteFloat] | str = Field(
        {SHARE: 0.9},
        description="what has to be reached on validation: a score, `{mse: 0.077}`; `{share: 0.9}` of the way from the best prediction "
        "without a model to the best that a strategy reaches; `naive`, that prediction's own; or what the strategy of that name reaches",
    )
    seeds: Annotated[tuple[int, ...], LISTED] | Size = Field(5, description="trainings of each: seeds, or so many, from `seed` on")
    rates: Annotated[tuple[PositiveFloat, ...], LISTED] = Field(
        (),
        description="learning rates that each is tried with, on the first seed; the best by validation stays. By default a third of "
        "training.learning_rate, itself, and three times as much",
    )

    @field_validator("target")
    @classmethod
    def _one(cls, target: dict[str, float] | str) -> dict[str, float] | str:
        if isinstance(target, str):
            return target
        if len(target) != 1:
            raise UserError(f"compare.target: expected one score, or {SHARE}, got {', '.join(target) or 'none'}")
        ((key, value),) = target.items()
        if key == SHARE:
            if not 0 < value <= 1:
                raise UserError(f"compare.target: {SHARE}: above 0 and at most 1, got {value:g}")
        elif key not in SCORES:
            raise UserError(f"compare.target: {unknown('score', key, [*SCORES, SHARE])}")
        return target

    @field_validator("seeds")
    @classmethod
    def _once(cls, seeds: tuple[int, ...] | int) -> tuple[int, ...] | int:
        if isinstance(seeds, tuple) and (not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds)):
            raise UserError(f"compare.seeds: expected one or more seeds of at least 0, each once, got {list(seeds)}")
        return seeds

    @field_validator("rates")
    @classmethod
    def _each_once(cls, rates: tuple[float, ...]) -> tuple[float, ...]:
        if len(set(rates)) < len(rates):
            raise UserError(f"compare.rates: each once, got {list(rates)}")
        return rates
