"""Blocks of rows that operators made of several steps take one after another, so that what is between the steps stays in the cache."""

from __future__ import annotations

from collections.abc import Iterator

ROWS = 2048  # with hidden 64 the gates of a GRU are 1.5 MiB; fewer are not worth a second thread


def blocks(rows: int) -> Iterator[slice]:
    """Of rows 0 .. rows, in order, all but the last of ROWS."""
    return (slice(begin, min(begin + ROWS, rows)) for begin in range(0, rows, ROWS))


def longest(rows: int) -> int:
    """Rows of the first of them, 0 for none."""
    return min(ROWS, rows)
