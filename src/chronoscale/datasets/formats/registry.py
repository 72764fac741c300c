"""All formats: detection by what is in the file, and one door to read any of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chronoscale.datasets import store
from chronoscale.datasets.formats import dcrnn, jodie, konect, network_repository, node_values, npz, plain, pygt, snap, tgcn, tgl
from chronoscale.datasets.formats.columns import first_line
from chronoscale.datasets.store import Dataset
from chronoscale.errors import UserError, unknown


@dataclass(frozen=True, slots=True)
class Format:
    """A format: how it looks (`matches(path, first line)`) and how to read it (`read(path, **options)`)."""

    description: str
    matches: Callable[[Path, str], bool]
    read: Callable[..., Dataset]


def _readings(path: Path, first: str) -> bool:
    return path.suffix == ".csv" and "_" in path.stem and tgcn.adjacency_of(path) != path and tgcn.adjacency_of(path).exists()


# The first that matches reads; `plain` last, since anything with three columns looks like it.
FORMATS: dict[str, Format] = {
    "store": Format("folder written by chronoscale", lambda path, first: path.is_dir(), store.load),
    "npz": Format("NumPy archive: snapshots, events or signal", lambda path, first: path.suffix == ".npz", npz.read),
    "node_values": Format(
        "PyTorch Geometric Temporal node_values.npy", lambda path, first: path.name.endswith(node_values.SUFFIX), node_values.read
    ),
    "dcrnn": Format("DCRNN's HDF5 beside adj_mx.pkl", lambda path, first: path.suffix in dcrnn.SUFFIXES, dcrnn.read),
    "pygt": Format("PyTorch Geometric Temporal JSON", lambda path, first: first.lstrip().startswith("{"), pygt.read),
    "network_repository": Format("Network Repository .edges", lambda path, first: path.suffix == ".edges", network_repository.read),
    "konect": Format("KONECT out.*", lambda path, first: first.startswith("%"), konect.read),
    "snap": Format("SNAP temporal network", lambda path, first: first.startswith("#"), snap.read),
    "jodie": Format("JODIE csv", lambda path, first: first.startswith("user"), jodie.read),
    "tgl": Format("TGL edges.csv", lambda path, first: {*first.strip().split(",")} >= tgl.HEADER, tgl.read),
    "tgcn": Format("T-GCN csv: readings beside an adjacency matrix", _readings, tgcn.read),
    "plain": Format("src dst t", lambda path, first: len(first.replace(",", " ").split()) >= 3, plain.read),
}


def detect(path: str | Path) -> str:
    """Name of the format of a file or folder. Raises UserError if it is missing or looks like none of them."""
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path}: no such file")
    first = "" if path.is_dir() or path.suffix in (".npz", ".npy", *dcrnn.SUFFIXES) else first_line(path)
    for name, form in FORMATS.items():
        if form.matches(path, first):
            return name
    raise UserError(f"{path}: none of the known formats ({', '.join(FORMATS)})")


def open_dataset(path: str | Path, format: str | None = None, **options: Any) -> Dataset:
    """Read a dataset in any known format, detected unless named; `options` go to the format's reader.

    Raises UserError for a missing or malformed file, an unknown format, or an option that the format does not have.
    """
    name = detect(path) if format is None else format
    if name not in FORMATS:
        raise unknown("format", name, FORMATS)
    reader = FORMATS[name].read
    accepted = set(reader.__annotations__) - {"path", "return"}
    if strange := set(options) - accepted:
        raise unknown(f"option of format '{name}':", min(strange), accepted)
    return reader(path, **options)
