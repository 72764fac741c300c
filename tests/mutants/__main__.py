"""Seeded faults against the suite: `python tests/mutants [NAME …] [--jobs N]` applies each in a copy and prints which tests notice it.

First the tests of all chosen faults must pass in the copy as it is. Ends with 1 if a fault survives or cannot be seeded. Run by hand: the
faults stand in `faults/`, a file a room of the package.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from fault import Fault, Unfit, load
from twin import Twin

SURVIVES = "SURVIVES"


def judged(fault: Fault, twins: SimpleQueue[Twin]) -> str:
    """What killed the fault, or why nothing did; printed as one line."""
    twin, seconds = twins.get(), 0.0
    try:
        with twin.seeded(fault):
            verdict = twin.test(fault.tests.split())
        seconds, found = verdict.seconds, verdict.killed or SURVIVES
    except Unfit as reason:
        found = f"DOES NOT APPLY: {reason}"
    finally:
        twins.put(twin)
    print(f"{fault.name:<44} {seconds:6.1f} s  {found}", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="faults; all without any")
    parser.add_argument("--jobs", type=int, default=2, help="copies that work side by side (default 2)")
    parser.add_argument("--list", action="store_true", help="say what is wrong with each, and end")
    given = parser.parse_args()
    try:
        faults = load(given.names)
    except Unfit as reason:
        print(f"error: {reason}", file=sys.stderr)
        return 2
    if given.list:
        for fault in faults:
            print(f"{fault.name:<44} {fault.file}: {fault.wrong}")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        twins: SimpleQueue[Twin] = SimpleQueue()
        for job in range(max(min(given.jobs, len(faults)), 1)):
            twins.put(Twin(Path(folder) / str(job)))
        first = twins.get()
        if any(fault.native for fault in faults):
            first.build()
        tests = sorted({test for fault in faults for test in fault.tests.split()})
        try:
            sound = first.test(tests)
        except Unfit as reason:
            print(f"error: without any fault {reason}", file=sys.stderr)
            return 2
        if sound.killed:
            print(f"error: without any fault {sound.killed} fails in the copy", file=sys.stderr)
            return 2
        print(f"{len(tests)} tests pass in the copy as it is, {sound.seconds:.1f} s", flush=True)
        twins.put(first)
        with ThreadPoolExecutor(given.jobs) as pool:
            found = list(pool.map(lambda fault: judged(fault, twins), faults))
    left = [fault for fault, said in zip(faults, found, strict=True) if said == SURVIVES or said.startswith("DOES NOT APPLY")]
    for fault in left:
        print(f"{fault.name}: {fault.wrong}")
    print(f"{len(faults) - len(left)} of {len(faults)} faults are noticed")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
