"""JSON files that are whole on disk at any time."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any


def write(path: Path, data: object) -> None:
    """Replace a file in one step, so that a reader or a killed writer never leaves half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(finite(data), indent=1, allow_nan=False) + "\n")
    os.replace(part, path)


def finite(value: Any) -> Any:
    """Return the value with null for each number that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite(one) for key, one in value.items()}
    return [finite(one) for one in value] if isinstance(value, (list, tuple)) else value
