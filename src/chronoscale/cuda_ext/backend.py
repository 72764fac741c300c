"""Which implementation runs: named, chosen by device, and never swapped in silence."""

from __future__ import annotations

import warnings
from functools import cache
from operator import index
from types import ModuleType

import torch

from chronoscale.cuda_ext import native, reference
from chronoscale.cuda_ext.loader import cpu_library, cuda_library
from chronoscale.errors import ChronoscaleWarning, UserError, unknown

NAMES = ("reference", "cpu", "cuda")
MOST_THREADS = 1024  # of one call (pool.h)
Pinned = str | None  # one of them; None: as the device of the tensors says


def backends() -> list[str]:
    """The names that work on this machine, of 'reference', 'cpu' and 'cuda'."""
    return [name for name in NAMES if _available(name)]


def set_threads(count: int) -> None:
    """How many threads one call of a CPU kernel may use; torch.get_num_threads() at first. Raises UserError below 1."""
    if index(count) < 1:
        raise UserError(f"set_threads({count}): expected at least 1")
    if _available("cpu") and (library := cpu_library()) is not None:
        library.cs_set_threads(min(count, MOST_THREADS))


def select(device: torch.device, pinned: Pinned) -> ModuleType:
    """The module (`native` or `reference`) whose functions serve tensors on `device`.

    Raises UserError when `pinned` does not exist, is not available here, or is not for that device.
    """
    if pinned is None:
        return _default(device.type)
    if pinned not in NAMES:
        raise unknown("backend", pinned, NAMES)
    if not _available(pinned):
        raise UserError(f"backend '{pinned}' is not available here; available: {', '.join(backends())}")
    if pinned == "reference":
        return reference
    if pinned != device.type:
        raise UserError(f"backend '{pinned}' was given tensors on {device}; expected {pinned} tensors")
    return native


@cache  # the warning comes once for each kind of device
def _default(kind: str) -> ModuleType:
    if kind in ("cpu", "cuda") and _available(kind):
        return native
    warnings.warn(
        f"no native kernels for {kind} tensors: running on the reference kernels, which are slower", ChronoscaleWarning, stacklevel=5
    )
    return reference


@cache
def _available(name: str) -> bool:
    if name == "cuda":
        return torch.cuda.is_available() and cuda_library() is not None
    if name == "cpu" and (library := cpu_library()) is not None:
        library.cs_set_threads(torch.get_num_threads())
        return True
    return name == "reference"
