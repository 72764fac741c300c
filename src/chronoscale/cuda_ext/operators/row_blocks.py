"""Blocks of rows that operators made of several steps take one after another, so that what is between the steps stays in the cache."""

from __future__ import annotations

from collections.abc import Iterator

BLOCK_NUMBERS = 1 << 19  # of a block: 2 MiB in float32; in smaller ones a second thread wakes too late to be of use


def row_blocks(rows: int, width: int) -> Iterator[slice]:
    """Of rows 0 .. rows with so many numbers between two steps each, in order; all but the last as long as the first."""
    size = max(1, BLOCK_NUMBERS // max(1, width))
    return (slice(begin, min(begin + size, rows)) for begin in range(0, rows, size))


def longest_block(rows: int, width: int) -> int:
    """Rows of the first of them, 0 for none."""
    return next((block.stop for block in row_blocks(rows, width)), 0)
