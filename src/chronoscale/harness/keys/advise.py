"""Keys under `advise`: what `chronoscale advise` compares, and by what."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, field_validator, model_validator

from chronoscale.errors import UserError
from chronoscale.harness.keys.sizes import Bytes
from chronoscale.harness.keys.types import LISTED, Names, Part, Size

Objective = Literal["time", "memory", "gpu-hours", "cost"]
Value = Annotated[bool | int | float | str | tuple[bool | int | float | str, ...] | None, LISTED]


class BudgetKeys(Part):
    """Keys of an experiment file under `advise.budget`: limits; candidates that exceed them are listed, and not ranked."""

    hours: PositiveFloat | None = Field(None, description="of training: `epochs`, and what happens once before")
    gpu_hours: PositiveFloat | None = Field(None, description="those hours times the GPUs")
    gpus: Size | None = Field(None, description="GPUs; more are not simulated")
    memory: Bytes | None = Field(
        None, description="of the fullest GPU", json_schema_extra={"shown": "bytes, or text such as 2GB or 1.5GiB"}
    )
    cost: PositiveFloat | None = Field(None, description="money, in the unit of the prices")


class AdviceKeys(Part):
    """Keys of an experiment file under `advise`: what `chronoscale advise` compares, and what it ranks by."""

    objective: Objective = Field(
        "time", description="ranked by the time of an epoch, the memory of the fullest GPU, GPU-hours of training, or their cost"
    )
    clusters: Names = Field((), description="compared, each named as `cluster` is; by default that one alone")
    grid: dict[str, Annotated[tuple[Value, ...], LISTED]] = Field(
        {},
        description="keys of this file and the values to try, all combinations of them: `{training.group_size: [4, 8], "
        "model.hidden: [32, 64]}`",
    )
    prices: dict[str, PositiveFloat] | PositiveFloat = Field(
        {},
        description="of a GPU-hour, in any unit of money: a number, or one for each cluster by its name",
        json_schema_extra={"shown": "number or mapping"},
    )
    budget: BudgetKeys = Field(BudgetKeys(), description="what a choice may take at most")
    dask: str | None = Field(None, description="address of a Dask scheduler whose workers simulate: `tcp://host:8786`")

    @field_validator("grid")
    @classmethod
    def _values(cls, grid: dict[str, tuple[Value, ...]]) -> dict[str, tuple[Value, ...]]:
        for key, values in grid.items():
            if not values or len({(type(value), value) for value in values}) < len(values):
                raise UserError(f"advise.grid: {key}: expected one or more values, each once, got {list(values)}")
        return grid

    @model_validator(mode="after")
    def _priced(self) -> AdviceKeys:
        if not self.prices and (self.objective == "cost" or self.budget.cost is not None):
            key = "objective: cost" if self.objective == "cost" else "budget.cost"
            raise UserError(f"advise.{key}: it needs advise.prices, of a GPU-hour: a number, or one for each cluster")
        if len(set(self.clusters)) < len(self.clusters):
            raise UserError(f"advise.clusters: each once, got {list(self.clusters)}")
        return self
