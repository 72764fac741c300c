"""Record: a part's JSON file, whole on disk whenever something is added, so that a part that is cut off loses nothing."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

PASSED, FAILED, RUNNING, CUT_OFF, NO_DEVICE = "passed", "failed", "running", "cut off", "no device"


class Failed(Exception):
    """What a part ends with that did not pass; its text says why."""


class NoDevice(Failed):
    """There is no GPU."""


class Record:
    """`data` is what the file holds."""

    def __init__(self, path: Path, **head: Any) -> None:
        self.path, self.data = path, dict(head)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._write()

    @classmethod
    def read(cls, path: Path) -> dict[str, Any]:
        """What a file holds."""
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def put(self, **found: Any) -> None:
        """Set keys."""
        self.data.update(found)
        self._write()

    def add(self, key: str, row: Any) -> None:
        """One more row of a list."""
        self.data.setdefault(key, []).append(row)
        self._write()

    def _write(self) -> None:
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(finite(self.data), indent=1, allow_nan=False) + "\n")
        os.replace(part, self.path)


def finite(value: Any) -> Any:
    """What JSON has no number for becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite(one) for key, one in value.items()}
    return [finite(one) for one in value] if isinstance(value, (list, tuple)) else value
