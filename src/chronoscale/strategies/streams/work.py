"""The work of a forward pass through the parts of a model of event streams, as `real_exec.streams.models` does it.

Each function gives the floating-point operations of the matrix products, exactly, and the bytes moved were nothing cached between two
operations; counts of rows may be arrays. A query attends to K slots of width X by weights that are applied to the query and to what it
gets, not to the slots: see `models.attention`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.streams.models import StreamShape

Count = Ints | int


class _Work(NamedTuple):
    """Operations, and fp32 values moved."""

    flops: Count = 0
    moved: Count = 0

    def plus(self, other: _Work) -> _Work:
        return _Work(self.flops + other.flops, self.moved + other.moved)

    @property
    def counted(self) -> tuple[Ints, Ints]:
        return np.asarray(self.flops, np.int64), np.asarray(4 * np.asarray(self.moved, np.int64), np.int64)


def _total(*parts: _Work) -> tuple[Ints, Ints]:
    whole = _Work()
    for part in parts:
        whole = whole.plus(part)
    return whole.counted


def _product(rows: Count, inner: int, outer: int) -> _Work:
    """Rows times a matrix."""
    return _Work(2 * rows * inner * outer, rows * (inner + outer) + inner * outer)


def _pairs(rows: Count, heads: int, slots: int, width: int) -> _Work:
    """Every row's heads with its own slots: scores, or their weighted sums."""
    return _Work(2 * rows * heads * slots * width, rows * (slots * width + heads * (slots + width)))


def _passes(values: Count, times: int = 1) -> _Work:
    """Elementwise work that reads or writes so many values."""
    return _Work(0, values * times)


def update_work(shape: StreamShape, rows: Count) -> tuple[Ints, Ints]:
    """MEMORY_UPDATE of `rows` nodes: flops and bytes, int64, of the shape of `rows`; nothing for a model without memory."""
    hidden, mail, heads, slots = shape.hidden, shape.mail, shape.heads, shape.mails
    read = _product(rows, shape.features, hidden).plus(_passes(rows * hidden, 2)) if shape.features else _Work()
    if shape.name == "tgn":
        clock = _passes(rows * shape.time, 3)
        gates = _product(rows, mail, 3 * hidden).plus(_product(rows, shape.time, 3 * hidden)).plus(_product(rows, hidden, 3 * hidden))
        return _total(read, clock, gates, _passes(rows * hidden, 20))
    if shape.name == "jodie":
        cells = _product(rows, mail, 2 * hidden).plus(_product(rows, hidden, 2 * hidden))
        return _total(read, cells, _passes(rows * hidden, 13))
    if shape.name == "apan":
        query = _product(rows, hidden, hidden).plus(_product(rows, hidden, mail))
        attended = _pairs(rows, heads, slots, mail).plus(_product(rows * heads, mail, slots))
        answer = _pairs(rows, heads, slots, mail).plus(_product(rows * heads, slots, mail)).plus(_product(rows, mail, hidden))
        ending = _product(rows, hidden, hidden).plus(_product(rows, hidden, hidden)).plus(_passes(rows * hidden, 10))
        return _total(read, query, attended, answer, ending)
    return _total(_Work(0 * rows, 0 * rows))


def layer_work(shape: StreamShape, layer: int, targets: Count, fanout: int) -> tuple[Ints, Ints]:
    """AGGREGATE of `targets` rows by layer `layer` (0-based), `fanout` slots each, in one tree: flops and bytes, int64."""
    hidden, width, heads = shape.hidden, shape.width(layer), shape.heads
    slots = targets * fanout
    gathered = _passes(slots * width, 2)
    if shape.spatial == "gat":
        vectors = _Work(4 * width * hidden, 2 * width * hidden)
        scores = _product(slots, width, heads).plus(_product(targets, width, heads)).plus(_product(targets, width, heads))
        answer = _pairs(targets, heads, fanout, width).plus(_product(targets, width, hidden))
        return _total(gathered, vectors, scores, answer, _passes(targets * heads * (fanout + 1), 12), _passes(targets * hidden, 2))
    across = width + shape.slot + shape.time
    gathered = gathered.plus(_passes(slots * shape.time, 4))
    query = _product(targets, width, hidden).plus(_product(targets, hidden, across))
    scores, answer = _Work(), _Work()
    for part in (width, shape.slot, shape.time):
        if part:
            scores, answer = scores.plus(_pairs(targets, heads, fanout, part)), answer.plus(_pairs(targets, heads, fanout, part))
    ending = _product(targets, across, hidden).plus(_product(targets, hidden, hidden)).plus(_product(targets, width, hidden))
    return _total(
        gathered, query, scores, _passes(slots * heads, 10), answer, ending, _product(targets, hidden, hidden), _passes(targets * hidden, 4)
    )


def embed_work(shape: StreamShape, roots: Count) -> tuple[Ints, Ints]:
    """What is done to `roots` rows after the last layer: DySAT's attention over windows, JODIE's projection; flops and bytes, int64."""
    hidden, windows = shape.hidden, shape.windows
    if shape.name == "dysat":
        square = _product(roots, hidden, hidden)
        pairs = _pairs(roots, shape.heads, windows, hidden)
        return _total(_passes(roots * windows * hidden, 4), square, square, pairs, pairs, square, square, _passes(roots * hidden, 8))
    if shape.name == "jodie":
        return _total(_Work(0 * roots), _passes(roots * hidden, 4))
    return _total(_Work(0 * roots, 0 * roots))


def class_work(shape: StreamShape, sources: Count) -> tuple[Ints, Ints]:
    """Classes of `sources` rows: flops and bytes, int64."""
    hidden = shape.hidden
    return _total(_product(sources, hidden, hidden), _passes(sources * hidden, 2), _product(sources, hidden, shape.outputs))


def score_work(shape: StreamShape, pairs: Count, sources: Count | None = None) -> tuple[Ints, Ints]:
    """Scores of `pairs` of links of `sources` rows (None: one a pair): flops and bytes, int64."""
    hidden = shape.hidden
    own, other = _product(pairs if sources is None else sources, hidden, hidden), _product(pairs, hidden, hidden)
    return _total(own, other, _passes(pairs * hidden, 4), _product(pairs, hidden, 1))
