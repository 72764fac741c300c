"""Numeric text in columns: read at the speed of a C parser; on a malformed file, found again line by line."""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Float32
from chronoscale.errors import UserError

_DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError)


class Columns:
    """The columns of one text file, `fields` numbers a line. `column(i)` is int64 where every entry is an integer, else float64.

    `separator` None means white space. Empty lines and lines that start with `comment` do not count; nor do the first `skip` lines.
    Reads .gz. Raises UserError, `file:line: what`, for a line with another number of fields or an entry that is no finite
    number, and naming the file where it is missing, empty, truncated or not text. With `gaps` an entry may be nan.
    """

    def __init__(
        self, path: str | Path, separator: str | None = None, comment: str | None = None, skip: int = 0, gaps: bool = False
    ) -> None:
        self.path, self.separator, self.comment, self.skip, self.gaps = Path(path), separator, comment, skip, gaps
        try:
            # as text, since pandas loses a field after a line that ends in a carriage return alone
            with open_binary(self.path) as file, io.TextIOWrapper(file, encoding="utf-8-sig") as text:
                table = pd.read_csv(
                    text,
                    sep=separator or r"\s+",
                    comment=comment,
                    skiprows=skip,
                    header=None,
                    low_memory=False,
                    keep_default_na=False,
                    na_values=["nan", "NaN", "NAN"] if gaps else None,
                    quoting=csv.QUOTE_NONE,
                )
        except pd.errors.EmptyDataError:
            raise UserError(f"{self.path}: no data") from None
        except _DAMAGED as error:
            raise damaged(self.path, error) from None
        except (pd.errors.ParserError, ValueError) as error:
            raise self._malformed(str(error)) from None
        # C-parser failures that do not raise: a short row leaves NaN, a word leaves text
        if any(kind.kind not in "if" for kind in table.dtypes):
            raise self._malformed("an integer beyond 64 bits")
        if not np.isfinite(table.select_dtypes("float").to_numpy()).all() and (fault := self._fault()) is not None:
            raise fault
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    @property
    def fields(self) -> int:
        """Numbers a line."""
        return self._table.shape[1]

    def column(self, i: int) -> NDArray[Any]:
        """Column i, int64 or float64 [rows]."""
        array = self._table.iloc[:, i].to_numpy()
        return array.astype(np.int64 if array.dtype.kind == "i" else np.float64, copy=False)

    def matrix(self, places: Sequence[int] | None = None) -> Float32:
        """These columns (all without any), float32 [rows, columns]. Raises UserError for numbers that float32 cannot hold."""
        table = self._table if places is None else self._table.iloc[:, list(places)]
        with np.errstate(over="ignore"):
            numbers = np.ascontiguousarray(table.to_numpy(dtype=np.float32))
        if not (held := (~np.isinf(numbers)).all(axis=1)).all():
            raise self.error(int(np.argmin(held)), "a number beyond the range of float32")
        return numbers

    def first_line(self) -> tuple[int, str]:
        """Number and text of the first line that counts."""
        return next(self._lines())

    def error(self, row: int, what: str) -> UserError:
        """The error at data row `row` (from 0), with the line of the file that holds it."""
        line = next(line for i, (line, _) in enumerate(self._lines()) if i == row)
        return UserError(f"{self.path}:{line}: {what}")

    def _lines(self) -> Iterator[tuple[int, str]]:
        for number, line in enumerate(text_lines(self.path), start=1):
            content = line if self.comment is None else line.split(self.comment, 1)[0]
            if number > self.skip and content.strip():
                yield number, content

    def _malformed(self, reason: str) -> UserError:
        return self._fault() or UserError(f"{self.path}: not readable ({' '.join(reason.split())})")

    def _fault(self) -> UserError | None:
        """The first line that is not as it should be, if any."""
        expected = 0
        for number, line in self._lines():
            entries = [entry.strip() for entry in line.split(self.separator)]
            expected = expected or len(entries)
            if len(entries) != expected:
                return UserError(f"{self.path}:{number}: expected {expected} fields, found {len(entries)}")
            for entry in entries:
                if not is_number(entry) and not (self.gaps and entry.lower() == "nan"):
                    return UserError(f"{self.path}:{number}: expected a finite number, found '{entry[:40]}'")
        return None


def open_binary(path: Path) -> IO[bytes]:
    """Open a file, through gzip where its first bytes say so. Raises UserError if it cannot be opened."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        return io.BufferedReader(gzip.GzipFile(path)) if packed else path.open("rb")
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or 'not readable').lower()}") from None


def text_lines(path: Path) -> Generator[str, None, None]:
    """The lines of a text file or a .gz. Raises UserError where it is truncated or not UTF-8."""
    try:
        with open_binary(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig") as text:
            yield from text
    except _DAMAGED as error:
        raise damaged(path, error) from None


def first_line(path: Path) -> str:
    """The first line, empty for an empty file. Raises UserError as `text_lines` does."""
    lines = text_lines(path)
    try:
        return next(lines, "")
    finally:
        lines.close()


def damaged(path: Path, error: Exception) -> UserError:
    """The error for a file that ends early or holds other bytes than its format allows."""
    if isinstance(error, UnicodeDecodeError):
        return UserError(f"{path}: not a text file (byte {error.start} is not UTF-8)")
    return UserError(f"{path}: truncated or damaged ({error})")


def is_number(entry: str) -> bool:
    """Whether a finite number is written."""
    try:
        return math.isfinite(float(entry)) and "_" not in entry
    except ValueError:
        return False
