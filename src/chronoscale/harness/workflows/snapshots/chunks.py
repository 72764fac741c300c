"""Chunks that METIS cuts a sequence of snapshots into, kept by a run, and in this machine's cache by what is cut."""

from __future__ import annotations

import os
import tempfile
import warnings
from hashlib import sha256
from pathlib import Path

import numpy as np

from chronoscale.batching.snapshots.chunks import Chunks, cut_into_chunks
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.errors import ChronoscaleWarning
from chronoscale.harness.runs.cache import cache_folder
from chronoscale.harness.runs.run_folder import Run
from chronoscale.records import read_array

HOW = b"METIS, recursive bisection of the union of all snapshots, balanced by nodes"


def cut_chunks(run: Run, sequence: SnapshotSequence, count: int) -> Path:
    """Cut the vertices of an experiment's snapshots into `count` chunks with METIS, for FlareDTDG; return the run's file of them, int32
    [N].

    They are cut once on this machine and kept in its cache. Raises as `cut_into_chunks`.
    """

    def make(part: Path) -> None:
        known = cache_folder() / "chunks" / f"{digest(sequence, count)}.npy"
        if not known.exists():
            _save(known, cut_into_chunks(sequence, count).assignment)
        np.save(part / "assignment.npy", read_array(known, np.int32, (sequence.num_nodes,), "chunks", f"remove {known}"))

    return run.piece(f"chunks-{count}", make) / "assignment.npy"


def load_chunks(file: Path, sequence: SnapshotSequence, count: int) -> Chunks:
    """Load the vertex chunks of an experiment's run, to plan FlareDTDG with.

    file: that `cut_chunks` has written, int32 [N]. sequence: the snapshots that were cut. count: of chunks.
    """
    return Chunks(read_array(file, np.int32, (sequence.num_nodes,), "chunks"), count)


def digest(sequence: SnapshotSequence, count: int) -> str:
    """Return the name under which `chronoscale bench`, `train` and `simulate` keep a run's METIS chunks in this machine's cache.

    It is a SHA-256 of all that METIS is given: the snapshots' edges, the number of nodes, and `count`, the number of chunks.
    """
    hashed = sha256(HOW + f" {sequence.num_nodes} {count} ".encode())
    for column in (sequence.ptr, sequence.src, sequence.dst):
        hashed.update(np.ascontiguousarray(column).tobytes())
    return hashed.hexdigest()


def warn_of_broken_lags(decay: Decay) -> None:
    """Warn where the experiment's `training.lags` cut hidden states off (FlareDTDG §3.5).

    decay: how much a window keeps of its snapshots, by age. Where an older snapshot is kept whole and a younger one in part, hidden states
    of the vertices that only the older one has go no further.
    """
    if broken := decay.broken:
        ages = ", ".join(map(str, broken))
        lags = f"training.lags: {list(decay.lags)} are kept whole"
        warning = f"{lags}, and less of the younger ages {ages}: hidden states that those do not have"
        warnings.warn(f"{warning} end there (FlareDTDG §3.5)", ChronoscaleWarning, stacklevel=2)


def _save(path: Path, assignment: np.ndarray) -> None:
    """Save an array completely or not at all, also where another process saves it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".npy", delete=False) as draft:
        np.save(draft, assignment)
    os.replace(draft.name, path)
