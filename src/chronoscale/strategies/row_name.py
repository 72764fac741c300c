"""Row names: the names of a schedule's rows in the traces of a profiler."""

from __future__ import annotations

import re

from chronoscale.strategies.schedule import Op

ROW = re.compile(r"row (\d+) ([A-Z0-9_]+)")  # what the interpreter calls a row's range


def row_name(row: int, op: Op) -> str:
    """Return the name of a row's range in a profiler's trace, as "row 12 H2D"."""
    return f"row {row} {op.name}"
