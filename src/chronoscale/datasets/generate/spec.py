"""Generators as data: what a catalogue entry or an experiment file says to get one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.generate.rmat import QUADRANTS
from chronoscale.datasets.generate.traffic import TrafficSignal


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    nodes: PositiveInt
    edges: PositiveInt
    snapshots: PositiveInt


class GrowthSpec(_Spec):
    """Parameters of `GrowthGraph.rmat`."""

    kind: Literal["growth"]
    change_rate: float = Field(ge=0, le=1)
    skew: float = Field(QUADRANTS[0], ge=0.25, lt=1)

    def build(self, name: str, seed: int) -> GrowthGraph:
        """The generator. Raises UserError where its own checks fail."""
        return GrowthGraph.rmat(self.nodes, self.edges, self.snapshots, self.change_rate, seed, name=name, skew=self.skew)


class DyGraphSpec(_Spec):
    """Parameters of `EvolvingGraph`."""

    kind: Literal["dygraph"]
    churn: float = Field(0.02, ge=0, lt=1)
    burst_rate: float = Field(0.05, ge=0, lt=1)
    skew: float = Field(0.5, ge=0, lt=1)

    def build(self, name: str, seed: int) -> EvolvingGraph:
        """The generator. Raises UserError where its own checks fail."""
        return EvolvingGraph(self.nodes, self.edges, self.snapshots, self.churn, self.burst_rate, self.skew, seed, name)


class TrafficSpec(BaseModel):
    """Parameters of `TrafficSignal`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["traffic"]
    sensors: PositiveInt
    steps: PositiveInt
    channels: Literal[1, 2] = 1
    missing: float = Field(0.0, ge=0, lt=1)
    steps_per_day: PositiveInt = 288

    def build(self, name: str, seed: int) -> TrafficSignal:
        """The generator. Raises UserError where its own checks fail."""
        return TrafficSignal(self.sensors, self.steps, self.channels, self.missing, self.steps_per_day, seed, name)


GeneratorSpec = Annotated[GrowthSpec | DyGraphSpec | TrafficSpec, Field(discriminator="kind")]
