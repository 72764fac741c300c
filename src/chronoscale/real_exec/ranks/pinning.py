"""Pinning: cores of its own for every rank of a machine, where there are enough."""

from __future__ import annotations

import os


def share(ranks: int, threads: int) -> int:
    """Cores that each of several ranks has to itself; 0 where they are not told apart: one rank has all, and so have ranks that would not
    find a core for each of their `threads` and one more, on which their process group and a second lane run."""
    each = len(os.sched_getaffinity(0)) // ranks
    return each if ranks > 1 and each > threads else 0


def pin(rank: int, ranks: int, threads: int) -> None:
    """Keep this process, and the threads that it will start, to its own cores, if it is to have any: a rank that moves to another's core
    loses its caches and holds the other up."""
    if each := share(ranks, threads):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[rank * each : (rank + 1) * each])
