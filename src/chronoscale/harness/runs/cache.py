"""Cache: the folder of what this machine has computed once, in files named by all that it follows from."""

from __future__ import annotations

import os
from functools import cache
from hashlib import sha256
from pathlib import Path

from chronoscale import datasets

VARIABLE = "CHRONOSCALE_CACHE"


def cache_folder() -> Path:
    """Return the folder where commands keep what this machine has computed once, such as counts of snapshots.

    It is $CHRONOSCALE_CACHE, else `chronoscale` in the user's folder of caches.
    """
    if named := os.environ.get(VARIABLE):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "chronoscale"


@cache
def code_digest() -> str:
    """Return the SHA-256 of this software's modules that read, generate and count datasets, by which cached counts of other versions are
    not taken.
    """
    hashed = sha256()
    for folder in sorted(datasets.__path__):
        for file in sorted(Path(folder).rglob("*.py")):
            hashed.update(f"{file.relative_to(folder)}\n".encode() + file.read_bytes())
    return hashed.hexdigest()
