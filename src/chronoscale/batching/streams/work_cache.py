"""Work cache: what is counted of a prepared stream, once; files in its folder, or values in memory where it has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import numpy as np

from chronoscale.batching.streams.caching.loading import CachedRows
from chronoscale.batching.streams.counts import AGAIN, BatchCounts
from chronoscale.datasets.archive import read_archive
from chronoscale.datasets.atomic import atomic_file
from chronoscale.records import reading

CountsType = TypeVar("CountsType", bound=BatchCounts)


@dataclass(frozen=True, slots=True, eq=False)
class WorkCache:
    """Cache of what has been counted of a prepared stream's batches, and of the rows chosen for device caches, by key: archives in
    `folder`, or `values` in memory where there is none."""

    folder: Path | None = None
    values: dict[str, BatchCounts | CachedRows] = field(default_factory=dict)

    def counts(self, key: str, batches: int, kind: type[CountsType], count: Callable[[], CountsType]) -> CountsType:
        """Return the counts of `batches` batches that are stored under `key`; where they are not yet there, call `count` and store what it
        returns.

        Raises UserError for a file that is damaged, or of another number of batches.
        """
        if self.folder is None:
            if key not in self.values:
                self.values[key] = count()
            counts = self.values[key]
            assert isinstance(counts, kind)
            return counts
        path = self._path(key)
        if not path.exists():
            count().save(path)
        return kind.load(path, batches)

    def rows(self, key: str, choose: Callable[[], CachedRows]) -> CachedRows:
        """Return the rows of a device's cache that are stored under `key`; where they are not yet there, call `choose` and store what it
        returns.

        Raises UserError for a file that is damaged.
        """
        if self.folder is None:
            if key not in self.values:
                self.values[key] = choose()
            rows = self.values[key]
            assert isinstance(rows, CachedRows)
            return rows
        path = self._path(key)
        if not path.exists():
            with atomic_file(path) as file:
                np.savez(file, **choose()._asdict())
        with reading(path, "rows of a cache", AGAIN):
            return CachedRows(**read_archive(path))

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{sha256(key.encode()).hexdigest()[:16]}.npz"
