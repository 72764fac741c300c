"""NumPy archives (.npz), read whole, with one clear line for a file that is missing or damaged."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.errors import UserError


def read_archive(path: str | Path) -> dict[str, NDArray[Any]]:
    """All arrays of a .npz by key. Raises UserError naming a file that is missing, truncated or something else."""
    try:
        with Path(path).open("rb") as file:
            content = np.load(file, allow_pickle=False)
            if not isinstance(content, np.lib.npyio.NpzFile):
                raise UserError(f"{path}: not a .npz archive")
            return {key: content[key] for key in content.files}
    except (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:  # RuntimeError: encrypted, unsupported
        raise UserError(f"{path}: truncated or not a .npz archive ({error})") from None
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or 'not readable').lower()}") from None
