"""Row names: the names of a schedule's rows in the traces of a profiler."""

from __future__ import annotations

import re

from chronoscale.strategies.schedule import Op

ROW = re.compile(r"row (\d+) ([A-Z0-9_]+)")  # what the interpreter calls a row's range


def row_name(row: int, op: Op) -> str:
    """Return the label of a schedule's row in a profiler's trace (PyTorch's record_function), as "row 12 H2D". row: its number in the
    schedule."""
    return f"row {row} {op.name}"
