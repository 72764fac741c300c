"""`make gpu`, or PYTHONPATH=benchmarks python3 -m gpu: run the parts; docs/gpu.md."""

from __future__ import annotations

import argparse
import math
import signal
import sys
from pathlib import Path

from gpu.parts import PARTS
from gpu.place import WORK, Place
from gpu.runner import run, write_tables

ENDING = (signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    """Run the parts that are asked for, and return the exit code."""
    parser = argparse.ArgumentParser(prog="gpu", description="what a machine with a GPU is asked, part by part; docs/gpu.md")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}; commas between")
    parser.add_argument("--out", type=Path, default=WORK / "results")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a rehearsal of every part on small sizes")
    parser.add_argument("--work", type=Path, default=WORK, help="what is kept from call to call")
    parser.add_argument("--minutes", type=float, default=math.inf, help="what all parts may take together")
    parser.add_argument("--fresh", action="store_true", help="run again what was done on this device with these sources")
    parser.add_argument("--tables", action="store_true", help="make tables.md from the folders in --out, and run nothing")
    given = parser.parse_args()
    place = Place(given.out.absolute(), given.device, given.work.absolute())
    if given.tables:
        print(write_tables(place))
        return 0
    chosen = [name for name in given.parts.split(",") if name]
    if unknown := [name for name in chosen if name not in PARTS]:
        parser.error(f"no such part: {', '.join(unknown)}; valid: {', '.join(PARTS)}")
    for one in ENDING:
        signal.signal(one, _end)
    return run(chosen, place, given.fresh, given.minutes)


def _end(number: int, frame: object) -> None:
    """End the part that runs and put in order what was found: once, however often this process is told to end."""
    for one in ENDING:
        signal.signal(one, signal.SIG_IGN)
    sys.exit(128 + number)


if __name__ == "__main__":
    raise SystemExit(main())
