"""Atomic writes: files and folders that exist complete or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from chronoscale.errors import UserError


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under the name `path` only once the block has ended without an error; else nothing has changed.
    For what is computed of a dataset and saved beside it: several processes may write the same file, and the last one wins."""
    draft = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        with draft.open("wb") as file:
            yield file
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Make a temporary folder beside `path`, which gets the name `path` if the block succeeds and is deleted if it fails: so datasets are
    stored whole or not at all. Yields the temporary folder. Raises UserError if `path` exists."""
    if path.exists():
        raise UserError(f"{path}: already exists")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        yield draft
        draft.chmod(0o755)
        os.rename(draft, path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
