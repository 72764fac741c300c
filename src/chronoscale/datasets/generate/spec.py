"""Generators as data: what a catalogue entry or a file of its own says to get one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError

from chronoscale.datasets import store
from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.generate.rmat import QUADRANTS
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.documents import mapping
from chronoscale.errors import UserError, unknown

Generator = GrowthGraph | EvolvingGraph | TrafficSignal
_Part = TypeVar("_Part")


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

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

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

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
SPECS: dict[str, type[GrowthSpec | DyGraphSpec | TrafficSpec]] = {"growth": GrowthSpec, "dygraph": DyGraphSpec, "traffic": TrafficSpec}


class _Naming(BaseModel):
    """What a file says beside the parameters."""

    model_config = ConfigDict(strict=True)

    name: str
    seed: NonNegativeInt = 0


def from_file(path: Path, seed: int | None = None) -> Generator:
    """The generator of a YAML file: a kind, its parameters and, if wanted, `name` (default: the file's) and `seed` (`seed` replaces it).

    Raises UserError in one line: the file, the key, what was expected, the nearest valid name.
    """
    data = _mapping(path)
    kind = str(data["kind"])
    if kind not in SPECS:
        raise UserError(f"{path}: kind: {unknown('generator', kind, SPECS)}")
    valid = {*SPECS[kind].model_fields, *_Naming.model_fields}
    if strange := [key for key in data if key not in valid]:
        raise UserError(f"{path}: {unknown('key', str(strange[0]), valid)}")
    naming = {key: data.pop(key) for key in _Naming.model_fields if key in data}
    try:
        named = _Naming.model_validate({"name": path.stem, **naming, **({} if seed is None else {"seed": seed})})
        return SPECS[kind].model_validate(data).build(named.name, named.seed)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        given = "" if first["type"] == "missing" else f" (got {first['input']!r})"
        raise UserError(f"{path}: {first['loc'][0]}: {first['msg']}{given}") from None


def _mapping(path: Path) -> dict[Any, Any]:
    wanted = f" with a kind: {', '.join(SPECS)}"
    data = mapping(path, "file", wanted)
    if "kind" not in data:
        raise UserError(f"{path}: expected keys and values{wanted}")
    return data


def write(path: str | Path, generator: Generator, told: Callable[[int], None] | None = None) -> None:
    """Write what a generator makes to the new folder `path`, a snapshot or a block of time in memory at once.

    `told` hears how many snapshots or steps are made. Raises UserError if `path` exists.
    """
    if isinstance(generator, TrafficSignal):
        store.save_signal(path, _counted(generator, len, told), *generator.graph(), name=generator.name)
    else:
        store.save_stream(path, _counted(generator, lambda _: 1, told), generator.name)


def _counted(parts: Iterable[_Part], length: Callable[[_Part], int], told: Callable[[int], None] | None) -> Iterator[_Part]:
    made = 0
    for part in parts:
        yield part
        made += length(part)
        if told is not None:
            told(made)
