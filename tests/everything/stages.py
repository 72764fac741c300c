"""Stages: the units of each part of `make test-all`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

from unit import ROOT, Unit

PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
UNMEASURED = ("-p", "no:budget")  # dear on purpose
PAPERS = ("real", "pgt-i", "fast", "flaredtdg", "memshare")
ATTEMPTS, AT_ONCE = 10_000, 2_000
TOGETHER = 10  # faults


def check() -> Iterator[Unit]:
    """Ruff and mypy."""
    places = ("src", "tests", "benchmarks", "tools", "examples")
    yield Unit("check", "ruff", (sys.executable, "-m", "ruff", "check", *places))
    yield Unit("check", "ruff format", (sys.executable, "-m", "ruff", "format", "--check", *places))
    yield Unit("check", "mypy", (sys.executable, "-m", "mypy"))


def fast() -> Iterator[Unit]:
    """The first tier, as `make test` runs it."""
    yield Unit("fast", "", (*PYTEST, "-n", "2", "--dist", "loadfile", "-m", "not slow"))


def _files_of(mark: str) -> list[str]:
    """Files with tests of that mark, however they came by it. Raises CalledProcessError where there are none."""
    listing = subprocess.run([*PYTEST, "--collect-only", "-qq", "-m", mark], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return [line.rpartition(":")[0] for line in listing.stdout.splitlines() if line.startswith("tests/")]


def slow() -> Iterator[Unit]:
    """The tests that are marked slow, a file at a time."""
    for file in _files_of("slow"):
        yield Unit("slow", file, (*PYTEST, *UNMEASURED, "-m", "slow", file))


def full() -> Iterator[Unit]:
    """The tests that draw examples, with many of them, a file at a time."""
    for file in _files_of("hypothesis"):
        yield Unit("full", file, (*PYTEST, *UNMEASURED, "-m", "hypothesis", file), {"HYPOTHESIS_PROFILE": "full"})


def fuzz() -> Iterator[Unit]:
    """Attempts at spoilt inputs."""
    for file in sorted((ROOT / "tests" / "fuzz").glob("*.py")):
        if "\ndef attempt(" in file.read_text(encoding="utf-8"):
            for first in range(0, ATTEMPTS, AT_ONCE):
                command = (sys.executable, "tests/fuzz", file.stem, "--first", str(first), "--count", str(AT_ONCE))
                yield Unit("fuzz", f"{file.stem} from {first}", command)


def sanitizers() -> Iterator[Unit]:
    """The kernels under the address sanitizer, the CPU library under the thread sanitizer."""
    yield Unit("sanitizers", "address", (sys.executable, "tests/emulation"))
    yield Unit("sanitizers", "threads", ("make", "sanitize-threads"))


def studies() -> Iterator[Unit]:
    """The papers' figures and tables that are executed on this machine."""
    for paper in PAPERS:
        listing = subprocess.run([sys.executable, "-m", "chronoscale", "reproduce", paper, "--json"], stdout=subprocess.PIPE, check=True)
        for row in json.loads(listing.stdout):
            if row["how"] == "executed":
                command = (sys.executable, "-m", "chronoscale", "reproduce", paper, *row["what"].split(), "--out", "build/test-all/studies")
                yield Unit("studies", f"{paper} {row['what']}", command)


def faults() -> Iterator[Unit]:
    """The recorded faults, a few of them at a time; what is judged is not judged again for the same sources."""
    listing = subprocess.run([sys.executable, "tests/mutants", "--list"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    names = [line.split()[0] for line in listing.stdout.splitlines()]
    for first in range(0, len(names), TOGETHER):
        some = names[first : first + TOGETHER]
        command = (sys.executable, "tests/mutants", "--jobs", "1", "--out", "build/mutants.jsonl", *some)
        yield Unit("faults", f"{some[0]} and {len(some) - 1} more", command)


STAGES: dict[str, Callable[[], Iterator[Unit]]] = {
    made.__name__: made for made in (check, fast, slow, full, fuzz, sanitizers, studies, faults)
}
FIRST_TIER = ("check", "fast")
