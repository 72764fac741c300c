"""The C library's allocator, as a rank on a CPU wants it."""

from __future__ import annotations

import ctypes
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
