"""`make gpu`, or PYTHONPATH=benchmarks python3 -m gpu: run the parts, one process each; print the tables."""

from __future__ import annotations

import argparse
import math
import signal
import sys
from importlib import import_module
from pathlib import Path

from gpu.parts import PARTS
from gpu.place import Place
from gpu.runner import end_with_runner, run
from gpu.tables import write

ENDING = (signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    parser = argparse.ArgumentParser(prog="gpu", description="what a machine with a GPU is asked, part by part; docs/gpu.md")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}; commas between")
    parser.add_argument("--out", type=Path, default=Path("build/gpu/results"))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a rehearsal of every part on small sizes")
    parser.add_argument("--work", type=Path, default=Path("build/gpu"), help="what is kept from call to call")
    parser.add_argument("--minutes", type=float, default=math.inf, help="what all parts may take together")
    parser.add_argument("--fresh", action="store_true", help="run again what was done on this device with these sources")
    parser.add_argument("--tables", action="store_true", help="make tables.md from the JSON files in --out, and run nothing")
    parser.add_argument("--only", choices=PARTS, help=argparse.SUPPRESS)  # this process is a part's
    given = parser.parse_args()
    place = Place(given.out.absolute(), given.device, given.work.absolute())
    if given.tables:
        print(write(place))
        return 0
    if given.only:
        end_with_runner()
        started: int = import_module("gpu.started").start(given.only, place)  # imported now: the runner does without torch
        return started
    chosen = [name for name in given.parts.split(",") if name]
    if unknown := [name for name in chosen if name not in PARTS]:
        parser.error(f"no such part: {', '.join(unknown)}; valid: {', '.join(PARTS)}")
    for one in ENDING:
        signal.signal(one, _end)
    return run(chosen, place, given.fresh, given.minutes)


def _end(number: int, frame: object) -> None:
    """The part that runs ends with this process, and what was found is put in order: once, however often it is asked for."""
    for one in ENDING:
        signal.signal(one, signal.SIG_IGN)
    sys.exit(128 + number)


if __name__ == "__main__":
    raise SystemExit(main())
