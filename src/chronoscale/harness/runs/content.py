"""Content of files, as digests: data of one path are the same only where their content is."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

BLOCK, BLOCKS = 1 << 20, 64  # of a larger file, so many blocks are read, evenly spaced, the first and the last among them


def digests(files: Iterable[str]) -> dict[str, str]:
    """Return a digest of the content of each of an experiment's files or folders, by its path, for a run's record; absent ones are left
    out.
    """
    return {file: digest(Path(file)) for file in files if Path(file).exists()}


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, or of all files in a folder with their names and sizes, by which a run knows data that have changed.

    Of a large file `BLOCKS` blocks are read, evenly spaced.
    """
    hashed = sha256()
    for file in sorted(entry for entry in path.rglob("*") if entry.is_file()) if path.is_dir() else [path]:
        size = file.stat().st_size
        hashed.update(f"{file.relative_to(path)} {size}\n".encode())
        with file.open("rb") as opened:
            if size <= BLOCK * BLOCKS:
                hashed.update(opened.read())
                continue
            for block in range(BLOCKS):
                opened.seek(block * (size - BLOCK) // (BLOCKS - 1))
                hashed.update(opened.read(BLOCK))
    return hashed.hexdigest()
