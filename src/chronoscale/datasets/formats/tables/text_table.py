"""Text tables: numbers in columns, read at the speed of a C parser; what is wrong with a malformed file is found line by line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Float32
from chronoscale.datasets.formats.tables.lines import DAMAGED, damage_error, is_number, open_binary, text_lines
from chronoscale.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

ENTRIES = 1 << 18  # that are in memory together


class TextTable:
    """Text file of a dataset with the same number of entries (`fields`) in every line; gzip or plain. Rows are read by `blocks`,
    `text_blocks` or `read_all`; `rows` is how many have been.

    `separator` None means white space. Empty lines, lines that start with `comment` and the first `skip` lines are no rows. With `gaps` an
    entry may be nan. `promised`: the number of rows that the file's own header states, if any. Raises UserError naming the file where it is
    missing, empty, truncated or not text.
    """

    def __init__(
        self, path: str | Path, separator: str | None = None, comment: str | None = None, skip: int = 0, gaps: bool = False
    ) -> None:
        self.path = Path(path)
        self.separator = separator
        self.comment = comment
        self.skip = skip
        self.gaps = gaps
        self.rows = 0
        self.promised: int | None = None
        self.fields = len(self.first_line()[1].split(separator))

    def blocks(self, rows: int | None = None, skipped: Sequence[int] = ()) -> Iterator[TableBlock]:
        """Read the file's rows as numbers, some at a time, or `rows` of them. skipped: places of fields, from 0, that may hold anything.
        Raises UserError, `file:line: what`, for a line with another number of fields or an entry that is no finite number, and where there
        are not as many rows as `promised`."""
        for frame in self._frames(rows or max(ENTRIES // self.fields, 1), skipped, low_memory=False, quoting=csv.QUOTE_NONE):
            self._check(frame, skipped)
            yield TableBlock(self, frame, self.rows)
            self.rows += len(frame)
        if self.promised not in (None, self.rows):
            raise UserError(f"{self.path}:2: promises {self.promised} edges, the file has {self.rows}")

    def text_blocks(self) -> Iterator[pd.DataFrame]:
        """Read the file's rows as text, a data frame of some at a time; meanwhile `rows` is the number of the block's first row. An entry
        in quotes may hold separators. Raises UserError, `file:line: what`, for a line with another number of fields."""
        whole = False
        for frame in self._frames(max(ENTRIES // self.fields, 1), range(self.fields)):
            if not whole and (frame.shape[1] != self.fields or (frame.iloc[:, -1] == "").any()):  # or it is not there: pandas does not tell
                if (fault := self._fault(range(self.fields))) is not None:
                    raise fault
                whole = True
            yield frame
            self.rows += len(frame)

    def _frames(self, rows: int, as_text: Sequence[int], **how: Any) -> Iterator[pd.DataFrame]:
        import pandas as pd  # noqa: PLC0415 (heavy, and a file that is no table is refused before)

        self.rows = 0
        try:
            # as text, since pandas loses a field after a line that ends in a carriage return alone
            with open_binary(self.path) as file, io.TextIOWrapper(file, encoding="utf-8-sig") as text:
                frames = pd.read_csv(
                    text,
                    sep=self.separator or r"\s+",
                    comment=self.comment,
                    skiprows=self.skip,
                    header=None,
                    keep_default_na=False,
                    na_values=["nan", "NaN", "NAN"] if self.gaps else None,
                    chunksize=rows,
                    dtype=dict.fromkeys(as_text, str),
                    **how,
                )
                yield from frames
        except pd.errors.EmptyDataError:
            raise UserError(f"{self.path}: no data") from None
        except DAMAGED as error:
            raise damage_error(self.path, error) from None
        except (pd.errors.ParserError, ValueError) as error:
            raise self._malformed(str(error), as_text) from None

    def read_all(self) -> TableBlock:
        """Read all rows of the file as one block of numbers. Raises as `blocks`."""
        return next(self.blocks(1 << 62))

    def first_line(self) -> tuple[int, str]:
        """Return number (from 1) and text of the file's first line of data, after comments and skipped lines. Raises UserError where there
        is none."""
        first = next(self._lines(), None)
        if first is None:
            raise UserError(f"{self.path}: no data")
        return first

    def first_entries(self, lines: int) -> list[list[str]]:
        """Return the entries of the first `lines` lines of data, as text."""
        return [[entry.strip() for entry in line.split(self.separator)] for _, line in islice(self._lines(), lines)]

    def error(self, row: int, problem: str) -> UserError:
        """Return the error for row `row` of the data (from 0), with the line of the file that holds it."""
        return UserError(f"{self.path}:{self.line(row)}: {problem}")

    def line(self, row: int) -> int:
        """Return the number in the file (from 1) of the line that holds row `row` of the data (from 0)."""
        return next(line for i, (line, _) in enumerate(self._lines()) if i == row)

    def _check(self, frame: pd.DataFrame, skipped: Sequence[int]) -> None:
        """Check for failures of the C parser that do not raise: a short row leaves NaN, or '' as text; a word leaves text."""
        read = frame.drop(columns=[*skipped])
        if frame.shape[1] != self.fields or any(kind.kind not in "if" for kind in read.dtypes):
            raise self._malformed("an integer beyond 64 bits", skipped)
        short = self.fields - 1 in skipped and (frame.iloc[:, -1] == "").any()
        if (short or not np.isfinite(read.select_dtypes("float").to_numpy()).all()) and (fault := self._fault(skipped)) is not None:
            raise fault

    def _lines(self) -> Iterator[tuple[int, str]]:
        for number, line in enumerate(text_lines(self.path), start=1):
            content = line if self.comment is None else line.split(self.comment, 1)[0]
            if number > self.skip and content.strip():
                yield number, content

    def _malformed(self, reason: str, skipped: Sequence[int]) -> UserError:
        return self._fault(skipped) or UserError(f"{self.path}: not readable ({' '.join(reason.split())})")

    def _fault(self, skipped: Sequence[int]) -> UserError | None:
        """Return the first line that is not as it should be, if any. skipped: places of fields that may hold anything; where all may, an
        entry in quotes may hold separators."""
        expected, numbers = 0, len(skipped) < self.fields
        for number, line in self._lines():
            entries = [entry.strip() for entry in (line.split(self.separator) if numbers else next(csv.reader([line])))]
            expected = expected or len(entries)
            if len(entries) != expected:
                return UserError(f"{self.path}:{number}: expected {expected} fields, found {len(entries)}")
            for place, entry in enumerate(entries):
                if place not in skipped and not is_number(entry) and not (self.gaps and entry.lower() == "nan"):
                    return UserError(f"{self.path}:{number}: expected a finite number, found '{entry[:40]}'")
        return None


class TableBlock:
    """Block of consecutive rows of a dataset's text table as numbers; `start` is the number of its first row."""

    def __init__(self, table: TextTable, frame: pd.DataFrame, start: int) -> None:
        self.table = table
        self.start = start
        self._frame = frame

    def __len__(self) -> int:
        return len(self._frame)

    @property
    def fields(self) -> int:
        """Number of columns of the block."""
        return self._frame.shape[1]

    def column(self, i: int) -> NDArray[Any]:
        """Return column i of the block, [rows]: int64 where every entry is an integer, else float64."""
        array = self._frame.iloc[:, i].to_numpy()
        return array.astype(np.int64 if array.dtype.kind == "i" else np.float64, copy=False)

    def matrix(self, places: Sequence[int] | None = None) -> Float32:
        """Return the columns at `places` (None: all) of the block, float32 [rows, columns]. Raises UserError for numbers that float32
        cannot hold."""
        frame = self._frame if places is None else self._frame.iloc[:, list(places)]
        with np.errstate(over="ignore"):
            numbers = np.ascontiguousarray(frame.to_numpy(dtype=np.float32))
        if not (representable := (~np.isinf(numbers)).all(axis=1)).all():
            raise self.error(int(np.argmin(representable)), "a number beyond the range of float32")
        return numbers

    def error(self, row: int, problem: str) -> UserError:
        """Return the error for a row of this block (from 0), with the line of the file that holds it."""
        return self.table.error(self.start + row, problem)
