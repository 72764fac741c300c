"""Clock: waiting until a time, closer than a sleeper wakes."""

from __future__ import annotations

import time

from chronoscale.real_exec.ranks import positions

WATCHED = 100_000  # ns


def sleep_until(end: int) -> None:
    """ns, on the clock of `time.perf_counter_ns`; its last part is watched, as a sleeper wakes late."""
    positions.own_page().announce_sleep(end)
    while (left := end - time.perf_counter_ns()) > 0:
        if left > WATCHED:
            time.sleep((left - WATCHED) * 1e-9)
