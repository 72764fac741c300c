"""Generators from their specs or a YAML file, and datasets written while they are generated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import singledispatch
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from chronoscale.datasets import store
from chronoscale.datasets.entries import entry
from chronoscale.datasets.generate.communities import CommunityGraph
from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.generate.events import RandomStream
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.generate.sessions import SessionStream
from chronoscale.datasets.generate.specs import (
    SPECS,
    CommunitiesSpec,
    DyGraphSpec,
    EventsSpec,
    GeneratorSpec,
    GrowthSpec,
    SessionsSpec,
    TrafficSpec,
)
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.errors import UserError, unknown
from chronoscale.validation_messages import mistake
from chronoscale.yaml_files import mapping

Generator = GrowthGraph | EvolvingGraph | CommunityGraph | TrafficSignal | RandomStream | SessionStream
_Part = TypeVar("_Part")


@singledispatch
def build(spec: GeneratorSpec, name: str, seed: int) -> Generator:
    """Build the generator of a dataset from its spec in the catalogue or in a file; `name` is the dataset's. Raises UserError where the
    generator refuses the parameters."""
    raise TypeError(f"no generator of {type(spec).__name__}")


@build.register
def _(spec: GrowthSpec, name: str, seed: int) -> GrowthGraph:
    trend = None if spec.trend is None else np.linspace(*spec.trend, spec.snapshots)
    return GrowthGraph.rmat(spec.nodes, spec.edges, spec.snapshots, spec.change_rate, seed, trend, name, spec.skew, spec.mixing)


@build.register
def _(spec: DyGraphSpec, name: str, seed: int) -> EvolvingGraph:
    return EvolvingGraph(spec.nodes, spec.edges, spec.snapshots, spec.churn, spec.burst_rate, spec.skew, seed, name)


@build.register
def _(spec: CommunitiesSpec, name: str, seed: int) -> CommunityGraph:
    return CommunityGraph(**spec.model_dump(exclude={"kind"}), seed=seed, name=name)


@build.register
def build_traffic(spec: TrafficSpec, name: str, seed: int) -> TrafficSignal:
    """Build the generator of a traffic signal from its spec; `name` is the dataset's. Raises UserError where the generator refuses the
    parameters."""
    return TrafficSignal(spec.sensors, spec.steps, spec.channels, spec.missing, spec.steps_per_day, seed, name)


@build.register
def _(spec: EventsSpec, name: str, seed: int) -> RandomStream:
    return RandomStream(**spec.model_dump(exclude={"kind"}), seed=seed, name=name)


@build.register
def _(spec: SessionsSpec, name: str, seed: int) -> SessionStream:
    return SessionStream(**spec.model_dump(exclude={"kind"}), seed=seed, name=name)


class _NameAndSeed(BaseModel):
    """Name and seed that a file may give beside the parameters."""

    model_config = ConfigDict(strict=True)

    name: str
    seed: NonNegativeInt = 0


def read_generator(path: Path, seed: int | None = None) -> Generator:
    """Read the generator of a dataset from a YAML file, for `chronoscale data make`: `kind`, the parameters of its spec and, if wanted,
    `name` (default: the file's) and `seed` (the argument `seed`, unless None, replaces it).

    `like`, in place of a kind: a generated dataset of the catalogue, whose parameters the file's replace.

    Raises UserError in one line: the file, the key, what was expected, the nearest valid name.
    """
    data = _read_spec(path)
    kind = str(data["kind"])
    if kind not in SPECS:
        raise UserError(f"{path}: kind: {unknown('generator', kind, SPECS)}")
    valid = {*SPECS[kind].model_fields, *_NameAndSeed.model_fields}
    if strange := [key for key in data if key not in valid]:
        raise UserError(f"{path}: {unknown('key', str(strange[0]), valid)}")
    naming = {key: data.pop(key) for key in _NameAndSeed.model_fields if key in data}
    try:
        named = _NameAndSeed.model_validate({"name": path.stem, **naming, **({} if seed is None else {"seed": seed})})
        return build(SPECS[kind].model_validate(data), named.name, named.seed)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except ValidationError as error:
        raise UserError(f"{path}: {mistake(error)}") from None


def _read_spec(path: Path) -> dict[Any, Any]:
    expected = f" with a kind: {', '.join(SPECS)}"
    data = mapping(path, "file", expected)
    if "like" in data:
        if "kind" in data:
            raise UserError(f"{path}: kind: a file with 'like' has that dataset's kind; leave one of the two out")
        data = {**_catalogue_spec(path, str(data["like"])), **{key: value for key, value in data.items() if key != "like"}}
    if "kind" not in data:
        raise UserError(f"{path}: expected keys and values{expected}")
    return data


def _catalogue_spec(path: Path, name: str) -> dict[Any, Any]:
    """Return the parameters of a generated dataset."""
    try:
        spec = entry(name).generator
    except UserError as error:
        raise UserError(f"{path}: like: {error}") from None
    if spec is None:
        raise UserError(f"{path}: like: dataset '{name}' is not generated")
    return spec.model_dump()


def generate_in_memory(generator: Generator) -> store.Dataset:
    """Generate a whole dataset in memory: snapshots, a signal or an event stream, as the generator makes."""
    if isinstance(generator, RandomStream | SessionStream):
        return generator.stream()
    return generator.signal() if isinstance(generator, TrafficSignal) else generator.sequence()


def write_dataset(path: str | Path, generator: Generator, on_progress: Callable[[int], None] | None = None) -> None:
    """Generate a dataset into the new folder `path`, with one snapshot, or one block of steps or events, in memory at once; a
    `CommunityGraph`, which has features and classes, whole.

    on_progress: called with how many snapshots, steps or events are made so far. Raises UserError if `path` exists.
    """
    if isinstance(generator, RandomStream | SessionStream):
        store.save_events(path, _report_progress(generator, len, on_progress), generator.node_blocks())
    elif isinstance(generator, TrafficSignal):
        store.save_signal(path, _report_progress(generator, len, on_progress), *generator.graph(), generator.name, generator.calendar)
    elif isinstance(generator, CommunityGraph):
        dataset = generator.sequence()
        if on_progress is not None:
            on_progress(len(dataset))
        store.save(path, dataset)
    else:
        store.save_snapshots(path, _report_progress(generator, lambda _: 1, on_progress), generator.name)


def _report_progress(parts: Iterable[_Part], length: Callable[[_Part], int], on_progress: Callable[[int], None] | None) -> Iterator[_Part]:
    total = 0
    for part in parts:
        yield part
        total += length(part)
        if on_progress is not None:
            on_progress(total)
