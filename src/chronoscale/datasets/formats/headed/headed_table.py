"""Table with a header: columns by name or place, and the place of a row in its file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from chronoscale.datasets.formats.headed.column import Column
from chronoscale.datasets.unpacking import name_unpacked
from chronoscale.errors import UserError

SHOWN = 12  # columns that are listed


@dataclass(frozen=True, slots=True, eq=False)
class HeadedTable:
    """Table of one or several files: `columns` of `rows` entries; `kind`, what the files are, for people, such as CSV. row_error(row,
    problem): makes the error for a row, from 0 over all files, with its file and line; with its number, from 1, in a Parquet file."""

    paths: tuple[Path, ...]
    kind: str
    columns: tuple[Column, ...]
    rows: int
    row_error: Callable[[int, str], UserError] = field(repr=False)

    def find(self, option: str, text: str) -> Column:
        """Find the column that an option of the reader names, by its header or by its place from 1. Raises UserError where there is none,
        or two have the name."""
        named = [column for column in self.columns if column.name == text]
        if len(named) > 1:
            places = " and ".join(str(column.place) for column in named)
            raise UserError(f"{self.paths[0]}: {option}={text}: columns {places} have this name; say the place instead")
        if named:
            return named[0]
        if text.isdecimal() and (placed := [column for column in self.columns if column.place == int(text)]):
            return placed[0]
        there = f"there are {self.names}, or places from 1 to {max(column.place for column in self.columns)}"
        raise UserError(f"{self.paths[0]}: {option}={text}: no such column; {there}")

    @property
    def header(self) -> list[str]:
        """Names of all columns, in their order; '' where one has none."""
        return [column.name for column in self.columns]

    @property
    def stem(self) -> str:
        """Name of a dataset that is read from the table: its first file's, without endings."""
        return name_unpacked(self.paths[0]).rsplit(".", 1)[0]

    @property
    def names(self) -> str:
        """The columns' names for a message; the first ones of many."""
        names = [column.name or f"(column {column.place})" for column in self.columns]
        return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
