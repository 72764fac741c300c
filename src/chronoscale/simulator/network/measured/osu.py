"""OSU micro-benchmarks: their tables of latencies by size (osu_allreduce, osu_alltoall, osu_allgather, osu_latency)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from chronoscale.simulator.network.measured.table import Line, MeasuredTable, mistake, notes, setup_of
from chronoscale.strategies.schedule import Op

TITLE = re.compile(r"#\s*OSU MPI(?:-\w+)?\s+(.*?)\s*(?:Latency\s+)?Test", re.IGNORECASE)
TESTS: Mapping[str, Op] = {
    "allreduce": Op.ALLREDUCE, "all-to-all": Op.ALLTOALL, "alltoall": Op.ALLTOALL, "all-to-all personalized exchange": Op.ALLTOALL,
    "allgather": Op.ALLGATHER, "latency": Op.SEND, "": Op.SEND,
}  # fmt: skip


def is_osu(text: str) -> bool:
    """Return whether a text is the output of an OSU micro-benchmark."""
    return "OSU MPI" in text


def read_osu(path: Path, lines: list[Line]) -> MeasuredTable:
    """Read one table of an OSU micro-benchmark: mean latencies of all-reduce, all-gather, all-to-all, or of messages. lines: of the file.

    Raises UserError naming file, line and reason: another test, units that are not stated, a row that is no numbers, or no time.
    """
    first, title = next(((number, match[1].lower()) for number, text in lines if (match := TITLE.search(text))), (lines[0][0], "no title"))
    if title not in TESTS:
        raise mistake(path, first, f"no test of links that is read here: {title!r}; there are {', '.join(filter(None, TESTS))}")
    op = TESTS[title]
    head = next((number for number, text in lines if text.lstrip("# ").startswith("Size")), 0)
    if "(us)" not in dict(lines).get(head, ""):
        raise mistake(path, head or first, "expected a column of latencies in (us)")
    setup, about = setup_of(path, lines), notes(lines)
    rows = []
    for number, text in lines:
        if number > head and text.strip() and not text.lstrip().startswith("#"):
            try:
                rows.append((number, int(text.split()[0]), float(text.split()[1]) / 1e6))
            except (ValueError, IndexError):
                raise mistake(path, number, f"expected a size and a latency, got {text.strip()!r}") from None
    if not rows:
        raise mistake(path, head, "a table without rows")
    if late := next((number for number, _, seconds in rows if not 0 < seconds < np.inf), None):
        raise mistake(path, late, "a latency that is no time")
    at, size, seconds = (np.array(column) for column in zip(*rows, strict=True))
    moved = size * (setup.ranks - 1) if op is Op.ALLTOALL else size  # all-to-alls: a size is that of one pair
    return MeasuredTable(path, op, setup, at, np.maximum(moved, 1), seconds, about.get("source", ""), about.get("date", ""))
