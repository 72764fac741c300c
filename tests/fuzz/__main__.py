"""Fuzzing by hand: `python tests/fuzz TARGET [--count N] [--seed S] [--first I]`. Ends with 1 if an attempt went wrong."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # tests/, as pytest has it

from fuzz.attempts import faults, targets  # noqa: E402 (after the path)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/fuzz", description=__doc__)
    parser.add_argument("target", choices=targets())
    parser.add_argument("--count", type=int, default=1000, help="attempts (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of all of them (default 0)")
    parser.add_argument("--first", type=int, default=0, help="number of the first (default 0)")
    given = parser.parse_args()
    wrong = 0
    for fault in faults(given.target, given.seed, range(given.first, given.first + given.count)):
        if fault is not None:
            wrong += 1
            print(f"attempt {fault.number}: {fault.problem.rstrip()}", flush=True)
    print(f"{given.target}: {given.count - wrong} of {given.count} attempts held (seed {given.seed})")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
