"""Packing: columns of rows as bytes, one after another in each row, so that ranks exchange rows of several kinds at once."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor


class Column(NamedTuple):
    """A column of rows that ranks send each other as bytes: numbers of one dtype, of one shape a row."""

    dtype: torch.dtype
    shape: tuple[int, ...] = ()

    @property
    def bytes(self) -> int:
        """Return the bytes of the column in one row."""
        return self.dtype.itemsize * prod(self.shape)


def pack(columns: Sequence[Tensor]) -> Tensor:
    """Pack columns of different dtypes, [n, …] each, into one tensor that ranks exchange at once, uint8 [n, bytes of a row]."""
    return torch.cat([_plain(column).view(torch.uint8).view(len(column), _bytes(column)) for column in columns], 1)


def unpack(rows: Tensor, columns: Sequence[Column]) -> list[Tensor]:
    """Unpack the columns that another rank packed (`pack`), from uint8 [n, W]. columns: their dtypes and shapes."""
    parts = rows.split([column.bytes for column in columns], 1)
    return [_plain(part).view(column.dtype).view(len(rows), *column.shape) for part, column in zip(parts, columns, strict=True)]


def _plain(values: Tensor) -> Tensor:
    """Return a flat copy, whose memory is aligned and contiguous."""
    return values.clone(memory_format=torch.contiguous_format).flatten()


def _bytes(column: Tensor) -> int:
    """Return the bytes of one row of a column."""
    return column.dtype.itemsize * prod(column.shape[1:])
