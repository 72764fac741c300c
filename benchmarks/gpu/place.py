"""Place: where the parts work and what they find there. No torch here: the first part has yet to see whether there is one."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / ".gpu-wheels"
WORK = ROOT / "build/gpu"
SOURCES = ("src/chronoscale", "benchmarks", "tests/cuda_ext", "CMakeLists.txt")
OWN = {"PYTHONUNBUFFERED": "1", "DASK_LOGGING__DISTRIBUTED": "warning"}  # what parts print comes when it is printed, and no more
KINDS = {".py", ".yaml", ".cu", ".cuh", ".cpp", ".h", ".txt"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where parts run.

    Attributes:
        out: Folder of the results; a part has a folder in it.
        device: "cuda", or "cpu" for a rehearsal on small sizes.
        work: What is kept from call to call.
    """

    out: Path
    device: str = "cuda"
    work: Path = WORK

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

    def earlier(self, part: str) -> Path:
        """Return the folder of a part's results that later calls find."""
        return self.work / "kept" / self.device / part

    def environment(self) -> dict[str, str]:
        """Return the environment of a part: these sources, these libraries and the carried packages, whatever else is installed."""
        there = [self.packages, ROOT / "src", ROOT / "benchmarks", *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        paths = os.pathsep.join(dict.fromkeys(str(path) for path in there if str(path)))
        return {**os.environ, "PYTHONPATH": paths, **OWN, "CHRONOSCALE_LIBRARY_DIR": str(self.libraries)}


def part_arguments(words: Sequence[str] | None = None) -> tuple[Place, list[str]]:
    """Return the place that a part's command is told, whose `out` is the part's own folder, and its other words."""
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=WORK / "results")
    parser.add_argument("--work", type=Path, default=Path(os.environ.get("CHRONOSCALE_GPU_WORK", WORK)))
    given = parser.parse_intermixed_args(words)
    return Place(given.out, given.device, given.work), given.words


def digest(*names: str) -> str:
    """Return the digest of the sources under these names, relative to the repository."""
    digest = hashlib.sha256()
    for name in names:
        top = ROOT / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.suffix in KINDS:
                digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


@cache
def sources() -> str:
    """Return the digest of all that the results depend on: a copy without its history has no commit."""
    return digest(*SOURCES)


@cache
def commit() -> str | None:
    """Return the commit of the sources; None in a copy without its history."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False) if shutil.which("git") else None
    return answer.stdout.strip() if answer is not None and answer.returncode == 0 else None
