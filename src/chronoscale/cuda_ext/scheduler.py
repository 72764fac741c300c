"""Scheduler: the library whose functions on snapshot groups run. Planning needs no torch, and neither does this."""

from __future__ import annotations

import warnings
from ctypes import CDLL
from functools import cache

from chronoscale.cuda_ext.loader import cpu_library
from chronoscale.errors import ChronoscaleWarning


@cache  # the warning comes once for each that runs slowly
def scheduler(what: str) -> CDLL | None:
    """The library, or None with the warning that `what` in Python then."""
    if (library := cpu_library()) is None:
        message = f"no native library: {what} in Python, minutes where the library takes seconds"
        warnings.warn(message, ChronoscaleWarning, stacklevel=3)
    return library
