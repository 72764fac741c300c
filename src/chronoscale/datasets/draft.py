"""A folder that is there whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chronoscale.errors import UserError


@contextmanager
def drafted(path: Path) -> Iterator[Path]:
    """A folder beside `path` that takes its name if the block succeeds, and goes if it does not. Raises UserError if `path` exists."""
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
