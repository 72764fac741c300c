"""Counted: statistics of an experiment's snapshots, kept on this machine by what they are counted of."""

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
from chronoscale.harness.runs import cache, content
from chronoscale.harness.snapshots.experiment import SnapshotExperiment


def statistics(experiment: SnapshotExperiment, snapshots: Callable[[], Iterable[Snapshot]]) -> SnapshotStatistics:
    """Of the snapshots, `scale` left aside, which are asked for where no file of this machine's cache has their counts: of thousands
    counting takes longer than simulating."""
    known = cache.cache_folder() / "statistics" / f"{key(experiment)}.npz"
    if not known.exists():
        found = statistics_of(snapshots())
        known.parent.mkdir(parents=True, exist_ok=True)
        found.save(known)
    return SnapshotStatistics.load(known)


def halos(experiment: SnapshotExperiment, snapshots: Callable[[], Iterable[Snapshot]], counts: Sequence[int]) -> Float64:
    """`expected_halos` of every number of parts, float64 [T, counts], kept as `statistics` are."""
    folder, found = cache.cache_folder() / "halos", key(experiment)
    files = {count: folder / f"{found}-{count}.npz" for count in counts}
    if absent := [count for count, file in files.items() if not file.exists()]:
        folder.mkdir(parents=True, exist_ok=True)
        for count, column in zip(absent, expected_halos(snapshots(), absent).T, strict=True):
            with atomic_file(files[count]) as file:
                np.savez_compressed(file, halo=column)
    return np.stack([read_archive(files[count])["halo"] for count in counts], axis=1)


def key(experiment: SnapshotExperiment) -> str:
    """SHA-256 of all that the counts follow from: the dataset as it is named, the content and times of its files, seed, length, and the
    code that reads and counts."""
    files = [one for file in experiment.dataset.files for one in sorted([Path(file), *Path(file).rglob("*")]) if one.is_file()]
    found = {
        "dataset": experiment.dataset.model_dump(mode="json", exclude={"scale"}),
        "files": [content.of_data(experiment), [(str(one), one.stat().st_mtime_ns) for one in files]],
        "seed": experiment.seed,
        "length": experiment.length,
        "code": [cache.code(), modules.fingerprints(experiment.modules)],
    }
    return sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
