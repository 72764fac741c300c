"""Keys under `uncertainty`: what a simulation does not know of the time that rows take."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, model_validator

from chronoscale.errors import UserError
from chronoscale.harness.keys.types import LISTED, MOST_DRAWS, Part, Size
from chronoscale.simulator.uncertainty.spec import DeviceClass, Fitted, Stragglers, Uncertainty

Spread = Annotated[NonNegativeFloat, Field(le=10)] | Fitted


class StragglerKeys(Part):
    """Keys of an experiment file under `uncertainty.stragglers`: GPUs or nodes of a simulated cluster that are slower than the others."""

    count: Size = Field(1, description="how many, others in every draw")
    of: Literal["gpu", "node"] = Field(
        "gpu", description="a GPU is slow in what it computes, a node's GPUs in copies and work of the host too"
    )
    factor: Annotated[float, Field(ge=1, le=1e6)] = Field(1.5, description="how many times as long they take")


class DeviceClassKeys(Part):
    """Keys of an experiment file under `uncertainty.classes`: a share of a simulated cluster's GPUs with a speed of its own."""

    share: Annotated[PositiveFloat, Field(le=1)] = Field(description="of the GPUs")
    speed: Annotated[PositiveFloat, Field(ge=1e-6, le=1e6)] = Field(description="at which they compute; 1: the cluster's device")


class UncertaintyKeys(Part):
    """Keys of an experiment file under `uncertainty`: what of a simulation's times is not known, and how often it is drawn."""

    draws: Annotated[Size, Field(le=MOST_DRAWS)] = Field(
        30, description="replays of every point, each with other times, where any are uncertain"
    )
    jitter: Spread = Field(0.0, description="relative standard deviation of a row's time; fitted: as the repeats of a profile have it")
    sway: Spread = Field(0.0, description="of all that a rank does in an iteration, beside its rows' own jitter; or fitted")
    stragglers: StragglerKeys | None = Field(None, description="GPUs or nodes that are slower than the others")
    classes: Annotated[tuple[DeviceClassKeys, ...], LISTED] = Field(
        (),
        description="parts of the GPUs with a speed of their own, as `[{share: 0.5, speed: 0.8}]`, the first ranks' first",
        json_schema_extra={"shown": "list of mappings"},
    )

    @model_validator(mode="after")
    def _sound(self) -> UncertaintyKeys:
        try:
            self.stated  # noqa: B018 (validated by reading)
        except UserError as error:
            raise UserError(f"uncertainty.{error}") from None
        return self

    @property
    def stated(self) -> Uncertainty:
        """The uncertainty as the simulator takes it."""
        slow = None if self.stragglers is None else Stragglers(self.stragglers.count, self.stragglers.of, self.stragglers.factor)
        return Uncertainty(self.jitter, self.sway, slow, tuple(DeviceClass(part.share, part.speed) for part in self.classes))
