"""Numbers as a reader sees them: rounded to a few digits, with a unit."""

from __future__ import annotations

import math

MISSING, INFINITE = "–", "∞"


def number(value: float, digits: int = 4) -> str:
    """Return a number as a report shows it: `digits` significant digits, no exponent where that is short; '–' for NaN, '∞' for infinity."""
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return INFINITE if value > 0 else f"-{INFINITE}"
    if value == 0:
        return "0"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return (
        f"{value:.{digits - 1}e}" if not -5 <= exponent < 9 else f"{round(value, digits - 1 - exponent):.{max(digits - 1 - exponent, 0)}f}"
    )


def size(value: float) -> str:
    """Return a number of bytes as a report shows it: in B, kB, MB, GB or TB (decimal), three significant digits."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{number(value, 3)} {unit}"


def around(value: float, spread: float = 0.0) -> str:
    """Return a number and its spread as a report shows them, such as '1.23 ± 0.04'; no ± without spread.

    Three significant digits; the spread to the same decimals, or one digit where it is smaller.
    """
    text = number(value, 3)
    if not spread or not math.isfinite(spread):
        return text
    decimals = len(text.partition(".")[2])
    return f"{text} ± {number(spread, 1) if round(spread, decimals) == 0 else f'{spread:.{decimals}f}'}"


def seconds(value: float, spread: float = 0.0) -> str:
    """Return seconds and their spread as a report shows them: in s, ms or µs, three significant digits."""
    scale, unit = next(((s, u) for s, u in ((1, "s"), (1e3, "ms")) if not 0 < abs(value) * s < 1), (1e6, "µs"))
    return f"{around(value * scale, spread * scale)} {unit}"
