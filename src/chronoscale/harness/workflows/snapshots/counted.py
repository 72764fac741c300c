"""Counted statistics of snapshots, kept in this machine's cache by what they are counted of."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np

from chronoscale import modules
from chronoscale.batching.snapshots.partition import expected_halos
from chronoscale.datasets.archive import read_archive
from chronoscale.datasets.arrays import Float64
from chronoscale.datasets.atomic import atomic_file
from chronoscale.datasets.snapshots.sequence import Snapshot
from chronoscale.datasets.snapshots.statistics import SnapshotStatistics, statistics_of
from chronoscale.harness.keys.experiment import Data
from chronoscale.harness.runs import cache, content


def statistics(key: str, snapshots: Callable[[], Iterable[Snapshot]]) -> SnapshotStatistics:
    """Return statistics of the snapshots, `scale` left aside; they are read and counted where the cache has no file for their `key`: of
    thousands counting takes longer than simulating."""
    known = cache.cache_folder() / "statistics" / f"{key}.npz"
    if not known.exists():
        counts = statistics_of(snapshots())
        known.parent.mkdir(parents=True, exist_ok=True)
        counts.save(known)
    return SnapshotStatistics.load(known)


def halos(key: str, snapshots: Callable[[], Iterable[Snapshot]], counts: Sequence[int]) -> Float64:
    """Return `expected_halos` of every number of parts, float64 [T, counts], kept as `statistics` are."""
    folder = cache.cache_folder() / "halos"
    files = {count: folder / f"{key}-{count}.npz" for count in counts}
    if absent := [count for count, file in files.items() if not file.exists()]:
        folder.mkdir(parents=True, exist_ok=True)
        for count, column in zip(absent, expected_halos(snapshots(), absent).T, strict=True):
            with atomic_file(files[count]) as file:
                np.savez_compressed(file, halo=column)
    return np.stack([read_archive(files[count])["halo"] for count in counts], axis=1)


def key(dataset: Data, seed: int, length: int | None, python_files: Sequence[str]) -> str:
    """Return the SHA-256 of all that the counts follow from: the dataset as it is named, the content and times of its files, seed, length,
    the Python files that the experiment runs, and the code that reads and counts."""
    files = [file for path in dataset.files for file in sorted([Path(path), *Path(path).rglob("*")]) if file.is_file()]
    origin = {
        "dataset": dataset.model_dump(mode="json", exclude={"scale"}),
        "files": [content.digests(dataset.files), [(str(file), file.stat().st_mtime_ns) for file in files]],
        "seed": seed,
        "length": length,
        "code": [cache.code_digest(), modules.fingerprints(python_files)],
    }
    return sha256(json.dumps(origin, sort_keys=True).encode()).hexdigest()
