"""JSON files that are whole on disk at any time, with a line for each item of a list, so that versions can be compared."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DIGITS = 6  # of a number, significant ones


def write(path: Path, data: Mapping[str, object]) -> None:
    """Replace a file in one step, so that a reader or a killed writer never leaves half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    entries = ",\n".join(f"{json.dumps(key)}: {_lines(rounded(value))}" for key, value in data.items())
    part.write_text(f"{{\n{entries}\n}}\n")
    os.replace(part, path)


def _lines(value: Any) -> str:
    """Return JSON; a list of dictionaries with a line for each of them."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(json.dumps(one, ensure_ascii=False) for one in value) + "\n]"
    return json.dumps(value, ensure_ascii=False)


def rounded(value: Any) -> Any:
    """Return the value with DIGITS digits of every float, and null for each number that JSON does not have."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, (list, tuple)) else value
