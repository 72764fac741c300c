"""The catalogue: what the papers used, what is at hand, what is generated; and loading by name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ByteSize, ConfigDict, NonNegativeInt, PositiveInt, TypeAdapter, model_validator

from chronoscale.datasets.formats.registry import FORMATS, open_dataset
from chronoscale.datasets.generate.spec import Generator, GeneratorSpec
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.datasets.store import Dataset
from chronoscale.errors import UserError, unknown

DATA_VARIABLE = "CHRONOSCALE_DATA"
DEFAULT_DATA = "../shared/data"

Paper = Literal["real", "flaredtdg", "memshare", "fast", "pgt-i"]
Count = PositiveInt | None


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Published(_Strict):
    """Counts as a paper's table prints them; None where it prints none.

    horizon: steps in and steps out of a window. size_before, size_after: bytes at float64, before and after windows are copied out.
    """

    paper: Paper
    table: PositiveInt
    nodes: PositiveInt
    edges: Count = None
    changed_nodes: Count = None
    changed_edges: Count = None
    node_features: NonNegativeInt | None = None
    edge_features: NonNegativeInt | None = None
    steps: Count = None
    horizon: Count = None
    size_before: ByteSize | None = None
    size_after: ByteSize | None = None


class StandsFor(_Strict):
    """The published dataset that a generated one stands for: its counts times `factor` are what was printed."""

    dataset: str
    factor: PositiveInt


class Entry(_Strict):
    """A dataset by name: published (counts only), local (`file` in the data folder) or generated (`generator`)."""

    name: str
    family: Literal["snapshots", "streams", "signals"]
    source: str
    published: tuple[Published, ...] = ()
    file: str | None = None
    format: str | None = None
    options: dict[str, str] = {}
    generator: GeneratorSpec | None = None
    stands_for: StandsFor | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> Entry:
        if [bool(self.published), self.file is not None, self.generator is not None].count(True) != 1:
            raise ValueError(f"{self.name}: expected exactly one of published, file, generator")
        if self.file is not None and self.format not in FORMATS:
            raise ValueError(f"{self.name}: unknown format {self.format}")
        if self.stands_for is not None and self.generator is None:
            raise ValueError(f"{self.name}: only a generated dataset stands for another")
        if self.generator is not None and (self.generator.kind == "traffic") != (self.family == "signals"):
            raise ValueError(f"{self.name}: a generator of kind {self.generator.kind} does not make {self.family}")
        return self

    @property
    def origin(self) -> Literal["published", "local", "generated"]:
        if self.generator is not None:
            return "generated"
        return "local" if self.file is not None else "published"

    @property
    def horizon(self) -> int | None:
        """Steps in and steps out of a window as printed for this dataset or the one it stands for; None where no paper says."""
        counts = self.published if self.stands_for is None else entry(self.stands_for.dataset).published
        return next((printed.horizon for printed in counts if printed.horizon is not None), None)

    def as_published(self, paper: str) -> Published:
        """The counts that `paper` prints. Raises UserError if it does not use this dataset."""
        for counts in self.published:
            if counts.paper == paper:
                return counts
        raise unknown(f"paper for dataset '{self.name}':", paper, [p.paper for p in self.published])


@cache
def _entries() -> dict[str, Entry]:
    text = resources.files("chronoscale.datasets").joinpath("catalogue.yaml").read_text(encoding="utf-8")
    entries = [{"name": name, **fields} for name, fields in yaml.safe_load(text).items()]
    return {entry.name: entry for entry in TypeAdapter(list[Entry]).validate_python(entries)}


def names() -> list[str]:
    """All names, in the catalogue's order."""
    return list(_entries())


def entry(name: str) -> Entry:
    """The entry of a name. Raises UserError for an unknown one, with the nearest."""
    if name not in _entries():
        raise unknown("dataset", name, names())
    return _entries()[name]


def data_folder() -> Path:
    """Where local datasets are: $CHRONOSCALE_DATA, else ../shared/data."""
    return Path(os.environ.get(DATA_VARIABLE) or DEFAULT_DATA)


def load(name: str, seed: int = 0) -> Dataset:
    """The dataset in memory; `seed` is for generated ones.

    Raises UserError for an unknown name, for a local dataset whose file is absent, and for a published one, which must be
    fetched and converted first.
    """
    found = entry(name)
    if found.generator is not None:
        built = found.generator.build(name, seed)
        return built.signal() if isinstance(built, TrafficSignal) else built.sequence()
    if found.file is None:
        raise UserError(
            f"dataset '{name}' is not at hand: fetch {found.source}; "
            "then `chronoscale data convert IN OUT`, and name the folder OUT instead"
        )
    path = data_folder() / found.file
    if not path.exists():
        raise UserError(f"dataset '{name}': no file {path}; set {DATA_VARIABLE} to the folder that holds {found.file}")
    return replace(open_dataset(path, found.format, **found.options), name=name)


def generator(name: str, seed: int = 0) -> Generator:
    """What makes a generated dataset, a snapshot or a block of time at once. Raises UserError for an unknown name or another dataset."""
    found = entry(name)
    if found.generator is None:
        raise UserError(f"dataset '{name}' is {found.origin}, not generated")
    return found.generator.build(name, seed)


def stream(name: str, seed: int = 0) -> Iterable[Snapshot]:
    """The snapshots of a dataset of snapshots one by one; generated ones are never in memory together.

    Raises UserError as `load` does, and for other families.
    """
    found = entry(name)
    if found.family != "snapshots":
        raise UserError(f"dataset '{name}' is of the family {found.family}, not a sequence of snapshots; convert it first")
    if found.generator is not None and not isinstance(built := found.generator.build(name, seed), TrafficSignal):
        return built
    dataset = load(name, seed)
    if not isinstance(dataset, SnapshotSequence):
        raise UserError(f"dataset '{name}': expected snapshots in {found.file}")
    return dataset
