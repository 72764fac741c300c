"""Numbers of the nodes of a table: ids or names become 0..N-1, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.formats.headed.column import Column
from chronoscale.datasets.node_names import Names

LONGEST = 255  # characters of a node's name; what is longer is a text, and would take that much memory for every node
SMALLEST_ID = 0


class NumberedNames(NamedTuple):
    """Names of nodes, text [N] in order, and the number of each row's, int64 [M], one array a column."""

    names: Names
    columns: tuple[Int64, ...]


def has_integer_ids(column: Column) -> bool:
    """Return whether the entries of a column are integers from 0 on, as ids are; codes with zeros before them (007) are names."""
    if column.kind == "integer" and not column.is_padded and not pa.types.is_boolean(column.data.type):
        try:
            return bool(pc.min(pc.cast(column.data.filter(pa.array(~column.absent)), pa.int64())).as_py() >= SMALLEST_ID)
        except pa.ArrowInvalid:  # beyond 64 bits
            return False
    return column.has_whole_fractions and bool((column.numbers()[~column.absent] >= SMALLEST_ID).all())


def number_names(columns: Sequence[Column], meaning: str, apart: bool = False) -> NumberedNames:
    """Number the names in columns of a table in their order: an entry is the same node wherever it stands, unless columns have nodes of
    their own (`apart`), which come one column's after the other's.

    meaning: what an entry is, for messages. Raises UserError, with its place, for an entry that is missing, is no text (a byte 0), or
    has more than LONGEST characters.
    """
    texts = [pc.cast(_short_texts(column, meaning), pa.large_string()) for column in columns]
    names, numbers = list[Names](), list[Int64]()
    known = 0
    for group in [[text] for text in texts] if apart else [texts]:
        encoded = pa.chunked_array(group).combine_chunks().dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy()
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(known, known + len(order))
        ends = np.cumsum([len(text) for text in group])[:-1]
        numbers += np.split(rank[encoded.indices.to_numpy()], ends)
        names.append(np.array(encoded.dictionary.take(order).to_pylist(), np.str_))
        known += len(order)
    return NumberedNames(np.concatenate(names), tuple(numbers))


def _short_texts(column: Column, meaning: str) -> pa.Array:
    texts = column.texts(meaning)
    damaged = pc.match_substring(texts, "\0").to_numpy(zero_copy_only=False)
    if damaged.any():
        raise column.row_error(int(np.argmax(damaged)), f"{column.label}: expected a {meaning}, found a text with a byte 0 in it")
    lengths = pc.utf8_length(texts).to_numpy(zero_copy_only=False)
    if lengths.max(initial=0) > LONGEST:
        row = int(np.argmax(lengths > LONGEST))
        entry = f"a text of {lengths[row]:,} characters, '{column.entry(row)}…'"
        raise column.row_error(row, f"{column.label}: expected a {meaning} of at most {LONGEST} characters, found {entry}")
    return texts
