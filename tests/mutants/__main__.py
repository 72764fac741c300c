"""Recorded faults against the suite: `python tests/mutants [NAME …]` seeds each in a copy and says which test notices it. See README.md.

Ends with 1 if a fault survives or cannot be seeded.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from all_faults import load
from anchor import Unfit
from fault import Fault
from judging import judge_all
from results import Result, append, counted, fingerprint_of, key_of, read_results
from selection import base_of, changed, drawn
from twin import ROOT, Twin

OBJECTS = ROOT / "build" / "mutants"


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python tests/mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="faults; all without any")
    parser.add_argument(
        "--changed", nargs="?", const="", metavar="REV", help="those that the working tree touches since REV (the merge base with main)"
    )
    parser.add_argument("--fast", action="store_true", help="let only tests judge that are not marked slow")
    parser.add_argument("--seed", metavar="TEXT", help="draw the order from a text")
    parser.add_argument("--sample", type=int, metavar="N", help="the first N of that order")
    parser.add_argument("--minutes", type=float, metavar="M", help="begin none after that time")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="keep results there, and judge nothing again that has one for the same sources"
    )
    parser.add_argument("--sound", action="store_true", help="the suite is known to pass: do not run tests without a fault first")
    parser.add_argument("--jobs", type=int, default=2, help="copies that work side by side (default 2)")
    parser.add_argument("--list", action="store_true", help="say what is wrong with each, and end")
    return parser


def chosen(given: argparse.Namespace) -> list[Fault]:
    faults = load(given.names)
    if given.changed is not None:
        faults = changed(faults, ROOT, given.changed or base_of(ROOT))
    if given.seed is not None or given.sample is not None:
        faults = drawn(faults, given.seed or "")
    return faults[: given.sample]


def say(result: Result) -> None:
    print(f"{result.fault:<52} {result.seconds:6.1f} s {result.verdict:<8} {result.by}", flush=True)


def run(faults: list[Fault], given: argparse.Namespace) -> list[Result]:
    tree = fingerprint_of(ROOT)
    keys = {fault.name: key_of(fault, tree, fast=given.fast) for fault in faults}
    known = read_results(given.out)
    results = [known[keys[fault.name]] for fault in faults if keys[fault.name] in known]
    left = [fault for fault in faults if keys[fault.name] not in known]
    if not left:
        return results

    def keep(result: Result) -> None:
        append(given.out, result)
        say(result)

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        twins = [Twin(Path(folder) / str(job), OBJECTS) for job in range(max(min(given.jobs, len(left)), 1))]
        try:
            return results + judge_all(left, twins, keys, keep, fast=given.fast, minutes=given.minutes, sound=given.sound)
        finally:
            for twin in twins:
                twin.close()


def main() -> int:
    given = parser().parse_args()
    try:
        faults = chosen(given)
    except Unfit as reason:
        print(f"error: {reason}", file=sys.stderr)
        return 2
    if given.list:
        for fault in faults:
            print(f"{fault.name:<52} {fault.file}: {fault.wrong}")
        return 0
    results = run(faults, given)
    wrong = {fault.name: fault.wrong for fault in faults}
    bad = [result for result in results if result.verdict != "noticed"]
    for result in bad:
        print(f"{result.fault} {result.verdict}: {result.by or wrong[result.fault]}")
    if results:
        print(f"CPU of tests a fault: {sum(result.cpu for result in results) / len(results):.2f} s")
    print(counted(results, len(faults)))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
