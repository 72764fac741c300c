"""Column of a table with a header: its entries, as they stand in the file, as numbers or as text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Bool, Float64, Int64
from chronoscale.errors import UserError

MISSING = ("", "nan", "na", "n/a", "null", "none", "-")  # entries of text tables, in small letters, that say that there is none
INTEGER = r"^[+-]?[0-9]+$"
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
PADDED = r"^[+-]?0[0-9]"  # such as 007, which is a name and no number
DECIMAL_COMMA = r"^[+-]?[0-9]+,[0-9]+$"
GROUPED = r"^[+-]?[0-9]{1,3}(\.[0-9]{3})+(,[0-9]+)?$"  # points between thousands
LIKE_A_FRACTION = r"^[+-]?[0-9]+\.?[0-9]*$"
HALF = 0.5
SHOWN = 40  # characters of an entry
EXACT = 2**53  # integers that float64 holds


@dataclass(frozen=True, eq=False)
class Column:
    """Column of a table: name in the header, place from 1, and M entries of a type of Arrow; text columns have no blanks around entries.

    row_error(row, problem): makes the error for a row, from 0, with its place in the file. decimal: the mark before fractions in text:
    ".", "," (points may stand between thousands) or "both". is_unique: whether no other column has the name.
    """

    name: str
    place: int
    data: pa.Array
    row_error: Callable[[int, str], UserError] = field(repr=False)
    decimal: str = "."
    is_unique: bool = True

    @property
    def label(self) -> str:
        """The column as messages call it, such as `column 'weight'`."""
        return f"column '{self.name}'" if self.name else f"column {self.place}"

    @property
    def option(self) -> str:
        """The column as the value of a reader's option: its name; its place where it has none, or shares it, or a comma is in it."""
        return self.name if self.name and self.is_unique and "," not in self.name else str(self.place)

    @cached_property
    def is_text(self) -> bool:
        """Whether entries are text, numbers or dates perhaps, as all entries of a text file are."""
        return bool(pa.types.is_string(self.data.type) or pa.types.is_large_string(self.data.type))

    @cached_property
    def absent(self) -> Bool:
        """Which entries are missing, bool [M]: null, NaN, and in text one of MISSING."""
        if self.is_text:
            gone = pc.is_in(pc.utf8_lower(self.data), value_set=pa.array(MISSING, self.data.type))
        else:
            gone = pc.is_null(self.data, nan_is_null=True)
        return _mask(pc.or_(gone, pc.is_null(self.data)))

    @cached_property
    def kind(self) -> str:
        """What all entries that are not missing are: "integer", "number", "time" (typed as a time), "text", "empty" or "nested"."""
        if self.absent.all():
            return "empty"
        if self.is_text:
            there = self.data.filter(pa.array(~self.absent))
            if _all_match(there, INTEGER):
                return "integer"
            return "number" if _all_match(self._with_points(there), NUMBER) else "text"
        if pa.types.is_integer(self.data.type) or pa.types.is_boolean(self.data.type):
            return "integer"
        if pa.types.is_floating(self.data.type) or pa.types.is_decimal(self.data.type):
            return "number"
        return "time" if pa.types.is_timestamp(self.data.type) or pa.types.is_date(self.data.type) else "nested"

    @property
    def is_numeric(self) -> bool:
        """Whether all entries that are not missing are numbers."""
        return self.kind in ("integer", "number")

    @cached_property
    def is_mostly_numbers(self) -> bool:
        """Whether half of the entries that are not missing are numbers, or more: text among them is a mistake, and no name."""
        if self.kind != "text":
            return self.is_numeric
        there = self._with_points(self.data.filter(pa.array(~self.absent)))
        return bool(pc.mean(pc.match_substring_regex(there, NUMBER)).as_py() >= HALF)

    @cached_property
    def is_padded(self) -> bool:
        """Whether some entry of text is an integer with zeros before it, such as 007, as codes have them and numbers do not."""
        return self.is_text and bool(pc.any(pc.match_substring_regex(self.data, PADDED)).as_py()) and self.kind == "integer"

    @cached_property
    def has_whole_fractions(self) -> bool:
        """Whether all entries are integers written as fractions, such as 3.0, as pandas writes integers beside gaps."""
        if self.kind != "number":
            return False
        numbers = self.numbers()[~self.absent]
        return bool((numbers == np.floor(numbers)).all())

    @cached_property
    def counts_rows(self) -> bool:
        """Whether entries are integers that rise by the same from row to row, as numbers of rows do."""
        if self.kind != "integer" or self.absent.any():
            return False
        steps = np.diff(self.numbers())
        return bool((steps > 0).all() and (steps == steps[:1]).all())

    @cached_property
    def has_decimal_commas(self) -> bool:
        """Whether some entry is text such as 0,5."""
        return self.is_text and bool(pc.any(pc.match_substring_regex(self.data, r"^[+-]?[0-9.]+,[0-9]+$")).as_py())

    @property
    def has_unclear_points(self) -> bool:
        """Whether entries are numbers such as 1.000, with three digits behind the only point, so that it may stand between thousands."""
        return self._is_grouped and self.is_numeric and _all_match(self._with_point, LIKE_A_FRACTION) and len(self._with_point) > 0

    @property
    def _with_point(self) -> pa.Array:
        return self.data.filter(pc.match_substring(self.data, "."))

    @cached_property
    def _is_grouped(self) -> bool:
        return self.is_text and _all_match(self._with_point, GROUPED)

    def numbers(self, meaning: str = "number") -> Float64:
        """Return the entries as numbers, float64 [M], NaN where they are missing. Raises UserError, with the place of the first entry that
        is no finite number."""
        if not self.is_numeric and self.kind != "empty":
            self._refuse_first(NUMBER, f"expected a {meaning}")
        data = self._with_points(self.data) if self.is_text else self.data
        numbers = np.full(len(data), np.nan)
        there = ~self.absent
        numbers[there] = pc.cast(data.filter(pa.array(there)), pa.float64()).to_numpy(zero_copy_only=False)
        if np.isinf(numbers).any():
            row = int(np.argmax(np.isinf(numbers)))
            raise self.row_error(row, f"{self.label}: expected a finite {meaning}, found '{self.entry(row)}'")
        return numbers

    def integers(self, meaning: str) -> Int64:
        """Return the entries as integers, int64 [M]; fractions of zero (5.0) are taken for integers. Raises UserError, with its place, for
        an entry that is missing or no integer of 64 bits."""
        self.require_all(meaning)
        if self.kind == "integer":
            try:
                data = pc.cast(self.data, pa.int64())
            except pa.ArrowInvalid:
                raise UserError(f"{self.label}: an integer beyond 64 bits, where a {meaning} is expected") from None
            return np.asarray(data.to_numpy(zero_copy_only=False), np.int64)
        numbers = self.numbers(meaning)
        wrong = (numbers != np.floor(numbers)) | (np.abs(numbers) >= EXACT)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise self.row_error(row, f"{self.label}: expected an integer {meaning}, found '{self.entry(row)}'")
        return numbers.astype(np.int64)

    def texts(self, meaning: str) -> pa.Array:
        """Return the entries as text, integers written as fractions (3.0) as integers; among words only '' is missing: NA may be a code.

        Raises UserError, with its place, for an entry that is missing, or of a type that is no text, lists say.
        """
        words = self.is_text and not self.is_numeric
        self._refuse_missing(_mask(pc.fill_null(pc.equal(self.data, ""), True)) if words else self.absent, meaning)
        if self.has_whole_fractions:
            return pc.cast(pa.array(self.integers(meaning)), pa.string())
        try:
            return self.data if self.is_text else pc.cast(self.data, pa.string())
        except pa.ArrowException:
            raise self.row_error(0, f"{self.label}: expected a {meaning}, found entries of the type {self.data.type}") from None

    def require_all(self, meaning: str) -> None:
        """Check that no entry is missing. Raises UserError, with its place, for the first that is."""
        self._refuse_missing(self.absent, meaning)

    def _refuse_missing(self, missing: Bool, meaning: str) -> None:
        if missing.any():
            row = int(np.argmax(missing))
            raise self.row_error(row, f"{self.label}: expected a {meaning}, found '{self.entry(row)}'")

    def entry(self, row: int) -> str:
        """Return the entry of a row, from 0, as text for a message; '' where there is none."""
        value = self.data[row].as_py()
        return "" if value is None else str(value)[:SHOWN]

    def _with_points(self, data: pa.Array) -> pa.Array:
        if self.decimal == ".":
            return data
        if self.decimal == "," and self._is_grouped:
            data = pc.if_else(pc.match_substring_regex(data, GROUPED), pc.replace_substring(data, ".", ""), data)
        return pc.if_else(pc.match_substring_regex(data, DECIMAL_COMMA), pc.replace_substring(data, ",", "."), data)

    def _refuse_first(self, pattern: str, expected: str) -> None:
        if not self.is_text:
            raise UserError(f"{self.label}: {expected}, found entries of the type {self.data.type}")
        matches = _mask(pc.match_substring_regex(self._with_points(self.data), pattern))
        row = int(np.argmin(matches | self.absent))
        raise self.row_error(row, f"{self.label}: {expected}, found '{self.entry(row)}'")


def _mask(data: Any) -> NDArray[np.bool_]:
    return np.asarray(pc.fill_null(data, False).to_numpy(zero_copy_only=False), np.bool_)


def _all_match(data: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(data, pattern)).as_py())
