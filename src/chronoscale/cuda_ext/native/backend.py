"""Choice of the implementation that runs an operator ('reference', 'cpu', 'cuda', 'triton'): by the tensors' device or by name, never
swapped in silence.
"""

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
from chronoscale.cuda_ext.reference import aggregation as aggregation_reference
from chronoscale.errors import ChronoscaleWarning, UserError, unknown

NAMES = ("reference", "cpu", "cuda")
TRITON = "triton"  # of the operators on edges alone
FLOATS = {torch.float32: "f32", torch.float64: "f64"}  # what kernels are there for, and how their names end
MAX_THREADS = 1024  # of one call (pool.h)
BackendName = str | None  # one of them; None: as the device of the tensors says


def backends() -> list[str]:
    """Return which implementations of the kernels work on this machine, by name, for errors and tests.

    Of 'reference' (plain torch), 'cpu' and 'cuda' (compiled libraries), and 'triton' (only operators on edges).
    """
    return [name for name in (*NAMES, TRITON) if unavailable_reason(name) is None]


def set_threads(count: int) -> None:
    """Set how many threads one call of a compiled CPU kernel may use (torch.get_num_threads() at first). Raises UserError below 1."""
    if index(count) < 1:
        raise UserError(f"set_threads({count}): expected at least 1")
    if unavailable_reason("cpu") is None and (library := cpu_library()) is not None:
        library.cs_set_threads(min(count, MAX_THREADS))


def select_kernels(device: torch.device, backend: BackendName) -> ModuleType:
    """Return the module with the kernels for tensors on `device`: `native.abi` or `reference.aggregation`.

    `backend` None: native kernels where they run on that device, else the reference, with a ChronoscaleWarning that comes once for each
    device.

    Raises UserError when the named backend does not exist, is not available on this machine, or does not serve that device.
    """
    if backend is None:
        return _default(device.type, device.index)
    if backend == TRITON:
        others = ", ".join(NAMES)
        raise UserError(f"backend '{TRITON}' serves aggregate_edges, edge_softmax and gather_rows alone; expected one of {others}")
    if backend not in NAMES:
        raise unknown("backend", backend, NAMES)
    if reason := unavailable_reason(backend, device.index if backend == device.type == "cuda" else None):
        raise UserError(f"backend '{backend}' is not available here: {reason}; available: {', '.join(backends())}")
    if backend == "reference":
        return aggregation_reference
    if backend != device.type:
        raise UserError(f"backend '{backend}' was given tensors on {device}; expected {backend} tensors")
    return abi


def select_kernels_without_cuda(operator: str, device: torch.device, backend: BackendName) -> ModuleType:
    """Return the kernels' module for an operator that has a native kernel only on the CPU: on CUDA the reference (plain torch) runs.

    backend: 'reference', 'cpu', or None: by the tensors' device. Raises UserError as `select_kernels` does, and for 'cuda'; `operator`
    names the operator there.
    """
    if backend == "cuda":
        raise UserError(f"{operator} has no kernel for CUDA; there backend 'reference' serves it")
    if backend is None and device.type == "cuda":
        return aggregation_reference
    return select_kernels(device, backend)


@cache
def unavailable_reason(name: str, index: int | None = None) -> str | None:
    """Return why an implementation of the kernels does not work on this machine, or None where it does, for choosing one by name.

    name: 'reference' (plain torch, always there), 'cpu' or 'cuda' (compiled libraries), or 'triton'. index: of the CUDA device that is
    meant; None: any.
    """
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
    """Return whether Triton interprets its kernels, on CPU tensors, for tests: TRITON_INTERPRET=1 was set before the first of them ran."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@cache  # once, whatever `missing` is asked: later calls would undo `set_threads`
def _begin() -> None:
    """Set the CPU library's number of threads, once: later calls would undo `set_threads`."""
    library = cpu_library()
    assert library is not None
    library.cs_set_threads(torch.get_num_threads())


@cache  # the warning comes once for each device
def _default(device_type: str, index: int | None) -> ModuleType:
    """Return the kernels' module for a kind of device and an index, with a warning where that is the reference."""
    reason = ""  # tensors of a kind that no kernels are for
    if device_type in ("cpu", "cuda"):
        obstacle = unavailable_reason(device_type, index if device_type == "cuda" else None)
        if obstacle is None:
            return abi
        reason = f"{obstacle}; "
    warnings.warn(
        f"no native kernels for {device_type} tensors: {reason}running on the reference kernels, which are slower",
        ChronoscaleWarning,
        stacklevel=5,
    )
    return aggregation_reference
