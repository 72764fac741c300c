"""The C library's allocator, as a rank on a CPU wants it."""

from __future__ import annotations

import ctypes
import os
import sys

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # malloc.h
NEVER = 2**31 - 1


def keep_memory() -> bool:
    """Have this process keep the memory it gives back, for the next tensors. Whether the C library has such a setting: glibc.

    By default glibc returns what is large to the system, which hands it out again page by page, each cleared: a third of the time of an
    epoch whose tensors have megabytes.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(bool(mallopt(setting, value)) for setting, value in ((MMAP_MAX, 0), (TRIM_THRESHOLD, NEVER)))


def cores_per_rank(ranks: int, threads: int) -> int:
    """Cores that each of several ranks has to itself; 0 where they are not told apart: one rank has all, and so have ranks that would not
    find a core for each of their `threads` and one more, on which their process group and a second lane run."""
    each = len(os.sched_getaffinity(0)) // ranks
    return each if ranks > 1 and each > threads else 0


def pin_to_cores(rank: int, ranks: int, threads: int) -> None:
    """Keep this process, and the threads that it will start, to its own cores, if it is to have any: a rank that moves to another's core
    loses its caches and holds the other up."""
    if each := cores_per_rank(ranks, threads):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[rank * each : (rank + 1) * each])
