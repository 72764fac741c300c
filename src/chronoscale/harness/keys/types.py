"""Types of the values in an experiment file, and the model that all its mappings are."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveInt

LARGEST = 2**31 - 1  # of any count: products of a few of them fit into 64 bits
WIDEST = 2**16
MOST_DRAWS = 10_000  # of what a simulation does not know


class Part(BaseModel):
    """Base of the classes whose fields are the keys of an experiment file, or of a mapping in it.

    Every key has a description: docs/experiments.md is made of them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _whole(value: Any) -> Any:
    if type(value) is not int:
        raise ValueError("expected a whole number")
    return value


LISTED = BeforeValidator(_tuple)  # YAML and JSON have lists, strict models want what is frozen
Names = Annotated[tuple[str, ...], LISTED]
WHOLE = BeforeValidator(_whole)  # of literals: True and 1.0 equal 1
Size = Annotated[PositiveInt, Field(le=LARGEST)]
Steps = Annotated[NonNegativeInt, Field(le=LARGEST)]
Finite = Annotated[NonNegativeFloat, Field(allow_inf_nan=False)]
Epochs = Annotated[tuple[NonNegativeInt, ...], LISTED]
Width = Annotated[PositiveInt, Field(le=WIDEST)]
Share = Annotated[NonNegativeFloat, Field(lt=1)]
Counts = Annotated[tuple[Annotated[int, Field(le=LARGEST)], ...], LISTED]
