"""Process setup: what a rank on a CPU asks of the system: cores of its own, and an allocator that keeps freed memory."""

from __future__ import annotations

import ctypes
import os
import sys

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # malloc.h
NEVER = 2**31 - 1


def keep_memory() -> bool:
    """Have the C library keep memory that this rank frees, for the next tensors; return whether it has such a setting (glibc has).

    By default glibc returns large blocks to the system, which hands them out again page by page, each cleared: a third of the time of an
    epoch whose tensors have megabytes.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(bool(mallopt(setting, value)) for setting, value in ((MMAP_MAX, 0), (TRIM_THRESHOLD, NEVER)))


def cores_per_rank(ranks: int, threads: int) -> int:
    """Return how many CPU cores each of a job's ranks on this machine has to itself; 0 where they share all of them.

    They share them where there is one rank, or not a core for each of a rank's `threads`. Its process group and further lanes run on the
    same cores: on those of other ranks they would hold these up.
    """
    each = len(os.sched_getaffinity(0)) // ranks
    return each if ranks > 1 and each >= threads else 0


def pin_to_cores(rank: int, ranks: int, threads: int) -> None:
    """Keep this rank's process, and the threads that it will start, on CPU cores of its own, where there are enough (`cores_per_rank`).

    rank, ranks: on this machine. A rank that moves to another's core loses its caches and holds the other up.
    """
    if each := cores_per_rank(ranks, threads):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[rank * each : (rank + 1) * each])
