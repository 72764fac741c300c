"""Catalogue: load datasets by name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from chronoscale.datasets.entries import Entry, Published, entry, names
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.generate.generators import Generator, build, generate_in_memory
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.datasets.store import Dataset
from chronoscale.errors import UserError

__all__ = ["Entry", "Published", "data_folder", "entry", "iterate_snapshots", "load", "load_generator", "names"]

DATA_VARIABLE = "CHRONOSCALE_DATA"
DEFAULT_DATA = "../shared/data"


def data_folder() -> Path:
    """Return the folder in which files of local datasets are looked for: $CHRONOSCALE_DATA, else ../shared/data."""
    return Path(os.environ.get(DATA_VARIABLE) or DEFAULT_DATA)


def load(name: str, seed: int = 0) -> Dataset:
    """Load a dataset of the catalogue into memory by its name, such as "wikipedia": read from a file in `data_folder`, or generated from
    `seed`.

    Raises UserError for an unknown name, for a local dataset whose file is absent, and for one of which only the published counts are
    known, which must be fetched and converted first.
    """
    record = entry(name)
    if record.generator is not None:
        return generate_in_memory(build(record.generator, name, seed))
    if record.file is None:
        raise UserError(
            f"dataset '{name}' is not at hand: fetch {record.source}; "
            "then `chronoscale data convert IN OUT`, and name the folder OUT instead"
        )
    path = data_folder() / record.file
    if not path.exists():
        raise UserError(f"dataset '{name}': no file {path}; set {DATA_VARIABLE} to the folder that holds {record.file}")
    return replace(open_dataset(path, record.format, **record.options), name=name)


def load_generator(name: str, seed: int = 0) -> Generator:
    """Build the generator of a dataset of the catalogue, for those too large for memory: iterating over it yields one snapshot, or one
    block of steps or events, at a time. Raises UserError for an unknown name and for a dataset that is not generated."""
    record = entry(name)
    if record.generator is None:
        raise UserError(f"dataset '{name}' is {record.origin}, not generated")
    return build(record.generator, name, seed)


def iterate_snapshots(name: str, seed: int = 0) -> Iterable[Snapshot]:
    """Return the snapshots of a dataset of the catalogue, to go over one by one, as often as need be. Of a generated graph that grows or
    evolves (`GrowthGraph`, `EvolvingGraph`) one is in memory at a time; other datasets are loaded whole.

    Raises UserError as `load` does, and for a dataset that is an event stream or a signal.
    """
    record = entry(name)
    if record.family != "snapshots":
        raise UserError(f"dataset '{name}' is of the family {record.family}, not a sequence of snapshots; convert it first")
    if record.generator is not None and isinstance(built := build(record.generator, name, seed), GrowthGraph | EvolvingGraph):
        return built
    dataset = load(name, seed)
    if not isinstance(dataset, SnapshotSequence):
        raise UserError(f"dataset '{name}': expected snapshots in {record.file}")
    return dataset
