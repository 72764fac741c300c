"""What is wrong with the archives that people install: `python tests/packages.py SDIST WHEEL [cpu] [cuda]`, as `make wheel` calls it.

The names are the libraries that the wheel has to hold. Ends with status 1 and a line for each fault.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

TAG = re.compile(r"py3-none-(manylinux_\d+_\d+_\w+)")
SMALL = 100  # bytes; files that are alike below it are alike by chance


def faults(sdist: Path, wheel: Path, libraries: list[str]) -> list[str]:
    """A sentence for each: contents doubled, missing or foreign, no licence, a tag that is not manylinux's."""
    with tarfile.open(sdist) as archive:
        sources = {member.name.partition("/")[2]: archive.extractfile(member) for member in archive if not member.isdir()}
        linked = [f"{sdist.name}: {name} is a link" for name, file in sources.items() if file is None]
        read = {name: file.read() for name, file in sources.items() if file is not None}
    problems = linked + [f"{sdist.name}: {names} are one file" for names in _alike(read)]
    if "LICENSE" not in read:
        problems.append(f"{sdist.name}: no licence")

    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        about = next((archive.read(name).decode() for name in names if name.endswith(".dist-info/WHEEL")), "")
    libraries_inside = {f"chronoscale/cuda_ext/libchronoscale_{library}.so" for library in libraries}
    expected = {name.removeprefix("src/") for name in read if name.startswith("src/")} | libraries_inside
    inside = {name for name in names if not name.endswith("/") and ".dist-info/" not in name}
    problems += [f"{wheel.name}: {name} is missing" for name in sorted(expected - inside)]
    problems += [f"{wheel.name}: {name} does not belong there" for name in sorted(inside - expected)]
    problems += [f"{wheel.name}: {name} is there {count} times" for name, count in Counter(names).items() if count > 1]
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
        problems.append(f"{wheel.name}: no licence")
    named, tags = TAG.search(wheel.name), re.findall(r"^Tag: (.+)$", about, re.MULTILINE)
    if named is None or tags != [named[0]]:
        problems.append(f"{wheel.name}: expected a manylinux tag, the same inside; inside: {tags}")
    return problems


def _alike(files: dict[str, bytes]) -> list[str]:
    named: dict[str, list[str]] = {}
    for name, content in files.items():
        if len(content) > SMALL:
            named.setdefault(hashlib.sha256(content).hexdigest(), []).append(name)
    return [", ".join(names) for names in named.values() if len(names) > 1]


if __name__ == "__main__":
    seen = faults(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
    sys.exit("\n".join(seen) or 0)
