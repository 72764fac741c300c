"""Registry of formats: `detect` recognises a file by what is in it, `open_dataset` reads any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chronoscale.datasets.formats.event_order import order_policy
from chronoscale.datasets.formats.headed.recognition import is_json_line, is_parquet
from chronoscale.datasets.formats.options import option_names, validate_options
from chronoscale.datasets.formats.question import Answer, Question
from chronoscale.datasets.formats.readers import (
    basicts,
    dcrnn,
    jodie,
    konect,
    largest,
    network_repository,
    node_values,
    npz,
    pems,
    plain,
    pygt,
    snap,
    stored,
    table,
    tgb,
    tgcn,
    tgl,
    tgn,
)
from chronoscale.datasets.formats.tables.hdf_table import SUFFIXES
from chronoscale.datasets.formats.tables.lines import first_line
from chronoscale.datasets.formats.tables.roles import FieldCountError
from chronoscale.datasets.formats.tables.stream_builder import Paths, as_paths
from chronoscale.datasets.store import Dataset
from chronoscale.errors import UserError, unknown


@dataclass(frozen=True, slots=True)
class Format:
    """Format of dataset files: how one is recognised (`matches(path, first line)`) and read (`read(path, **options)`).

    joins: `read` takes several files of one stream, too. layouts: the orders of columns that are documented for tables without a header,
    such as "src dst time".
    """

    description: str
    matches: Callable[[Path, str], bool]
    read: Callable[..., Dataset]
    joins: bool = False
    layouts: tuple[str, ...] = ()


def _looks_like_tgcn(path: Path, first: str) -> bool:
    return path.suffix == ".csv" and "_" in path.stem and tgcn.adjacency_of(path) != path and tgcn.adjacency_of(path).exists()


def _looks_like_pygt(path: Path, first: str) -> bool:
    return first.lstrip().startswith("{") and not is_json_line(first)


STORED = "store"  # keeps what the reader before it has said

# The first that matches and has the options that are given reads; `plain` last, since anything with two columns looks like it.
FORMATS: dict[str, Format] = {
    "basicts": Format("folder of BasicTS: data.dat, desc.json", basicts.matches, basicts.read),
    STORED: Format("folder written by chronoscale", lambda path, first: path.is_dir() and not tgl.is_folder(path), stored.read),
    "tgb": Format("Temporal Graph Benchmark, tgbl-*_edgelist.csv", tgb.matches, tgb.read),
    "pems": Format("PEMS03, 04, 07 or 08: npz beside a csv of roads", pems.matches, pems.read),
    "npz": Format("NumPy archive: snapshots, events or signal", lambda path, first: path.suffix == ".npz", npz.read),
    "node_values": Format(
        "PyTorch Geometric Temporal node_values.npy", lambda path, first: path.name.endswith(node_values.SUFFIX), node_values.read
    ),
    "largest": Format("LargeST's HDF5 beside *_rn_adj.npy", largest.matches, largest.read),
    "dcrnn": Format("DCRNN's HDF5 beside adj_mx.pkl", lambda path, first: path.suffix in SUFFIXES, dcrnn.read),
    "pygt": Format("PyTorch Geometric Temporal JSON", _looks_like_pygt, pygt.read),
    "network_repository": Format(
        "Network Repository .edges",
        lambda path, first: path.suffix == ".edges",
        network_repository.read,
        True,
        network_repository.TABLE.layouts,
    ),
    "konect": Format("KONECT out.*", lambda path, first: first.startswith("%"), konect.read, True, konect.TABLE.layouts),
    "snap": Format("SNAP temporal network", lambda path, first: first.startswith("#"), snap.read, True, snap.TABLE.layouts),
    "jodie": Format("JODIE csv", jodie.matches, jodie.read, True),
    "tgn": Format("TGN's and DyGLib's ml_*.csv", tgn.matches, tgn.read),
    "tgl": Format("TGL folder or edges.csv", tgl.matches, tgl.read, True),
    "tgcn": Format("T-GCN csv: readings beside an adjacency matrix", _looks_like_tgcn, tgcn.read),
    "table": Format("table with a header: CSV, JSON lines, Parquet", table.matches, table.read, True),
    "plain": Format("src dst time", lambda path, first: len(first.replace(",", " ").split()) >= 2, plain.read, True, plain.TABLE.layouts),
}


def detect(path: str | Path, options: Iterable[str] = ()) -> str:
    """Detect the format of a dataset's file or folder: a key of `FORMATS`.

    options: names of options for its reader; of several formats that the file may have, the first one that has all of them is meant. Raises
    UserError if the file is missing or of none of the formats.
    """
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path}: no such file")
    binary = path.is_dir() or path.suffix in (".npz", ".npy", *SUFFIXES) or is_parquet(path)
    first = "" if binary else first_line(path)
    if matching := [name for name, form in FORMATS.items() if form.matches(path, first)]:
        names = {*options}
        return next((name for name in matching if names <= {*option_names(FORMATS[name].read)}), matching[0])
    raise UserError(f"{path}: none of the known formats ({', '.join(FORMATS)})")


def open_dataset(path: Paths, format: str | None = None, **options: Any) -> Dataset:
    """Read a dataset from a file or folder in any known format, detected unless `format` names it (a key of `FORMATS`); several paths are
    joined to one stream. `options` go to the format's reader.

    Raises UserError for a missing or malformed file, an unknown format, or an option that the format does not have.
    """
    files = as_paths(path)
    formats = {detect(file, options) for file in files} if format is None else {format}
    name = formats.pop()
    if formats:
        raise UserError(f"{files[0]}: the files of one stream look like {name} and {', '.join(formats)}; say which with format")
    if name not in FORMATS:
        raise unknown("format", name, FORMATS)
    form = FORMATS[name]
    if len(files) > 1 and not form.joins:
        raise UserError(f"format '{name}' reads one file, got {len(files)}")
    try:
        arguments = validate_options(name, form.read, options)
        order_policy(arguments.get("sort", False), arguments.get("strict", False))
    except UserError as error:
        raise UserError(f"{files[0]}: {error}") from None
    try:
        dataset = form.read(files if len(files) > 1 else files[0], **arguments)
    except FieldCountError as error:
        others = [
            other_name
            for other_name, candidate in FORMATS.items()
            if other_name != name and error.fields in (len(lay.split()) for lay in candidate.layouts)
        ]
        if error.answers:
            meant = [Answer(f"as {FORMATS[other].description} has it", {}, other) for other in others]
            raise Question(error.path, f"{error.text}, and no column has a name", *error.answers, *meant) from None
        hint = f"; or name the format, where it is {' or '.join(others)}" if others and "columns" not in options else ""
        if all(error.fields > len(layout.split()) for candidate in FORMATS.values() for layout in candidate.layouts):
            hint += "; or the format table with as=readings, where the first line names sensors"
        raise UserError(f"{error}{hint}") from None
    return dataset if name == STORED or "reader" in dataset.account else replace(dataset, account={"reader": name, **dataset.account})
