"""Cell: a value of a table that people read in another form than programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple


class Cell(NamedTuple):
    """Value of a command's table that people read as `text`, and `--json` prints as `value`.

    key: its name in JSON, where the column's does not say the unit; '' for the column's.
    """

    value: object
    text: str
    key: str = ""


def record(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row of a command's table as `--json` prints it: numbers as numbers, all digits; null for what is no finite number."""
    return {(value.key if isinstance(value, Cell) else "") or str(key): plain(value) for key, value in row.items()}


def plain(value: Any) -> Any:
    """Return a value of a command's table as JSON has it: cells by their values, null for what is no finite number."""
    if isinstance(value, Cell):
        return plain(value.value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value
