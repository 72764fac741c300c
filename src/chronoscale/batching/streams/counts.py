"""Counts of batches, a number a batch, kept as an archive."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from chronoscale.datasets.archive import read_archive
from chronoscale.datasets.atomic import atomic_file
from chronoscale.errors import UserError
from chronoscale.records import reading

LEVELS = ("targets", "sampled")  # have a number for each level or hop
AGAIN = "delete the file, and it is counted anew"


class BatchCounts:
    """Counts of what the batches of an event stream read, for planners: the base of dataclasses whose fields have a number for each of B
    batches, int64 [B], or (fields named in LEVELS) for each of its n levels or hops, [B, n]. Raises UserError for other arrays, and for a
    count below 0."""

    __slots__ = ()
    events: Any

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            array = getattr(self, field.name)
            shape = (*self.events.shape[:1], *array.shape[1:])
            if array.dtype != np.int64 or array.shape != shape or array.ndim != 1 + (field.name in LEVELS) or (array < 0).any():
                raise UserError(f"work of batches: {field.name} is {array.dtype} {list(array.shape)} of {self.events.size} batches")

    def __len__(self) -> int:
        return len(self.events)

    @classmethod
    def zeros(cls, batches: int, hops: int) -> dict[str, Any]:
        """Return arrays of zeros to count `batches` batches of `hops` sampled hops in, by field."""
        sizes = {"targets": (batches, hops + 1), "sampled": (batches, hops)}
        return {field.name: np.zeros(sizes.get(field.name, batches), np.int64) for field in fields(cls)}  # type: ignore[arg-type]

    def save(self, path: Path) -> None:
        """Write the counts to an archive (.npz), whole or not at all."""
        with atomic_file(path) as file:
            np.savez(file, **{field.name: getattr(self, field.name) for field in fields(self)})  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path, batches: int) -> Self:
        """Load the counts of `batches` batches from the archive that `save` wrote. Raises UserError naming a file that is damaged, or of
        another number of batches."""
        with reading(path, "work of batches", AGAIN):
            counts = cls(**read_archive(path))
            if len(counts) != batches:
                raise UserError(f"{len(counts)} batches, expected {batches}")
            return counts
