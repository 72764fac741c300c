"""Place: where the parts work and what they find there. No torch here: the first part has yet to see whether there is one."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / ".gpu-wheels"
SOURCES = ("src/chronoscale", "benchmarks/core", "benchmarks/gpu", "benchmarks/rivals", "tests/cuda_ext", "CMakeLists.txt")
OWN = {"PYTHONUNBUFFERED": "1", "DASK_LOGGING__DISTRIBUTED": "warning"}  # what parts print comes when it is printed, and no more
KINDS = {".py", ".yaml", ".cu", ".cuh", ".cpp", ".h", ".txt"}


@dataclass(frozen=True, slots=True)
class Place:
    """`out`: folder of the results. `device`: "cuda", or "cpu" for a rehearsal on small sizes. `work`: what is kept from call to call."""

    out: Path
    device: str = "cuda"
    work: Path = ROOT / "build/gpu"

    @property
    def rehearsal(self) -> bool:
        return self.device == "cpu"

    @property
    def libraries(self) -> Path:
        """Where the native libraries are built to."""
        return self.work / "lib"

    @property
    def packages(self) -> Path:
        """Where the carried wheels are unpacked."""
        return self.work / "packages"

    def environment(self) -> dict[str, str]:
        """Of the processes of a part: these sources, these libraries and the carried packages, whatever else is installed."""
        there = [self.packages, ROOT / "src", ROOT / "benchmarks", *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        paths = os.pathsep.join(dict.fromkeys(str(path) for path in there if str(path)))
        return {**os.environ, "PYTHONPATH": paths, **OWN, "CHRONOSCALE_LIBRARY_DIR": str(self.libraries)}

    def log(self, part: str) -> Path:
        """What the commands of a part said, as they said it."""
        return self.work / "logs" / f"{part}.log"

    def result(self, part: str) -> Path:
        """The JSON of a part that runs now."""
        return self.out / f"{part}.json"

    def found(self, part: str) -> Path | None:
        """The JSON of a part that ran: in `out`, or kept from an earlier call with another."""
        return next((path for path in (self.result(part), self.kept(part)) if path.exists()), None)

    def kept(self, part: str) -> Path:
        """Its copy for later calls."""
        return self.work / "kept" / self.device / f"{part}.json"


def digest(*names: str) -> str:
    """Of the sources under these names, relative to the repository: equal sources have equal digests."""
    digest = hashlib.sha256()
    for name in names:
        top = ROOT / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.suffix in KINDS:
                digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


@cache
def sources() -> str:
    """Digest of all that the results depend on: a copy without its history has no commit."""
    return digest(*SOURCES)


@cache
def commit() -> str | None:
    """Of the sources; None in a copy without its history."""
    try:
        done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
