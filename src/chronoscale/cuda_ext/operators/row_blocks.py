"""Blocks of rows that operators of several steps take one after another, so that what is between the steps stays in the cache."""

from __future__ import annotations

from collections.abc import Iterator

BLOCK_NUMBERS = 1 << 19  # of a block: 2 MiB in float32; in smaller ones a second thread wakes too late to be of use


def row_blocks(rows: int, width: int) -> Iterator[slice]:
    """Return the blocks of rows that a CPU operator of several steps takes one after another, so that each stays in the cache.

    rows: how many in all. width: numbers of a row between two steps. All but the last block are as long as the first.
    """
    size = max(1, BLOCK_NUMBERS // max(1, width))
    return (slice(begin, min(begin + size, rows)) for begin in range(0, rows, size))


def longest_block(rows: int, width: int) -> int:
    """Return the rows of the longest block of `row_blocks`, for a CPU operator's buffers; 0 without rows."""
    return next((block.stop for block in row_blocks(rows, width)), 0)
