"""Content: what files hold, as a digest: data of one path are the same only where their content is."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from chronoscale.harness.keys.experiment import Experiment

BLOCK, BLOCKS = 1 << 20, 64  # of a larger file, so many blocks are read, evenly spaced, the first and the last among them


def of_data(experiment: Experiment) -> dict[str, str]:
    """Digests of the experiment's files or folder of data, by path; nothing for a dataset by name, which its name and seed tell."""
    return {file: digest(Path(file)) for file in experiment.dataset.files if Path(file).exists()}


def digest(path: Path) -> str:
    """SHA-256 of the names, sizes and bytes of a file or of all files in a folder; of large ones, of `BLOCKS` blocks."""
    found = sha256()
    for file in sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]:
        size = file.stat().st_size
        found.update(f"{file.relative_to(path)} {size}\n".encode())
        with file.open("rb") as opened:
            if size <= BLOCK * BLOCKS:
                found.update(opened.read())
                continue
            for block in range(BLOCKS):
                opened.seek(block * (size - BLOCK) // (BLOCKS - 1))
                found.update(opened.read(BLOCK))
    return found.hexdigest()
