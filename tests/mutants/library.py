"""The library of the CPU kernels from a copy's sources, each object file kept by what it is made of."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

from anchor import Unfit

# One copy of the row kernels, for any machine: a few seconds, where the real build makes three with all optimisations.
COMPILE = "g++ -std=c++17 -O1 -fPIC -fvisibility=hidden -ffp-contract=off -fopenmp-simd -DCS_ISA=baseline -DCS_VECTOR=16 -pthread"
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def content_of(path: Path, seen: set[Path]) -> bytes:
    """A source with all that it includes by quotes."""
    if path in seen or not path.is_file():
        return b""
    seen.add(path)
    text = path.read_bytes()
    return text + b"".join(content_of((path.parent / name.decode()).resolve(), seen) for name in INCLUDE.findall(text))


def build(sources: list[Path], object_folder: Path, out: Path) -> None:
    """Compile what `kept` has no object file of, and link. Raises Unfit where that fails."""
    object_folder.mkdir(parents=True, exist_ok=True)
    objects = []
    for source in sorted(sources):
        key = hashlib.sha256(COMPILE.encode() + content_of(source.resolve(), set())).hexdigest()
        objects.append(object_folder / f"{source.stem}-{key[:24]}.o")
        if not objects[-1].exists():
            part = objects[-1].with_suffix(f".{os.getpid()}-{out.stat().st_ino}")
            _run([*COMPILE.split(), "-c", str(source), "-o", str(part)])
            part.replace(objects[-1])
    part = out.with_suffix(".new")
    _run([*COMPILE.split(), "-shared", *map(str, objects), "-o", str(part)])
    part.replace(out)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Unfit(f"does not compile: {done.stderr.splitlines()[0]}")
