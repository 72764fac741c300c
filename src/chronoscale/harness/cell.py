"""Cell: a value of a table that a person reads otherwise than a program."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple


class Cell(NamedTuple):
    """`value`: as JSON has it, a number where it is one. `text`: as a terminal shows it. `key`: of the value in JSON, where the column's
    name does not say its unit."""

    value: object
    text: str
    key: str = ""


def record(row: Mapping[str, object]) -> dict[str, object]:
    """A row as JSON has it: numbers as numbers, all digits; null for what is no finite number."""
    return {(value.key if isinstance(value, Cell) else "") or str(key): plain(value) for key, value in row.items()}


def plain(value: Any) -> Any:
    """What `json` writes as it stands."""
    if isinstance(value, Cell):
        return plain(value.value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value
