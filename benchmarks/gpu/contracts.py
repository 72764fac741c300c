"""Part contracts: the suite of the kernels on the device, and a count of what it really ran there."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from gpu.child import Failed, exit_code
from gpu.child import run as run_command
from gpu.place import Place, part_arguments

ABSENT = "could not import"  # a library to compare with, not the backend
CUDA_ALONE = "an argument of the CUDA kernels"  # what a rehearsal may skip
# Without the options of pyproject.toml, whose plugins need not be there.
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "--import-mode=importlib")
# Emulated kernels run on the CPU, in minutes, wherever the whole suite runs: here the device's time is short.
SUITE = ("tests/cuda_ext", "--ignore=tests/cuda_ext/test_emulation.py", "-k", "not emulated")


class Case(NamedTuple):
    """One case of a test; `state`: passed, skipped or failed, and `why`."""

    test: str
    parameters: frozenset[str]
    state: str
    why: str


def run(place: Place) -> None:
    """Print how many cases of each contract passed on the device.

    Raises Failed for a failure, for a contract that no case has held to on the device, and for a case that skipped the device.
    """
    report = place.out / "contracts.xml"
    code, printed = run_command([*PYTEST, f"--junitxml={report}", *SUITE], place.environment(), place.work / "contracts")
    print(printed, file=sys.stderr)
    if not report.exists():
        raise Failed(f"pytest ended with code {code} and left no report: {printed.strip()[-600:]}")
    cases = read(report)
    report.unlink()  # some MB
    print("| contract | cases on the device |\n|---|---|")
    for test, count in held(cases, place.device).items():
        print(f"| {test.removeprefix('tests.cuda_ext.')} | {count} |")
    if why := complaints(cases, place.device):
        raise Failed("; ".join(why))
    if code:
        raise Failed(f"pytest ended with code {code}")


def read(report: Path) -> list[Case]:
    """Return the cases of a JUnit report."""
    outcomes = []
    for case in ElementTree.parse(report).iter("testcase"):
        name, _, rest = str(case.get("name")).partition("[")
        skipped, wrong = case.find("skipped"), [*case.findall("failure"), *case.findall("error")]
        state = "failed" if wrong else "passed" if skipped is None else "skipped"
        reason = wrong[0] if wrong else skipped
        why = str(reason.get("message", "")) if reason is not None else ""
        outcomes.append(Case(f"{case.get('classname')}.{name}", frozenset(re.split(r"[-\]]", rest)), state, why))
    return outcomes


def held(cases: list[Case], backend: str) -> dict[str, int]:
    """Return how many cases passed on a backend, by contract: every test that passes on the reference is one."""
    contracts = {case.test for case in cases if "reference" in case.parameters and case.state == "passed"}
    passed = Counter(case.test for case in cases if backend in case.parameters and case.state == "passed")
    return {test: passed[test] for test in sorted(contracts)}


def complaints(cases: list[Case], backend: str) -> list[str]:
    """Return what is wrong with a run that was to hold every contract on a backend."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    allowed = ABSENT if backend == "cuda" else (ABSENT, CUDA_ALONE)
    for case in cases:
        if case.state == "failed":
            by_reason["failed"].append(f"{case.test}: {case.why[:200]}")
        if case.state == "skipped" and backend in case.parameters and not case.why.startswith(allowed):
            by_reason[f"skipped on {backend}"].append(f"{case.test}: {case.why[:200]}")
    counts = held(cases, backend)
    if not counts:
        by_reason["no contract"].append("no case passed on the reference")
    by_reason[f"never passed on {backend}"] += [test for test, count in counts.items() if not count]
    return [f"{len(names)} {what}: {', '.join(names[:5])}" for what, names in by_reason.items() if names]


if __name__ == "__main__":
    raise SystemExit(exit_code(lambda: run(part_arguments()[0])))
