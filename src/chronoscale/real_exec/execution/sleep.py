"""Sleep: waiting until a point in time, more precisely than `time.sleep` wakes."""

from __future__ import annotations

import time

from chronoscale.real_exec.ranks import positions

WATCHED = 100_000  # ns


def sleep_until(end: int) -> None:
    """Wait until `end`, ns of `time.perf_counter_ns`, while a rank plays a slower bus or network: asleep, but for the last 100 µs, which
    poll the clock.

    The launcher that watches the ranks is told, so that it does not take the rank to hang.
    """
    positions.own_page().announce_sleep(end)
    while (left := end - time.perf_counter_ns()) > 0:
        if left > WATCHED:
            time.sleep((left - WATCHED) * 1e-9)
