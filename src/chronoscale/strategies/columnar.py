"""Columnar tables: arrays of one entry a row with fixed dtypes, stored as Parquet; schedules and traces are such tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Columns = Mapping[str, type[np.generic]]


def columns_of(kind: type) -> dict[str, type[np.generic]]:
    """Return the columns of a dataclass of arrays (a schedule or a trace), name -> NumPy type, in order: its fields annotated as arrays."""
    arguments = {name: get_args(hint) for name, hint in get_type_hints(kind).items()}
    # Of an array its shape and its dtype's type; from NumPy 2.5 on, where NDArray is an alias that stays one, the dtype itself.
    return {name: get_args(args[-1])[0] if get_args(args[-1]) else args[-1] for name, args in arguments.items() if args}


@cache
def _types(kind: type) -> dict[str, Any]:
    """Return the types of a dataclass's fields."""
    return get_type_hints(kind)


def check(subject: str, table: object, columns: Columns) -> None:
    """Raise ValueError, "<subject> <column> must be ...", unless all columns of a table (a schedule or a trace) have their dtype and one
    length. subject: what the message calls the table."""
    n = len(getattr(table, next(iter(columns))))
    for name, dtype in columns.items():
        column = getattr(table, name)
        if column.shape != (n,) or column.dtype != dtype:
            raise ValueError(f"{subject} {name} must be {np.dtype(dtype)} [{n}], is {column.dtype} {column.shape}")


def save(path: Path, table: Any, columns: Columns, **more: pa.Array) -> None:
    """Write a table (a dataclass of arrays: a schedule or a trace) as Parquet. columns: names and types of the arrays; more: further
    columns of the same length; the dataclass's other fields, texts and integers, become the file's metadata."""
    values = {field.name: getattr(table, field.name) for field in fields(table)}
    meta = {name: str(value) for name, value in values.items() if not isinstance(value, np.ndarray)}
    written = pa.table({**{name: values[name] for name in columns}, **more})
    pq.write_table(written.replace_schema_metadata(meta), path, compression="zstd", use_dictionary=False, write_page_checksum=True)


def load(path: Path, kind: Any, columns: Columns) -> tuple[dict[str, Any], pa.Table]:
    """Read a Parquet file that `save` wrote: return the values of the fields of `kind` (the dataclass: a schedule's or a trace's), and the
    whole table. Fields that are absent (older files) and have defaults are left out.

    columns: name -> dtype of the arrays that the file must have, as `save` was given.
    """
    with pq.ParquetFile(path, page_checksum_verification=True) as file:  # read_table imports for half a second
        table = file.read()
    meta = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    values: dict[str, Any] = {name: table[name].to_numpy().astype(dtype, copy=False) for name, dtype in columns.items()}
    types = _types(kind)
    for field in fields(kind):
        if types[field.name] in (str, int) and (field.name in meta or field.default is MISSING):
            values[field.name] = types[field.name](meta[field.name])
    return values, table
