"""Judging: faults in batches, side by side in copies, until a time is up. The tests of a batch run without any fault first.

A fault that no test notices gets a second try: as many drawn examples as in the second tier.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

from anchor import Unfit
from fault import Fault
from results import Result
from twin import Twin, Verdict

BATCH = 12


def judge(fault: Fault, twin: Twin, unsound: set[str], key: str, *, fast: bool) -> Result:
    """What noticed the fault, or why nothing did."""
    verdict = Verdict([], False, 0, 0, 0.0, 0.0)
    tests = fault.tests.split()
    try:
        if bad := [name for name in unsound if any(name.startswith(test) for test in tests)]:
            raise Unfit(f"without any fault {bad[0]} fails in the copy")
        with twin.seeded(fault):
            verdict = twin.test(tests, fast=fast)
            if not fast and verdict.passed and not verdict.failed:
                verdict = twin.test(tests, full=True)
        if verdict.failed:
            verdict_word, by = "noticed", verdict.failed[0].removeprefix("tests/")
        elif verdict.skipped and not verdict.passed:
            raise Unfit("its tests are skipped here")
        else:
            verdict_word, by = "survives", "" if verdict.passed else "all its tests are slow" if fast else "no test ran"
    except Unfit as reason:
        verdict_word, by = "unfit", str(reason)
    return Result(fault.name, verdict_word, by, verdict_word == "noticed" and not verdict.slow, verdict.seconds, verdict.cpu, key)


def judge_batch(batch: list[Fault], twin: Twin, keys: dict[str, str], *, fast: bool, until: float, sound: bool) -> Iterator[Result]:
    """Results one by one. Before them the batch's tests run as they are, unless the whole suite is known to pass (`sound`)."""
    tests = sorted({test for fault in batch for test in fault.tests.split()})
    with twin.built() if any(fault.native for fault in batch) and not sound else nullcontext():
        unsound = set() if sound else set(twin.test(tests, fast=fast, every=True).failed)
    for fault in batch:
        if time.monotonic() >= until:
            return
        yield judge(fault, twin, unsound, keys[fault.name], fast=fast)


def batches(faults: list[Fault], size: int = BATCH) -> Iterator[list[Fault]]:
    for at in range(0, len(faults), size):
        yield faults[at : at + size]


def judge_all(
    faults: list[Fault],
    twins: list[Twin],
    keys: dict[str, str],
    on_result: Callable[[Result], None],
    *,
    fast: bool,
    minutes: float | None,
    sound: bool,
) -> list[Result]:
    """All results that there are when the time is up; the fault that is being judged then is judged to its end."""
    until = time.monotonic() + 60 * minutes if minutes is not None else float("inf")
    work = batches(faults)
    lock, verdicts = threading.Lock(), []

    def run(twin: Twin) -> None:
        while time.monotonic() < until:
            with lock:
                batch = next(work, None)
            if batch is None:
                return
            for result in judge_batch(batch, twin, keys, fast=fast, until=until, sound=sound):
                with lock:
                    verdicts.append(result)
                    on_result(result)

    with ThreadPoolExecutor(len(twins)) as pool:
        for done in [pool.submit(run, twin) for twin in twins]:
            done.result()
    return verdicts
