"""Results: one JSON line for each judged fault, with the fingerprint of what the verdict depends on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from fault import Fault


@dataclass(frozen=True, slots=True)
class Result:
    """`verdict`: `noticed`, `survives` or `unfit`; `by`: the test that failed first, or the reason.
    `fast`: whether a test of the fast tier did."""

    fault: str
    verdict: str
    by: str
    fast: bool
    seconds: float
    cpu: float
    fingerprint: str


def fingerprint_of(root: Path) -> str:
    """A hash of the package and its tests; the recorded faults, and what judges them, are no part of it."""
    digest = hashlib.sha256()
    for room in ("src", "tests"):
        for path in sorted((root / room).rglob("*")):
            name = path.relative_to(root)
            if path.is_file() and "__pycache__" not in name.parts and "mutants" not in name.parts and path.suffix not in (".so", ".pyc"):
                digest.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def key_of(fault: Fault, tree: str, *, fast: bool) -> str:
    return hashlib.sha256(f"{tree} {fast} {fault}".encode()).hexdigest()[:16]


def read_results(path: Path | None) -> dict[str, Result]:
    """Results by fingerprint. A last line that was cut off is left out."""
    verdicts = {}
    for line in path.read_text().split("\n") if path and path.exists() else []:
        try:
            result = Result(**json.loads(line))
        except ValueError:
            continue
        verdicts[result.fingerprint] = result
    return verdicts


def append(path: Path | None, result: Result) -> None:
    if path:
        with path.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")


def counted(results: list[Result], total: int) -> str:
    """What the run ends with."""
    noticed = [result for result in results if result.verdict == "noticed"]
    left = f"; {total - len(results)} not judged" if len(results) < total else ""
    return f"{len(noticed)} of {len(results)} noticed (fast tier: {sum(result.fast for result in noticed)}){left}"
