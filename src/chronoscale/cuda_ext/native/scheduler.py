"""Scheduler: the library whose functions on snapshot groups run. Planning needs no torch, and neither does this."""

from __future__ import annotations

import warnings
from ctypes import CDLL
from functools import cache
from math import isfinite

from chronoscale.cuda_ext.native.loader import cpu_library
from chronoscale.errors import ChronoscaleWarning, UserError

LIMIT = 2**31  # of counts that are handed to the library


@cache  # the warning comes once for each that runs slowly
def scheduler(what: str) -> CDLL | None:
    """The library, or None with the warning that `what` in Python then."""
    if (library := cpu_library()) is None:
        message = f"no native library: {what} in Python, minutes where the library takes seconds"
        warnings.warn(message, ChronoscaleWarning, stacklevel=3)
    return library


def bounded(name: str, *numbers: float) -> None:
    """Raises UserError unless the last of the numbers times the sum of the others is a number that a double can hold.

    The library's searches compare sums of times: were they infinite, no choice would be better than another, and none would end.
    """
    *largest, times = (float(number) for number in numbers)
    if not isfinite(sum(largest) * times):
        raise UserError(f"{name}: the largest numbers are too large to be added up in a double; use another unit")
