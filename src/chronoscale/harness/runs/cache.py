"""Cache: what this machine has worked out once, in files named by all that it follows from."""

from __future__ import annotations

import os
from functools import cache
from hashlib import sha256
from pathlib import Path

from chronoscale import datasets

VARIABLE = "CHRONOSCALE_CACHE"


def cache_folder() -> Path:
    """$CHRONOSCALE_CACHE, else `chronoscale` in the user's folder of caches."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "chronoscale"


@cache
def code() -> str:
    """SHA-256 of the modules that read, generate and count datasets: what another version of them has counted is not taken."""
    found = sha256()
    for folder in sorted(datasets.__path__):
        for file in sorted(Path(folder).rglob("*.py")):
            found.update(f"{file.relative_to(folder)}\n".encode() + file.read_bytes())
    return found.hexdigest()
