"""Prediction file: tables of predictions, one after another, as Parquet or CSV, whole or not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from chronoscale.errors import UserError

SUFFIXES = (".parquet", ".csv")


def write_predictions(frames: Iterator[pd.DataFrame], out: Path) -> int:
    """Write tables of the same columns to one file, by its suffix Parquet or CSV; return how many rows there are. Only one table is in
    memory at a time, and the file is there once it is whole. Raises UserError for another suffix, and for no rows."""
    if out.suffix not in SUFFIXES:
        raise UserError(f"{out}: expected a name that ends in {' or '.join(SUFFIXES)}")
    out.parent.mkdir(parents=True, exist_ok=True)
    unfinished, rows = out.with_name(f".{out.name}"), 0
    writer: pq.ParquetWriter | None = None
    try:
        for frame in filter(len, frames):
            if out.suffix == ".csv":
                frame.to_csv(unfinished, mode="a" if rows else "w", header=not rows, index=False)
            else:
                table = pa.Table.from_pandas(frame, preserve_index=False)
                writer = writer or pq.ParquetWriter(unfinished, table.schema)
                writer.write_table(table)
            rows += len(frame)
        if writer is not None:
            writer.close()
        if not rows:
            raise UserError(f"{out}: there is nothing to predict in that period")
        unfinished.rename(out)
    finally:
        unfinished.unlink(missing_ok=True)
    return rows
