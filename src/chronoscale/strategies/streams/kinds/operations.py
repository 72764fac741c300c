"""Operations that the work of a model is made of: matrix products, pairs of rows and slots, passes over values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chronoscale.strategies.schedule import Ints

Count = Ints | int


class Work(NamedTuple):
    """Counted work of an operation of an event-stream model, for planners: floating-point operations, and fp32 values moved."""

    flops: Count = 0
    moved: Count = 0

    @property
    def counted(self) -> tuple[Ints, Ints]:
        """Floating-point operations, and bytes moved; int64, of the shape of the counts."""
        return np.asarray(self.flops, np.int64), np.asarray(4 * np.asarray(self.moved, np.int64), np.int64)


def total(*parts: Work) -> Work:
    """Return the work of several operations, one after another, for counts of a model's work."""
    flops, moved = zip(*parts, strict=True)
    return Work(sum(flops), sum(moved))


def no_work(rows: Count) -> Work:
    """Return work of 0, in the shape of `rows` (a number, or an array of one a batch)."""
    return Work(0 * rows, 0 * rows)


def product(rows: Count, inner: int, outer: int) -> Work:
    """Count the flops and moved fp32 values of a matrix product: `rows` rows, [rows, inner] times [inner, outer]."""
    return Work(2 * rows * inner * outer, rows * (inner + outer) + inner * outer)


def pairwise(rows: Count, heads: int, slots: int, width: int) -> Work:
    """Count the flops and moved fp32 values of attention's scores, or of its weighted sums, for counts of a model's work.

    Between each of `rows` rows and its own `slots` sampled neighbours, `width` values each, by `heads` heads.
    """
    return Work(2 * rows * heads * slots * width, rows * (slots * width + heads * (slots + width)))


def passes(values: Count, times: int = 1) -> Work:
    """Count elementwise work that reads or writes so many fp32 values, `times` times: values moved, no flops."""
    return Work(0, values * times)
