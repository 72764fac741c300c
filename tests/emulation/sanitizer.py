"""Set-up of the address sanitizer under Python: it has to be loaded before anything else allocates."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from emulation.builder import compiler

_FIRST = ("libasan.so", "libstdc++.so.6")  # without the second it would not find what throws exceptions


def libraries() -> list[str]:
    """Return the libraries to load first, as absolute paths; none where the compiler has no sanitizer."""
    if (command := compiler()) is None:
        return []
    found = [subprocess.run([command, f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip() for name in _FIRST]
    return [str(Path(name).resolve()) for name in found] if all(Path(name).is_absolute() for name in found) else []


def environment() -> dict[str, str]:
    """Return the environment of a process that loads sanitized kernels. Python keeps memory until it ends: leaks are not looked for."""
    ours = {"EMULATION": "sanitized", "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
    return {**os.environ, **ours, "LD_PRELOAD": " ".join(libraries())}
