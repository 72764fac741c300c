"""nccl-tests: its tables (all_reduce_perf, alltoall_perf ...), of old versions and new."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from chronoscale.simulator.network.measured.table import Line, MeasuredTable, mistake, notes, setup_of
from chronoscale.strategies.schedule import Op

PROGRAM = re.compile(r"\b(all_reduce|alltoall|all_gather|sendrecv)_perf")
PROGRAMS: Mapping[str, Op] = {"all_reduce": Op.ALLREDUCE, "alltoall": Op.ALLTOALL, "all_gather": Op.ALLGATHER, "sendrecv": Op.SEND}
UNITS = ("(B)", "(us)", "(GB/s)")
AGREE = 0.06  # how far printed bandwidths may be from size / time: both are rounded
ROUNDED = 0.011  # GB/s


def is_nccl_tests(text: str) -> bool:
    """Return whether a text is the output of nccl-tests."""
    return "busbw" in text and "algbw" in text


def read_nccl_tests(path: Path, lines: list[Line]) -> MeasuredTable:
    """Read one table of nccl-tests, out of place. lines: of the file.

    Raises UserError naming file, line and reason: a row cut short, units that are not stated, times that are not those of the bandwidths
    beside them, an operation that it does not name.
    """
    program = next((match[1] for _, text in lines if (match := PROGRAM.search(text))), "")
    head, *others = (i for i, (_, text) in enumerate(lines) if "algbw" in text)
    if others:
        raise mistake(path, lines[others[0]][0], "a second table; one a file")
    if not program:
        raise mistake(path, lines[head][0], "which operation? no line names the program (all_reduce_perf, alltoall_perf ...)")
    units = lines[head + 1][1] if head + 1 < len(lines) else ""
    if any(unit not in units for unit in UNITS):
        raise mistake(path, lines[head][0] + 1, f"expected the units of the columns, {', '.join(UNITS)}, got {units.strip()!r}")
    setup, about = setup_of(path, lines), notes(lines)
    columns = max((len(text.split()) for _, text in lines[head + 2 :] if text[:1] != "#" and text.strip()), default=0)
    rows = [_row(path, number, text, columns) for number, text in lines[head + 2 :] if text.strip() and not text.lstrip().startswith("#")]
    rows = [row for row in rows if row[1] > 0]
    if not rows:
        raise mistake(path, lines[head][0], "a table without rows")
    number, size, seconds = (np.array(column) for column in zip(*rows, strict=True))
    op = PROGRAMS[program]
    share = {Op.ALLTOALL: (setup.ranks - 1) / setup.ranks, Op.ALLGATHER: 1 / setup.ranks}.get(op, 1.0)
    moved = np.maximum(np.rint(size * share), 1).astype(np.int64)
    return MeasuredTable(path, op, setup, number.astype(np.int64), moved, seconds, about.get("source", ""), about.get("date", ""))


def _row(path: Path, number: int, text: str, columns: int) -> tuple[int, int, float]:
    """Return line, size (bytes) and time (s) of a row. columns: of the table."""
    words = text.split()
    if len(words) < columns or columns < 9:
        raise mistake(path, number, f"a row cut short: {len(words)} columns of {max(columns, 9)}")
    try:
        size, (micros, rate) = int(words[0]), map(float, words[-8:-6])
    except ValueError:
        raise mistake(path, number, f"expected numbers, got {text.strip()!r}") from None
    if size > 0 and not micros > 0:
        raise mistake(path, number, f"expected a time above 0 µs, got {words[-8]}")
    if size > 0 and abs(expected := size / micros / 1e3) and abs(expected - rate) > max(AGREE * expected, ROUNDED):
        raise mistake(
            path, number, f"{size} bytes in {micros} µs are {expected:.3g} GB/s, not the {rate} printed beside them: other units?"
        )
    return number, size, micros / 1e6
