"""The second tier: `python tests/everything [--stage NAME …] [--jobs N] [--minutes M --seed TEXT]`; `make test-all`.

Runs the units of all stages, some side by side. What came of each is kept in build/test-all/, by the digest of all files: what has
passed for these is not run again. With `--minutes` the units beyond the first tier come in an order drawn from the seed, until the minutes
are over; the one that is at work then is cut off, and is no failure. Ends with 1 if a unit failed.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stages import FIRST_TIER, STAGES
from unit import ROOT, Result, Unit, end_all

FOLDER = ROOT / "build" / "test-all"


def digest() -> str:
    """Return a digest of all files as they are, tracked or new, but for those that git ignores."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    sha = hashlib.sha256()
    for name in sorted(filter(None, listed.decode().split("\0"))):
        path = ROOT / name
        if path.is_file():
            sha.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return sha.hexdigest()[:16]


def drawn(units: Sequence[Unit], seed: str) -> list[Unit]:
    """Return the units in an order that the seed alone decides."""
    return sorted(units, key=lambda unit: hashlib.sha256(f"{seed}\0{unit.title}".encode()).digest())


def run(units: Sequence[Unit], folder: Path, jobs: int, ends: float) -> list[Result]:
    """Run what has not passed before; return the results of all that were run or had passed. `ends`: of time.monotonic."""
    folder.mkdir(parents=True, exist_ok=True)

    def one(unit: Unit) -> Result | None:
        earlier = unit.earlier_result(folder)
        if earlier is not None:
            return earlier
        if time.monotonic() >= ends:
            return None
        result = unit.run(folder, ends)
        print(f"{result.verdict:<8} {unit.title} ({result.passed} passed, {result.failed} failed, {result.cpu_s:.0f} s of CPU)", flush=True)
        return result

    with ThreadPoolExecutor(jobs) as pool:
        try:
            return [result for result in pool.map(one, units) if result is not None]
        except BaseException:  # this process is told to end
            pool.shutdown(wait=False, cancel_futures=True)
            end_all()
            raise


def table(results: Sequence[Result]) -> str:
    """Return one row a stage: units, tests that passed and failed, CPU and wall time of all."""
    lines = [f"{'stage':<12}{'units':>6}{'passed':>8}{'failed':>8}{'cut off':>9}{'CPU, s':>10}{'wall, s':>10}"]
    for stage in dict.fromkeys(result.stage for result in results):
        rows = [result for result in results if result.stage == stage]
        ended = [row for row in rows if row.code is not None]
        sums = [len(rows), sum(row.passed for row in ended), sum(row.failed for row in ended), len(rows) - len(ended)]
        spent = [sum(row.cpu_s for row in rows), sum(row.wall_s for row in rows)]
        lines.append(f"{stage:<12}{sums[0]:>6}{sums[1]:>8}{sums[2]:>8}{sums[3]:>9}{spent[0]:>10.0f}{spent[1]:>10.0f}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python tests/everything", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stage", nargs="+", choices=STAGES, help="all without any; with --minutes all but the first tier's")
    parser.add_argument("--jobs", type=int, default=2, help="units side by side (default 2)")
    parser.add_argument("--minutes", type=float, help="stop after so many")
    parser.add_argument("--seed", default="", help="of the order of units (with --minutes)")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    stages = given.stage or [name for name in STAGES if given.minutes is None or name not in FIRST_TIER]
    ends = math.inf if given.minutes is None else time.monotonic() + 60 * given.minutes
    units = [unit for name in stages for unit in STAGES[name]()]
    if given.minutes is not None:
        units = drawn(units, given.seed)
    folder = FOLDER / digest()
    results = run(units, folder, given.jobs, ends)
    print(f"\n{table(results)}\n\n{len(results)} of {len(units)} units; what each said: {folder.relative_to(ROOT)}")
    failed = [result for result in results if result.code not in (0, None)]
    for result in failed:
        print(f"FAILED: {result.stage} {result.name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
