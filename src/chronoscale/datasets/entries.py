"""Entries of the catalogue: datasets that the papers used, local ones and generated ones."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Literal

import yaml
from pydantic import BaseModel, ByteSize, ConfigDict, NonNegativeInt, PositiveInt, TypeAdapter, model_validator

from chronoscale.datasets.generate.specs import FAMILY_BY_KIND, GeneratorSpec
from chronoscale.errors import unknown

Paper = Literal["real", "flaredtdg", "memshare", "fast", "pgt-i"]
Count = PositiveInt | None


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Published(_Strict):
    """Counts of a dataset as a paper's table prints them, for the catalogue; None where the paper prints none.

    horizon: steps in and steps out of a window. size_before, size_after: bytes at float64, before and after windows are copied out of a
    signal. task, gpus: what a model is trained for, and on how many. feature_bytes: node features of one snapshot.
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
    task: Literal["regression", "classification"] | None = None
    gpus: Count = None
    feature_bytes: ByteSize | None = None


class StandsFor(_Strict):
    """Dataset that was published and is not at hand, and how a generated dataset of the catalogue stands for it: the generated counts times
    `factor` are what was printed (for edges, times `edges` where that is given)."""

    dataset: str
    factor: PositiveInt
    edges: Count = None


class Entry(_Strict):
    """Entry of the catalogue: what is known of a dataset by name. It is published (counts only), local (`file` in the data folder, read as
    `format` with `options`) or generated (`generator`).

    source: where it comes from, for people. stands_for: the published dataset that a generated one replaces.
    """

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
        if self.stands_for is not None and self.generator is None:
            raise ValueError(f"{self.name}: only a generated dataset stands for another")
        if self.generator is not None and FAMILY_BY_KIND[self.generator.kind] != self.family:
            raise ValueError(f"{self.name}: a generator of kind {self.generator.kind} does not make {self.family}")
        return self

    @property
    def origin(self) -> Literal["published", "local", "generated"]:
        """How the dataset is to be had: generated, read from a local file, or only published as counts."""
        if self.generator is not None:
            return "generated"
        return "local" if self.file is not None else "published"

    @property
    def horizon(self) -> int | None:
        """Steps in and steps out of a forecasting window that a paper uses on this dataset, or on the one that it stands for; None where
        none says."""
        counts = self.published if self.stands_for is None else entry(self.stands_for.dataset).published
        return next((printed.horizon for printed in counts if printed.horizon is not None), None)

    def as_published(self, paper: str) -> Published:
        """Return the counts of this dataset that `paper` (a key of the catalogue, such as "real" or "fast") prints. Raises UserError if
        that paper does not use it."""
        for counts in self.published:
            if counts.paper == paper:
                return counts
        raise unknown(f"paper for dataset '{self.name}':", paper, [p.paper for p in self.published])


@cache
def _entries() -> dict[str, Entry]:
    text = resources.files("chronoscale.datasets").joinpath("catalogue.yaml").read_text(encoding="utf-8")
    entries = [{"name": name, **fields} for name, fields in yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)).items()]
    return {entry.name: entry for entry in TypeAdapter(list[Entry]).validate_python(entries)}


def names() -> list[str]:
    """Return the names of all datasets in the catalogue, in its order."""
    return list(_entries())


def entry(name: str) -> Entry:
    """Look up a dataset's entry in the catalogue by name; nothing is loaded. Raises UserError for an unknown name, with the nearest."""
    if name not in _entries():
        raise unknown("dataset", name, names())
    return _entries()[name]
