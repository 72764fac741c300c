"""Findings: what a GPU would have minded, by kind, and by the lines of the package that did it."""

from __future__ import annotations

import sys
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import chronoscale

SOURCES = f"{Path(chronoscale.__file__).parent}/"
DEPTH = 3  # lines of the package, the innermost first


class Kind(StrEnum):
    """The kinds of faults that a GPU would meet."""

    RACE = "race"  # two streams, or a stream and the host, use the same bytes in no order, and one of them writes
    UNMARKED = "read after free"  # another stream's memory, of which the allocator was not told (record_stream)
    UNPINNED = "not pinned"  # a copy that should not wait, of memory from which it does
    WAIT = "host waits"  # while it issues rows
    MIXED = "devices mixed"
    CAPTURE = "not to be captured"  # what a capture forbids, or a graph that uses what is not there any more


class Finding(NamedTuple):
    """A fault: `detail`, the operation and what it met; `place`, the lines of the package that were running."""

    kind: Kind
    detail: str
    place: str


class Findings(Counter[Finding]):
    """The faults found, each with how often it was seen."""

    def add(self, kind: Kind, detail: str, place: str | None = None) -> None:
        """Count a fault, by default at the line of the package that is running."""
        self[Finding(kind, detail, here() if place is None else place)] += 1

    def of(self, kind: Kind) -> list[Finding]:
        """Return the faults of a kind."""
        return [finding for finding in self if finding.kind is kind]

    def __str__(self) -> str:
        return "\n".join(f"{count} x {kind}: {detail}, at {place}" for (kind, detail, place), count in sorted(self.items()))


def here() -> str:
    """Return the innermost lines of the package that are running."""
    frame, lines = sys._getframe(1), list[str]()
    while frame is not None and len(lines) < DEPTH:
        if (file := frame.f_code.co_filename).startswith(SOURCES):
            lines.append(f"{file.removeprefix(SOURCES)}:{frame.f_lineno}")
        frame = frame.f_back  # type: ignore[assignment]
    return " < ".join(lines)
