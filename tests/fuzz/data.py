"""Data files: a sample of a reader, spoilt, reads or is refused in one line that names the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.errors import UserError

SAMPLES = {"plain.txt": b"1 2 5\n2 1000000 6\n"}


def attempt(generator: np.random.Generator, folder: Path) -> str | None:
    name, content = list(SAMPLES.items())[generator.integers(len(SAMPLES))]
    spoilt = bytearray(content)
    spoilt[generator.integers(len(spoilt))] = generator.integers(256)
    path = folder / name
    path.write_bytes(spoilt)
    try:
        open_dataset(path)
    except UserError as error:
        return None if str(path) in str(error) else f"does not name the file: {error}"
    return None
