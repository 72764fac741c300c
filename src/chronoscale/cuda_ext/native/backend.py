"""Which implementation runs: named, chosen by device, and never swapped in silence."""

from __future__ import annotations

import os
import warnings
from functools import cache
from importlib.util import find_spec
from operator import index
from types import ModuleType

import torch

from chronoscale.cuda_ext.native import abi
from chronoscale.cuda_ext.native.loader import cpu_library, cuda_unavailable_reason
from chronoscale.cuda_ext.reference import aggregation as reference
from chronoscale.errors import ChronoscaleWarning, UserError, unknown

NAMES = ("reference", "cpu", "cuda")
TRITON = "triton"  # of the operators on edges alone
FLOATS = {torch.float32: "f32", torch.float64: "f64"}  # what kernels are there for, and how their names end
MAX_THREADS = 1024  # of one call (pool.h)
BackendName = str | None  # one of them; None: as the device of the tensors says


def backends() -> list[str]:
    """The names that work on this machine, of 'reference', 'cpu', 'cuda' and 'triton', which the operators on edges have besides."""
    return [name for name in (*NAMES, TRITON) if unavailable_reason(name) is None]


def set_threads(count: int) -> None:
    """How many threads one call of a CPU kernel may use; torch.get_num_threads() at first. Raises UserError below 1."""
    if index(count) < 1:
        raise UserError(f"set_threads({count}): expected at least 1")
    if unavailable_reason("cpu") is None and (library := cpu_library()) is not None:
        library.cs_set_threads(min(count, MAX_THREADS))


def select_kernels(device: torch.device, pinned: BackendName) -> ModuleType:
    """The module (`native` or `reference`) whose functions serve tensors on `device`.

    Raises UserError when `pinned` does not exist, is not available here, or is not for that device.
    """
    if pinned is None:
        return _default(device.type, device.index)
    if pinned == TRITON:
        others = ", ".join(NAMES)
        raise UserError(f"backend '{TRITON}' serves aggregate_edges, edge_softmax and gather_rows alone; expected one of {others}")
    if pinned not in NAMES:
        raise unknown("backend", pinned, NAMES)
    if reason := unavailable_reason(pinned, device.index if pinned == device.type == "cuda" else None):
        raise UserError(f"backend '{pinned}' is not available here: {reason}; available: {', '.join(backends())}")
    if pinned == "reference":
        return reference
    if pinned != device.type:
        raise UserError(f"backend '{pinned}' was given tensors on {device}; expected {pinned} tensors")
    return abi


def select_kernels_without_cuda(what: str, device: torch.device, pinned: BackendName) -> ModuleType:
    """Choose as `select` does for `what`, which has kernels on the CPU alone: on CUDA its reference runs."""
    if pinned == "cuda":
        raise UserError(f"{what} has no kernel for CUDA; there backend 'reference' serves it")
    if pinned is None and device.type == "cuda":
        return reference
    return select_kernels(device, pinned)


@cache
def unavailable_reason(name: str, index: int | None = None) -> str | None:
    """Why a backend does not work here (for 'cuda': on the device of that index, None: on any), or None where it does."""
    if name == "cuda":
        if torch.version.cuda is None:
            return f"torch {torch.__version__} is built without CUDA"
        return cuda_unavailable_reason(index) or (None if torch.cuda.is_available() else "torch finds no CUDA device that it can use")
    if name == "cpu":
        if cpu_library() is None:
            return "no CPU library was built"
        _begin()
    if name == TRITON:
        if find_spec(TRITON) is None:
            return "triton is not installed"
        if not triton_interpreted() and not torch.cuda.is_available():
            return "torch finds no CUDA device that it can use"
    return None


def triton_interpreted() -> bool:
    """Whether Triton interprets its kernels, on CPU tensors: TRITON_INTERPRET=1 before the first of them, for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@cache  # once, whatever `missing` is asked: later calls would undo `set_threads`
def _begin() -> None:
    library = cpu_library()
    assert library is not None
    library.cs_set_threads(torch.get_num_threads())


@cache  # the warning comes once for each device
def _default(kind: str, index: int | None) -> ModuleType:
    reason = ""  # tensors of a kind that no kernels are for
    if kind in ("cpu", "cuda"):
        found = unavailable_reason(kind, index if kind == "cuda" else None)
        if found is None:
            return abi
        reason = f"{found}; "
    warnings.warn(
        f"no native kernels for {kind} tensors: {reason}running on the reference kernels, which are slower",
        ChronoscaleWarning,
        stacklevel=5,
    )
    return reference
