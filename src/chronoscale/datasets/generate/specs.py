"""Specs of generators: parameters in the catalogue or in a file, checked by pydantic."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

from chronoscale.datasets.generate.rmat import QUADRANTS

EdgeShare = Annotated[float, Field(gt=0, le=1)]
Mixing = EdgeShare | None  # share of the edges that leave their community; None: there are no communities


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    nodes: PositiveInt
    edges: PositiveInt
    snapshots: PositiveInt


class GrowthSpec(_Spec):
    """Spec of a generated dataset, in the catalogue or a YAML file: parameters of snapshots that follow a trend over an R-MAT graph
    (`GrowthGraph.rmat`)."""

    kind: Literal["growth"]
    change_rate: float = Field(ge=0, le=1)
    skew: float = Field(QUADRANTS[0], ge=0.25, lt=1)
    mixing: Mixing = None
    trend: Annotated[tuple[EdgeShare, EdgeShare], Field(strict=False)] | None = (
        None  # first and last share of the edges; None: Stackoverflow's
    )


class DyGraphSpec(_Spec):
    """Spec of a generated dataset, in the catalogue or a YAML file: parameters of snapshots of an evolving graph (`EvolvingGraph`)."""

    kind: Literal["dygraph"]
    churn: float = Field(0.02, ge=0, lt=1)
    burst_rate: float = Field(0.05, ge=0, lt=1)
    skew: float = Field(0.5, ge=0, lt=1)


class CommunitiesSpec(_Spec):
    """Spec of a generated dataset, in the catalogue or a YAML file: parameters of snapshots of a graph with communities
    (`CommunityGraph`)."""

    kind: Literal["communities"]
    classes: PositiveInt
    inside: float = Field(0.8, ge=0, le=1)
    churn: float = Field(0.1, ge=0, le=1)
    features: PositiveInt = 16
    apart: float = Field(0.5, ge=0)
    unlabelled: float = Field(0.2, ge=0, lt=1)
    deletes: bool = False


class TrafficSpec(BaseModel):
    """Spec of a generated dataset, in the catalogue or a YAML file: parameters of a traffic signal (`TrafficSignal`)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: Literal["traffic"]
    sensors: PositiveInt
    steps: PositiveInt
    channels: Literal[1, 2] = 1
    missing: float = Field(0.0, ge=0, lt=1)
    steps_per_day: PositiveInt = 288


class EventsSpec(BaseModel):
    """Spec of a generated dataset, in the catalogue or a YAML file: parameters of a random event stream (`RandomStream`)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: Literal["events"]
    nodes: PositiveInt
    events: PositiveInt
    pairs: PositiveInt
    items: NonNegativeInt = 0
    source_skew: float = Field(0.8, ge=0, le=3)
    destination_skew: float = Field(0.8, ge=0, le=3)
    burstiness: float = Field(0.3, ge=-0.9, le=0.9)
    span: float = Field(2_592_000.0, gt=0, le=2**52)
    whole: bool = True
    features: NonNegativeInt = 0
    node_features: NonNegativeInt = 0
    labels: float = Field(0.0, ge=0, lt=1)
    mixing: Mixing = None


class SessionsSpec(BaseModel):
    """Spec of a generated dataset, in the catalogue or a YAML file: parameters of an event stream of nodes that come back
    (`SessionStream`)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: Literal["sessions"]
    nodes: PositiveInt
    events: PositiveInt
    founders: PositiveInt
    fresh: float = Field(ge=0, le=1)
    hosts: PositiveInt
    active: PositiveInt
    stay: PositiveInt
    lasting: PositiveInt
    skew: float = Field(0.0, ge=0, le=3)
    peers: float = Field(1.0, ge=0, le=1)
    casual: float = Field(0.0, ge=0, le=1)
    wave: PositiveInt = 1
    items: NonNegativeInt = 0
    span: float = Field(2_592_000.0, gt=0, le=2**52)
    features: NonNegativeInt = 0
    node_features: NonNegativeInt = 0


GeneratorSpec = Annotated[GrowthSpec | DyGraphSpec | CommunitiesSpec | TrafficSpec | EventsSpec | SessionsSpec, Field(discriminator="kind")]
SPECS: dict[str, type[GrowthSpec | DyGraphSpec | CommunitiesSpec | TrafficSpec | EventsSpec | SessionsSpec]] = {
    "growth": GrowthSpec,
    "dygraph": DyGraphSpec,
    "communities": CommunitiesSpec,
    "traffic": TrafficSpec,
    "events": EventsSpec,
    "sessions": SessionsSpec,
}
FAMILY_BY_KIND = {
    "growth": "snapshots",
    "dygraph": "snapshots",
    "communities": "snapshots",
    "traffic": "signals",
    "events": "streams",
    "sessions": "streams",
}  # what each kind makes
