"""Record: a part's JSON file, whole on disk whenever something is added, so that a part that is cut off loses nothing."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core import json_file

PASSED, FAILED, RUNNING, CUT_OFF, NO_DEVICE = "passed", "failed", "running", "cut off", "no device"


class Failed(Exception):
    """What a part ends with that did not pass; its text says why."""


class NoDevice(Failed):
    """There is no GPU."""


class Wrong(list[str]):
    """What went wrong in a part: it stops nothing that comes after it, and the part fails in the end."""

    @contextmanager
    def kept(self, what: str, tell: Callable[[str], None] = lambda why: None) -> Iterator[None]:
        """An exception inside ends what is inside alone; `tell` hears of it, too."""
        try:
            yield
        except Exception as error:
            traceback.print_exc()
            why = f"{type(error).__name__}: {str(error)[:200]}"
            self.append(f"{what}: {why}")
            tell(why)

    def raise_any(self, said: str, shown: int = 5) -> None:
        """Raises Failed with how many there are, `said`, and the first of them; nothing for none."""
        if self:
            raise Failed(f"{len(self)} {said}: {'; '.join(self[:shown])}")


class Record:
    """`data` is what the file holds."""

    def __init__(self, path: Path, **head: Any) -> None:
        self.path, self.data = path, dict(head)
        self._write()

    @classmethod
    def read(cls, path: Path) -> dict[str, Any]:
        """What a file holds."""
        content: dict[str, Any] = json.loads(path.read_text())
        return content

    def put(self, **found: Any) -> None:
        """Set keys."""
        self.data.update(found)
        self._write()

    def add(self, key: str, row: Any) -> None:
        """One more row of a list."""
        self.data.setdefault(key, []).append(row)
        self._write()

    def _write(self) -> None:
        json_file.write(self.path, self.data)
