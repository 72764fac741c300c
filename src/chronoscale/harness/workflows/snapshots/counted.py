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
    """Count nodes, edges and changes of an experiment's snapshots to plan with, or read the counts from this machine's cache.

    Of thousands of snapshots, counting takes longer than simulating. key: names all that the counts depend on, as `key` makes it.
    snapshots: called for the snapshots where nothing is cached. The experiment's `scale` is not in the counts.
    """
    known = cache.cache_folder() / "statistics" / f"{key}.npz"
    if not known.exists():
        counts = statistics_of(snapshots())
        known.parent.mkdir(parents=True, exist_ok=True)
        counts.save(known)
    return SnapshotStatistics.load(known)


def halos(key: str, snapshots: Callable[[], Iterable[Snapshot]], counts: Sequence[int]) -> Float64:
    """Estimate how many rows of other parts a part reads of each snapshot of an experiment, if vertices fell into parts at random.

    counts: numbers of parts. Returns float64 [snapshots, len(counts)], computed once on this machine and cached. key, snapshots: as of
    `statistics`.
    """
    folder = cache.cache_folder() / "halos"
    files = {count: folder / f"{key}-{count}.npz" for count in counts}
    if absent := [count for count, file in files.items() if not file.exists()]:
        folder.mkdir(parents=True, exist_ok=True)
        for count, column in zip(absent, expected_halos(snapshots(), absent).T, strict=True):
            with atomic_file(files[count]) as file:
                np.savez_compressed(file, halo=column)
    return np.stack([read_archive(files[count])["halo"] for count in counts], axis=1)


def key(dataset: Data, seed: int, length: int | None, python_files: Sequence[str]) -> str:
    """Return the SHA-256 under which counts of an experiment's snapshots are cached, of all that they depend on.

    These are the dataset as it is named, its files' content and times, seed, `length` (snapshots taken; None: all), the Python files that
    the experiment runs, and the code that reads and counts.
    """
    files = [file for path in dataset.files for file in sorted([Path(path), *Path(path).rglob("*")]) if file.is_file()]
    origin = {
        "dataset": dataset.model_dump(mode="json", exclude={"scale"}),
        "files": [content.digests(dataset.files), [(str(file), file.stat().st_mtime_ns) for file in files]],
        "seed": seed,
        "length": length,
        "code": [cache.code_digest(), modules.fingerprints(python_files)],
    }
    return sha256(json.dumps(origin, sort_keys=True).encode()).hexdigest()
