"""Loader of the native libraries: finds them, checks their version, and declares the argument types of every function for ctypes."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from chronoscale import cuda_ext
from chronoscale.cuda_ext.native import devices
from chronoscale.errors import MachineError

ABI_VERSION = 16
DIRECTORY_VARIABLE = "CHRONOSCALE_LIBRARY_DIR"

_Arguments = dict[str, list[Any]]

_AGGREGATE = [c_int64, *[c_void_p] * 4, c_int64, c_void_p]
_FLOATS: _Arguments = {  # each for float and for double
    "aggregate": _AGGREGATE,
    "increment": [c_int64, *[c_void_p] * 6, c_int64, c_void_p, c_void_p],
    "softmax": [c_int64, *[c_void_p] * 5, c_int, c_void_p, c_void_p, c_double, *[c_void_p] * 4],
    "softmax_grad": [c_int64, *[c_void_p] * 5, c_double, c_void_p, c_void_p, c_int64, *[c_void_p] * 4],
}
_KERNELS: _Arguments = {
    **{f"{name}_{kind}": arguments for name, arguments in _FLOATS.items() for kind in ("f32", "f64")},
    "weigh_f64": _AGGREGATE,
    "rebuild": [c_int64, *[c_void_p] * 11],
}
_HALF: _Arguments = {f"{name}_bf16": _FLOATS[name] for name in ("aggregate", "increment")}  # x in bfloat16, the rest in float
_SLOTS = [*[c_int64] * 7, *[c_void_p] * 9, c_int]
_GATES = [c_int64, c_int64, *[c_void_p] * 4]
_CELL_STEPS: _Arguments = {  # each for float and for double
    "lstm_step": [c_int64, c_int64, *[c_void_p] * 8],
    "lstm_step_grad": [c_int64, c_int64, *[c_void_p] * 10],
    "gru_step": [c_int64, c_int64, *[c_void_p] * 3, c_int64, *[c_void_p] * 4],
    "gru_step_grad": [c_int64, c_int64, *[c_void_p] * 5, c_int, *[c_void_p] * 3],
}
_PROBLEM = [c_int64, POINTER(c_double), c_int64, POINTER(c_double), c_int64]
_EDGES = [c_int64, c_int64, c_void_p, c_void_p, c_int, c_int64, c_void_p, c_int64, c_void_p]
_TABLES = [c_int64, c_void_p, c_int, *[c_int64, c_void_p] * 2, c_int64, c_void_p]
_ON_EDGES: _Arguments = {  # on CUDA; each for float and for double
    "edges": _EDGES,
    "segments": _EDGES,
    "edge_softmax": [c_int64, c_int64, *[c_void_p] * 3],
    "edge_softmax_grad": [c_int64, c_int64, *[c_void_p] * 4],
    "gather": _TABLES,
}
_OF_MODELS: _Arguments = {  # likewise
    "slots": [*_SLOTS, *[c_void_p] * 2],
    "slots_grad": [*_SLOTS, *[c_void_p] * 9],
    "gates": [*_GATES, c_void_p],
    "gates_grad": [*_GATES, *[c_void_p] * 4],
    "encode": [c_int64, c_int64, *[c_void_p] * 5],
    "encode_grad": [c_int64, c_int64, *[c_void_p] * 5],
}
_CPU: _Arguments = {
    **{f"cs_{name}": arguments for name, arguments in (_KERNELS | _HALF).items()},
    **{f"cs_slots_{kind}": [*_SLOTS, *[c_void_p] * 2] for kind in ("f32", "f64")},
    **{f"cs_slots_grad_{kind}": [*_SLOTS, *[c_void_p] * 7] for kind in ("f32", "f64")},
    **{f"cs_gates_{kind}": [*_GATES, c_void_p] for kind in ("f32", "f64")},
    **{f"cs_gates_grad_{kind}": [*_GATES, *[c_void_p] * 4] for kind in ("f32", "f64")},
    **{f"cs_{name}_{kind}": arguments for name, arguments in _CELL_STEPS.items() for kind in ("f32", "f64")},
    **{f"cs_encode_{kind}": [c_int64, c_int64, *[c_void_p] * 5] for kind in ("f32", "f64")},
    **{f"cs_edges_{kind}": _EDGES for kind in ("f32", "f64")},
    **{f"cs_edge_softmax_{kind}": [*[c_int64] * 3, *[c_void_p] * 3] for kind in ("f32", "f64")},
    **{f"cs_edge_softmax_grad_{kind}": [*[c_int64] * 3, *[c_void_p] * 4] for kind in ("f32", "f64")},
    **{f"cs_gather_{kind}": _TABLES for kind in ("f32", "f64")},
    "cs_version": [],
    "cs_set_threads": [c_int],
    "cs_get_threads": [],
    "cs_instruction_set": [],
    "cs_greedy": [*_PROBLEM, c_int64, c_int, c_int, *[POINTER(c_int32)] * 3],
    "cs_band_matching": [c_int64, c_int64, POINTER(c_double), POINTER(c_int32), POINTER(c_double)],
    "cs_tcsr_count": [c_int64, c_int64, c_void_p, c_void_p, c_int, c_void_p],
    "cs_tcsr_fill": [c_int64, c_int64, c_int64, c_void_p, c_void_p, c_int, c_int64, *[c_void_p] * 3],
    "cs_sample": [c_int64, *[c_void_p] * 3, c_int64, c_int64, *[c_void_p] * 3, c_int64, c_int, c_uint64, c_int, *[c_void_p] * 3],
    "cs_boundary": [
        *[c_int64, *[c_void_p] * 3, c_int64, c_int64, c_void_p, c_int, c_void_p, c_void_p, c_int32],
        *[c_int64, c_void_p, c_void_p, c_int64, *[c_double] * 3, c_int, c_int, c_uint64, c_void_p, c_void_p, c_int, *[c_void_p] * 5],
    ],
    "cs_replay": [
        *[c_int64, c_int64, c_void_p, c_void_p, c_int64, *[c_void_p] * 3, c_int64, c_int64, *[c_void_p] * 5],
        *[c_int64, *[c_void_p] * 7],
    ],
    "cs_launches": [*[c_int64] * 3, *[c_void_p] * 16],
    "cs_caches": [c_int64, c_void_p, c_void_p, *[c_int64] * 3, c_void_p],
    "cs_stream_parts": [*[c_int64] * 3, *[c_void_p] * 3, c_int, c_double, *[c_void_p] * 7],
    "cs_restream": [*[c_int64] * 6, *[c_void_p] * 2, *[c_double] * 5, *[c_void_p] * 9],
    "cs_bind": [c_int, c_void_p],
    "cs_unbind": [],
    "cs_bound": [],
    "cs_distinct": [c_int64, c_int64, c_void_p, c_void_p, c_int, *[c_void_p] * 4],
    "cs_exchange": [*_PROBLEM, *[c_double] * 3, c_int64, c_uint64, POINTER(c_int32), POINTER(c_double)],
}
_MORE: _Arguments = {  # on CUDA besides, before what every launch is told
    "aggregate": [c_void_p],
    "weigh": [c_void_p],
    "softmax": [c_void_p],
    "softmax_grad": [c_void_p],
    "rebuild": [c_int64, c_int64, c_void_p, c_int64, c_void_p],
}
_LAUNCH = [c_int64, *[c_void_p] * 3, c_int64, c_int, c_void_p]  # entries, counters, partial, cuts and how many, device, stream
_CUDA_KERNELS: _Arguments = {
    **_KERNELS,
    **_HALF,
    **{f"{name}_{kind}": arguments for name, arguments in (_ON_EDGES | _OF_MODELS | _CELL_STEPS).items() for kind in ("f32", "f64")},
}
_CUDA: _Arguments = {
    **{f"cs_cuda_{name}": [*of, *_MORE.get(name.rpartition("_")[0] or name, []), *_LAUNCH] for name, of in _CUDA_KERNELS.items()},
    "cs_cuda_version": [],
    "cs_cuda_piece": [],
    "cs_cuda_available": [],
    "cs_cuda_last_error": [],
    "cs_cuda_architectures": [],
    "cs_cuda_toolkit": [],
    "cs_cuda_driver": [],
    "cs_cuda_device": [c_int, POINTER(c_int), c_char_p, c_int64],
}
_TEXTS = {"cs_instruction_set", "cs_cuda_last_error", "cs_cuda_architectures"}  # all others return an int


@cache
def cpu_library() -> ctypes.CDLL | None:
    """Return the library of CPU kernels (declared in csrc/common/chronoscale.h), or None where it was not built.

    Raises MachineError when the library is there but does not load or is of another version.
    """
    return _load("libchronoscale_cpu.so", _CPU, "cs_version")


@cache
def cuda_library() -> ctypes.CDLL | None:
    """Return the library of CUDA kernels, or None where it runs on no device of this machine (`cuda_unavailable_reason` says why).

    Raises MachineError when the library is there but does not load or is of another version.
    """
    return None if cuda_unavailable_reason() else _cuda()


@cache
def cuda_unavailable_reason(index: int | None = None) -> str | None:
    """Return why the CUDA kernels do not run on the device of that index (None: on any device), or None where they do.

    Raises MachineError when the library is there but does not load or is of another version.
    """
    library = _cuda()
    if library is None:
        return "no CUDA library was built"
    build, driver, devices_here = devices.read_library(library)
    if not devices_here:
        nothing = "no CUDA device" if library.cs_cuda_available() == 0 else library.cs_cuda_last_error().decode()
        return devices.unavailable_reason(build, driver, None) or nothing
    if index is not None:
        return devices.unavailable_reason(build, driver, devices_here[index]) if index < len(devices_here) else f"no CUDA device {index}"
    reasons = [devices.unavailable_reason(build, driver, device) for device in devices_here]
    return None if None in reasons else "; ".join(dict.fromkeys(reason for reason in reasons if reason))


def versions() -> dict[str, str]:
    """Return the versions of the loaded libraries, for a run's record of its environment: ABI version and instruction set (or
    architectures), or 'absent'."""
    cpu, cuda = cpu_library(), cuda_library()
    return {
        "cpu": "absent" if cpu is None else f"{cpu.cs_version()} ({cpu.cs_instruction_set().decode()})",
        "cuda": f"absent ({cuda_unavailable_reason()})"
        if cuda is None
        else f"{cuda.cs_cuda_version()} ({cuda.cs_cuda_architectures().decode()})",
    }


def require_success(name: str, status: int) -> None:
    """Raise MachineError unless the status that the native function `name` returned is 0."""
    if status:
        raise MachineError(f"native {name} failed with status {status}{' (out of memory)' if status == 2 else ''}")


@cache
def _cuda() -> ctypes.CDLL | None:
    """Load the CUDA library, whether or not a device can run it; None where it was not built."""
    return _load("libchronoscale_cuda.so", _CUDA, "cs_cuda_version")


def library_folders() -> list[str]:
    """Return the folders where libraries are looked for.

    CHRONOSCALE_LIBRARY_DIR, when set, is the only one: whoever sets it wants that build or none. Otherwise they are the package's own
    folders, of which an editable install has two (the sources, and what was built).
    """
    pinned = os.environ.get(DIRECTORY_VARIABLE)
    return [pinned] if pinned else list(cuda_ext.__path__)


def _load(name: str, signatures: _Arguments, version: str) -> ctypes.CDLL | None:
    """Load a library and declare its functions' types; None where no folder has it.

    `version` names the function that returns the library's ABI version.
    """
    path = next((path for folder in library_folders() if (path := Path(folder) / name).is_file()), None)
    if path is None:
        return None
    try:
        library = ctypes.CDLL(str(path))
        for function, arguments in signatures.items():
            getattr(library, function).argtypes = arguments
            getattr(library, function).restype = c_char_p if function in _TEXTS else c_int
    except (OSError, AttributeError) as error:
        raise MachineError(f"{path} does not load: {error}; reinstall chronoscale") from error
    if (built := getattr(library, version)()) != ABI_VERSION:
        raise MachineError(f"{path} has version {built} of the native interface, expected {ABI_VERSION}; reinstall chronoscale")
    return library
