"""SensorTable: a file about sensors, a row each or a row a pair, with named columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from chronoscale.datasets.archive import read_archive
from chronoscale.datasets.arrays import Float64
from chronoscale.datasets.formats.tables.lines import first_line, is_number
from chronoscale.errors import UserError, unknown

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = ("\t", ";", ",")


@dataclass(frozen=True, slots=True, eq=False)
class SensorTable:
    """Table of a file about sensors: CSV (comma, semicolon, tab or spaces), Parquet, or the columns of a NumPy archive. `frame` has text in
    every column; columns without a header are called 0, 1, 2 …"""

    path: Path
    frame: pd.DataFrame

    @classmethod
    def read(cls, path: Path, headed: bool | None = None) -> SensorTable:
        """Read a file about sensors. headed: whether the first line of a text names the columns; None: where not all of it are numbers.
        Raises UserError for a file that is missing, damaged or no table."""
        if not path.is_file():
            raise UserError(f"{path}: no such file")
        try:
            frame = _parsed(path, headed)
        except (ValueError, OSError) as error:  # pandas' errors of parsing are ValueErrors
            raise UserError(f"{path}: not a table ({str(error).splitlines()[0]})") from None
        if not len(frame):
            raise UserError(f"{path}: a table without rows")
        return cls(path, frame.rename(columns=lambda name: str(name).strip()))

    @property
    def columns(self) -> list[str]:
        return [str(name) for name in self.frame.columns]

    def require(self, names: Sequence[str]) -> None:
        """Raises UserError for a column that is not there, with the nearest."""
        for name in names:
            if name not in self.columns:
                raise UserError(f"{self.path}: {unknown('column', name, self.columns)}")

    def texts(self, name: str) -> list[str]:
        """Return a column as text, without spaces around it."""
        return [text.strip() for text in self.frame[name].tolist()]

    def numbers(self, name: str) -> Float64:
        """Return a column as finite numbers, float64 [rows]. Raises UserError naming the row of an entry that is none."""
        import pandas as pd  # noqa: PLC0415 (heavy, and what imports this file may read no table)

        column = pd.to_numeric(self.frame[name], errors="coerce").to_numpy(np.float64)
        if not (finite := np.isfinite(column)).all():
            row = int(np.argmin(finite))
            raise UserError(f"{self.path}: column {name}, row {row + 1}: expected a number, found '{self.frame[name].iloc[row]}'")
        return column


def _parsed(path: Path, headed: bool | None) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 (heavy, and what imports this file may read no table)

    if path.suffix == ".npz":
        columns = {name: array for name, array in read_archive(path).items() if array.ndim == 1}
        lengths = [len(array) for array in columns.values()]
        rows = max(lengths, key=lengths.count, default=0)  # a column a sensor, beside others such as a time a step
        return pd.DataFrame({name: [_text(entry) for entry in array.tolist()] for name, array in columns.items() if len(array) == rows})
    if path.suffix in (".parquet", ".pq"):
        return pd.read_parquet(path).map(str)
    first = first_line(path).rstrip("\r\n")
    separator = next((mark for mark in SEPARATORS if mark in first), None)
    if headed is None:
        headed = not all(is_number(entry) for entry in first.split(separator))
    frame = pd.read_csv(
        path,
        sep=separator or r"\s+",
        header=0 if headed else None,
        dtype=str,
        keep_default_na=False,
        skipinitialspace=True,
        encoding="utf-8-sig",
    )
    return pd.DataFrame(frame)


def _text(entry: object) -> str:
    return entry.decode("latin1") if isinstance(entry, bytes) else str(entry)
