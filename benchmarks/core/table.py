"""Tables: a result on the terminal, as Markdown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from core.result import Entry

HEAD = ("case", "contestant", "median", "min", "max", "of the first's time", "other figures")
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def line(cells: Iterable[object]) -> str:
    """Return a row of Markdown."""
    return f"| {' | '.join(map(str, cells))} |"


def head(cells: Sequence[str] = HEAD) -> str:
    """Return the first two lines of a table."""
    return f"{line(cells)}\n|{'---|' * len(cells)}"


def rows(entries: Sequence[Entry]) -> list[str]:
    """Return a line for each contestant of one case; the first is what others are compared with, pass by pass."""
    lines = []
    for entry in entries:
        stats, others = entry.stats(), [key for key in entry.figures if key != "seconds"]
        figures = ", ".join(f"{key} {spread(entry.figures[key])}" for key in others)
        relative = spread(ratios(entry.figures["seconds"], entries[0].figures["seconds"])) if entry is not entries[0] else "1"
        times = (duration(value) for value in (stats.median, stats.min, stats.max))
        lines.append(line((entry.case, entry.contestant, *times, relative, figures)))
    return lines


def ratios(times: Sequence[float], base: Sequence[float]) -> list[float]:
    """Return times over those of the same passes, or medians where there are not as many."""
    pairs = zip(times, base, strict=True) if len(times) == len(base) else [(statistics.median(times), statistics.median(base))]
    return [one / other if other else math.nan for one, other in pairs]


def spread(values: Sequence[float]) -> str:
    """Return the median, and the range where there is one."""
    known = [value for value in values if value is not None and not math.isnan(value)]
    if not known:
        return "–"
    low, middle, high = (f"{value:,.4g}" for value in (min(known), statistics.median(known), max(known)))
    return middle if low == high else f"{middle} ({low} to {high})"


def duration(seconds: float) -> str:
    """Return seconds in the largest unit in which they are at least 1."""
    size, unit = next((one for one in UNITS if seconds >= one[0]), UNITS[-1])
    return f"{seconds / size:.4g} {unit}"
