"""Documents: files that people write in YAML, keys and values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from chronoscale.errors import UserError


def mapping(path: Path, kind: str, expected: str) -> dict[Any, Any]:
    """The keys and values of a file. Raises UserError in one line: the file, and what is wrong; `kind` and `expected` are for its words."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such {kind}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not readable ({error})") from error
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(data, dict):
        raise UserError(f"{path}: expected keys and values{expected}")
    return data
